"""A file's tensors become the model's weights, one after the other."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.model.gguf import GgufError


class Placer:
    """Takes tensors out of the file's dictionary, so that the float32 copy goes as the model comes. `take` raises `GgufError` for
    one that is missing or has another shape."""

    def __init__(self, path: Path, tensors: dict[str, NDArray[np.float32]], device: str, dtype: torch.dtype) -> None:
        self.path, self.tensors, self.device, self.dtype = path, tensors, device, dtype

    def take(self, shape: tuple[int, ...], *names: str, unpermute: Mapping[str, int] | None = None) -> Tensor:
        """The named tensors joined along their rows. ``unpermute``: heads of those whose rows are interleaved."""
        parts = []
        for name in names:
            data = self.tensors.pop(name, None)
            if data is None:
                raise GgufError(f"{self.path}: tensor {name} is missing")
            if unpermute and name in unpermute:
                data = rotate_half_rows(data, unpermute[name])
            parts.append(data)
        try:
            joined = np.concatenate(parts) if len(parts) > 1 else parts[0]
        except ValueError:
            joined = parts[0]
        if joined.shape != shape:
            raise GgufError(f"{self.path}: {' + '.join(names)} is {list(joined.shape)}, expected {list(shape)}")
        return torch.from_numpy(np.ascontiguousarray(joined)).to(device=self.device, dtype=self.dtype)


def rotate_half_rows(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF stores the rows of query and key projections for interleaved rotary pairs; order them for rotate-half."""
    rows = weight.shape[0]
    return weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)
