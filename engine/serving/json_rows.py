"""Rows of numbers as JSON, made by whole columns: what numpy works on in one call leaves the engine's thread alone.

A keyframe of a fragmented pool has a million rows. Made one by one they would hold the interpreter's lock, and with it
the engine, for seconds; ufuncs over large arrays let go of it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

CHUNK = 65_536
"""Rows made at once: some megabytes of scratch memory."""

_Piece = tuple[NDArray[np.uint8], NDArray[np.bool_]]
"""Characters of one column, a row each, and which of them are written."""

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def json_rows(columns: Sequence["Column"]) -> bytes:
    """``[a,b],[c,d]`` for columns of equal length; empty where they have no rows."""
    size = len(columns[0].values)
    parts = []
    for first in range(0, size, CHUNK):
        pieces = [_text(b"[", min(CHUNK, size - first))]
        for column in columns:
            pieces += column.pieces(first, first + CHUNK)
            pieces.append(_text(b",", len(pieces[0][0])))
        pieces[-1] = _text(b"],", len(pieces[0][0]))
        characters = np.concatenate([piece[0] for piece in pieces], axis=1)
        written = np.concatenate([piece[1] for piece in pieces], axis=1)
        parts.append(characters[written].tobytes())
    return b"".join(parts)[:-1]


class Column:
    """One value a row. Base: whole numbers."""

    def __init__(self, values: NDArray[np.generic]) -> None:
        self.values = values

    def pieces(self, first: int, end: int) -> list[_Piece]:
        """Rows ``first`` up to ``end``, as characters."""
        values = self.values[first:end].astype(np.int64)
        if not (values < 0).any():
            return [_digits(values)]
        sign = np.full((len(values), 1), ord("-"), np.uint8)
        return [(sign, (values < 0)[:, None]), _digits(np.abs(values))]


class Hashes(Column):
    """64-bit hashes as strings of 16 hexadecimal digits."""

    def pieces(self, first: int, end: int) -> list[_Piece]:
        values = self.values[first:end].astype(np.uint64)
        nibbles = (values[:, None] >> np.arange(60, -4, -4, dtype=np.uint64)) & np.uint64(15)
        characters = _HEX[nibbles.astype(np.intp)]
        quote = _text(b'"', len(values))
        return [quote, (characters, np.ones_like(characters, np.bool_)), quote]


class Seconds(Column):
    """Seconds, not negative, to the millisecond."""

    def pieces(self, first: int, end: int) -> list[_Piece]:
        ms = np.rint(self.values[first:end].astype(np.float64) * 1000.0).astype(np.int64)
        below = np.empty((len(ms), 3), np.uint8)
        for place, power in enumerate((100, 10, 1)):
            below[:, place] = ms // power % 10 + ord("0")
        return [_digits(ms // 1000), _text(b".", len(ms)), (below, np.ones_like(below, np.bool_))]


def _text(text: bytes, rows: int) -> _Piece:
    characters = np.broadcast_to(np.frombuffer(text, np.uint8), (rows, len(text)))
    return characters, np.ones((rows, len(text)), np.bool_)


def _digits(values: NDArray[np.int64]) -> _Piece:
    """Decimal digits of numbers from 0 on, without leading zeros."""
    width = len(str(int(values.max()))) if len(values) else 1
    characters = np.empty((len(values), width), np.uint8)
    written = np.ones((len(values), width), np.bool_)
    left = values
    for place in range(width - 1, -1, -1):
        if place < width - 1:
            written[:, place] = left > 0
        shorter = left // 10
        characters[:, place] = left - shorter * 10 + ord("0")
        left = shorter
    return characters, written
