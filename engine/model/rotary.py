"""Tables of cosines and sines for a layer's rotary positions."""

import torch
from torch import Tensor

from engine.model.rope import Rope

_FIRST = 1024
"""Positions of the first table; it doubles when one beyond it is asked for, so that a model's context costs nothing
until it is used."""


class RotaryTables:
    """Cosines and signed sines, ``[positions, 1, head_size]``: rotated = x * cos + roll(x, head_size / 2) * sin."""

    def __init__(self, rope: Rope, head_size: int, context: int, device: torch.device, dtype: torch.dtype) -> None:
        self._frequencies = torch.from_numpy(rope.frequencies(head_size))
        self._magnitude = rope.magnitude
        self._context, self._device, self._dtype = context, device, dtype
        self._cosines, self._sines = self._tables(min(_FIRST, context))

    def at(self, positions: Tensor, reach: int) -> tuple[Tensor, Tensor]:
        """Their rows for ``positions`` (int64), all of them below ``reach``."""
        if reach > len(self._cosines):
            self._cosines, self._sines = self._tables(min(self._context, max(reach, 2 * len(self._cosines))))
        return self._cosines.index_select(0, positions), self._sines.index_select(0, positions)

    def _tables(self, count: int) -> tuple[Tensor, Tensor]:
        angles = torch.arange(count, dtype=torch.float64)[:, None] * self._frequencies
        cosines, sines = angles.cos() * self._magnitude, angles.sin() * self._magnitude
        return self._placed(torch.cat([cosines, cosines], dim=-1)), self._placed(torch.cat([-sines, sines], dim=-1))

    def _placed(self, table: Tensor) -> Tensor:
        return table[:, None].to(device=self._device, dtype=self._dtype)
