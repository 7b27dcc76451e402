"""What is known of a model's files once they are open, whatever their format."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from engine.model.files.fields import Fields


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """``called``: what the files call the model's family. ``fields``: their settings for it. ``vocab``: tokens there are.

    ``tensors``: by the name in the file, each read from the disk when it is asked for, in a float type, shaped
    ``[outputs, inputs]``.
    """

    path: Path
    name: str
    called: str
    fields: Fields
    vocab: int
    tensors: Mapping[str, Tensor]
    revision: str
    """First 12 hex digits of a SHA-256 over the weights."""

    stored_as: str
    """Type that most of the weights have."""
