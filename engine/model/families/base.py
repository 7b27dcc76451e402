"""What tells one family of models from another: how its files describe it and name its weights, and how it computes."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.files.base import ModelFiles
from engine.model.files.names import TensorNames
from engine.model.weights import Weights


@dataclass(frozen=True, slots=True)
class Description:
    """A family in one file format.

    ``called``: what files call it. ``config``: the configuration in them, but for what they say of every model
    (``eos_ids``, ``revision``, ``stored_as``). It reads every field that changes what is computed, and raises
    `engine.model.errors.ModelError` for what the decoder does not compute, ValueError for what makes no sense.
    """

    called: str
    config: Callable[[ModelFiles], ModelConfig]
    names: TensorNames


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """An entry of `engine.model.families.FAMILIES`. A format that a family never comes in is None."""

    name: str
    gguf: Description | None = None
    hf: Description | None = None
    decoder: Callable[[ModelConfig, Weights], Decoder] = Decoder
