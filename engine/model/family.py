"""What tells one family of models from another: how a file describes it and names its weights, and how it computes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.model.decoder import Decoder, ModelConfig, Weights
from engine.model.placer import Placer


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """An entry of `engine.model.families.FAMILIES`."""

    architecture: str
    """What a file calls it."""
    config: Callable[[Mapping[str, Any], Path], ModelConfig]
    """The configuration in a file's metadata, but for what a file says of every model: ``eos_ids``, ``revision`` and
    ``stored_as``. Raises KeyError, ValueError or TypeError where it is not complete, and `engine.model.gguf.GgufError` for
    what the decoder does not compute."""
    weights: Callable[[ModelConfig, Placer], Weights]
    """Takes every tensor of the file. Raises `engine.model.gguf.GgufError` for one that is missing or has another shape."""
    decoder: Callable[[ModelConfig, Weights], Decoder] = Decoder
