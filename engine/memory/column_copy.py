"""A copy of arrays that change all the time, made in pieces and right as of its last patch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PIECE = 32_768
"""Entries copied at once: a fraction of a millisecond."""


class ColumnCopy:
    """Copies of ``sources``, arrays of equal length. Between two pieces, what changed is patched in; when all pieces are
    there, the copies are what the sources were at the latest `patch`."""

    def __init__(self, sources: Sequence[NDArray[np.generic]]) -> None:
        self._sources = sources
        self.columns: list[NDArray[np.generic]] = [np.empty_like(source) for source in sources]
        self._next = 0

    @property
    def done(self) -> bool:
        return self._next >= len(self._sources[0])

    def advance(self) -> None:
        """One piece more."""
        piece = slice(self._next, self._next + PIECE)
        for source, column in zip(self._sources, self.columns, strict=True):
            column[piece] = source[piece]
        self._next += PIECE

    def patch(self, entries: NDArray[np.intp]) -> None:
        """These entries have changed."""
        for source, column in zip(self._sources, self.columns, strict=True):
            column[entries] = source[entries]
