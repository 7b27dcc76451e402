"""A file's tensors become the model's weights, one after the other."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.model.errors import ModelError


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of the file. ``heads``: of one whose rows are interleaved, else 0."""

    name: str
    shape: tuple[int, ...]
    heads: int = 0


class Placer:
    """Takes each tensor out of the file once, so that in memory there are never more than the model and the few that become one of its
    matrices. `take` raises `ModelError` for one that is missing or has another shape."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor], device: str, dtype: torch.dtype) -> None:
        self.path, self.device, self.dtype = path, device, dtype
        self._tensors = tensors
        self.left = set(tensors)
        """Names that nobody has taken."""

    def take(self, *parts: Part, plus: float = 0.0) -> Tensor:
        """The parts joined along their rows. ``plus``: is added to every element."""
        taken = [self._read(part) for part in parts]
        joined = torch.cat(taken) if len(taken) > 1 else taken[0]
        if plus:
            joined = joined.float() + plus
        # A copy in any case: the file may be mapped, and change.
        return joined.to(device=self.device, dtype=self.dtype, copy=len(taken) == 1).contiguous()

    def _read(self, part: Part) -> Tensor:
        if part.name not in self.left:
            raise ModelError(f"{self.path}: tensor {part.name} is missing")
        self.left.discard(part.name)
        tensor = self._tensors[part.name]
        if tuple(tensor.shape) != part.shape:
            shapes = f"{list(tensor.shape)}, expected {list(part.shape)}"
            raise ModelError(f"{self.path}: tensor {part.name} is {shapes}")
        return rotate_half_rows(tensor, part.heads) if part.heads else tensor


def rotate_half_rows(weight: Tensor, heads: int) -> Tensor:
    """GGUF stores the rows of query and key projections for interleaved rotary pairs; order them for rotate-half."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)
