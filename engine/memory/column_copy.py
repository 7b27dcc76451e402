"""A copy of arrays that change all the time, made in pieces and right as of its last patch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PIECE = 32_768
"""Entries of one column copied at once: a fraction of a millisecond."""


class ColumnCopy:
    """Copies of ``sources``, arrays of equal length. Between two pieces, what changed is patched in; when all pieces are
    there, the copies are what the sources were at the latest `patch`."""

    def __init__(self, sources: Sequence[NDArray[np.generic]]) -> None:
        self._sources = sources
        # Written to here and now: memory comes with its first touch, 2 MB at once, which takes milliseconds.
        self.columns: list[NDArray[np.generic]] = [source.copy() for source in sources]
        self._left: list[tuple[int, int]] = []
        self.start()

    def start(self) -> None:
        """From the beginning; what was copied before is overwritten."""
        size = len(self._sources[0])
        self._left = [(column, first) for column in range(len(self._sources)) for first in range(0, size, PIECE)]
        self._left.reverse()

    @property
    def done(self) -> bool:
        return not self._left

    def advance(self) -> None:
        """One piece more."""
        column, first = self._left.pop()
        piece = slice(first, first + PIECE)
        self.columns[column][piece] = self._sources[column][piece]

    def patch(self, entries: NDArray[np.intp]) -> None:
        """These entries have changed."""
        for source, column in zip(self._sources, self.columns, strict=True):
            column[entries] = source[entries]
