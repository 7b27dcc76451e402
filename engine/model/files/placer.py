"""A file's tensors become the model's weights, one after the other."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.model.errors import ModelError


class Placer:
    """Takes each tensor out of the file once, so that in memory there are never more than the model and the few that become one of its
    matrices. `take` raises `ModelError` for one that is missing or has another shape."""

    def __init__(self, path: Path, tensors: Mapping[str, Tensor], device: str, dtype: torch.dtype) -> None:
        self.path, self.device, self.dtype = path, device, dtype
        self._tensors = tensors
        self.left = set(tensors)
        """Names that nobody has taken."""

    def take(
        self, shape: tuple[int, ...], *names: str, unpermute: Mapping[str, int] | None = None, plus: float = 0.0
    ) -> Tensor:
        """The named tensors joined along their rows. ``unpermute``: heads of those whose rows are interleaved. ``plus``: is
        added to every element."""
        parts = []
        for name in names:
            if name not in self.left:
                raise ModelError(f"{self.path}: tensor {name} is missing")
            self.left.discard(name)
            parts.append(self._tensors[name])
        found = [tuple(part.shape) for part in parts]
        if any(len(each) != len(shape) or each[1:] != shape[1:] for each in found) or (
            sum(each[0] for each in found) != shape[0]
        ):
            shown = " + ".join(str(list(each)) for each in found)
            raise ModelError(f"{self.path}: {' + '.join(names)} is {shown}, expected {list(shape)}")
        for place, name in enumerate(names):
            if unpermute and name in unpermute:
                parts[place] = rotate_half_rows(parts[place], unpermute[name])
        joined = torch.cat(parts) if len(parts) > 1 else parts[0]
        if plus:
            joined = joined.float() + plus
        # A copy in any case: the file may be mapped, and change.
        return joined.to(device=self.device, dtype=self.dtype, copy=len(parts) == 1).contiguous()


def rotate_half_rows(weight: Tensor, heads: int) -> Tensor:
    """GGUF stores the rows of query and key projections for interleaved rotary pairs; order them for rotate-half."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)
