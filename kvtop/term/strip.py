"""A row of cells as a Textual strip: segments only when somebody asks for them."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from kvtop.term.palette import LOOK_SHIFT, Palette
from kvtop.term.sgr import PLAIN, switch
from kvtop.views.clusters import CONTINUATION, FIRST_WIDE, whole
from kvtop.views.rows import Row

Cells = npt.NDArray[np.uint32]

BLANK: Final = 0x20
"""The cell of a space on plain paper: code point 32 in look 0."""

_CODE = (1 << LOOK_SHIFT) - 1
_KEPT: Final = frozenset(Strip.__slots__)
_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "?")


def paired(cells: Cells) -> Cells:
    """``cells`` in which both cells of what is wide look as the first, and the half of what was cut in two is a blank.

    What is wide (see `kvtop.views.clusters`) is written at once, so it can have but one look.
    """
    codes = cells & _CODE
    second = codes == ord(CONTINUATION)
    first = codes >= FIRST_WIDE
    lone = first & ~np.append(second[1:], False) | second & ~np.append(False, first[:-1])
    cells[lone] = cells[lone] & ~np.uint32(_CODE) | BLANK
    seconds = np.flatnonzero(second & ~lone)
    cells[seconds] = cells[seconds - 1] & ~np.uint32(_CODE) | ord(CONTINUATION)
    return cells


class CellStrip(Strip):
    """One row of cells with a role each; two of them hold what is wide (see `kvtop.views.clusters`).

    Textual keeps a line as segments of text and style; building, cropping and encoding those is most of a frame. This
    strip keeps text and role bytes, slices them when it is cropped or divided, and makes segments only for what needs
    them (screenshots, tints). Control characters become ``?``: a strip never carries an escape sequence.

    Args:
        text: As many characters as cells.
        roles: One byte a cell.
        palette: How roles look.

    Raises:
        ValueError: ``text`` and ``roles`` differ in length.
    """

    __slots__ = ("_built", "_cells", "_text", "palette", "roles")

    def __init__(self, text: str, roles: bytes, palette: Palette) -> None:
        if len(text) != len(roles):
            raise ValueError(f"A row of {len(text)} characters has {len(roles)} roles.")
        self._built: list[Segment] | None = None
        self._cells: Cells | None = None
        self._text = text if text.isprintable() else whole(text.translate(_CONTROLS))
        self.roles = roles
        self.palette = palette

    def __getattr__(self, name: str) -> Any:
        """Comes here for what Textual keeps of a strip: seven caches, which few strips are ever asked for."""
        if name not in _KEPT:
            raise AttributeError(name)
        super().__init__((), len(self._text))
        return getattr(self, name)

    @classmethod
    def from_row(cls, row: Row, width: int, palette: Palette) -> "CellStrip":
        """``row`` cut, or padded with plain blanks, to ``width`` cells."""
        text, roles = row
        missing = width - len(text)
        if missing > 0:
            return cls(text + " " * missing, roles + bytes(missing), palette)
        return cls(text[:width], roles[:width], palette) if missing else cls(text, roles, palette)

    @property
    def _segments(self) -> list[Segment]:
        if self._built is None:
            text, style = self._text, self.palette.style
            self._built = [Segment(text[m.start() : m.end()], style(m[1][0])) for m in _RUN.finditer(self.roles)]
        return self._built

    @_segments.setter
    def _segments(self, segments: list[Segment]) -> None:
        """Textual's constructor sets an empty list; there is nothing to keep."""

    @property
    def text(self) -> str:
        return self._text

    @property
    def cell_count(self) -> int:
        return len(self._text)

    @property
    def cells(self) -> Cells:
        """``uint32[width]``: code point and look of each cell. Equal cells look equal."""
        if self._cells is None:
            cells = _cells(self._text, self.roles, self.palette)
            self._cells = cells if self._text.isprintable() else paired(cells)
        return self._cells

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CellStrip):
            return self._text == other._text and self.roles == other.roles and self.palette is other.palette
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def crop(self, start: int, end: int | None = None) -> Strip:
        width = len(self._text)
        start, end = max(0, start), width if end is None else min(end, width)
        if start == 0 and end == width:
            return self
        if start >= end:
            return Strip([], 0)
        return CellStrip(self._text[start:end], self.roles[start:end], self.palette)

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        width = len(self._text)
        wanted = [cut for cut in cuts if cut <= width]
        if wanted == [width]:
            return [self]
        starts = [0, *wanted[:-1]]
        return [
            CellStrip(self._text[start:end], self.roles[start:end], self.palette)
            for start, end in zip(starts, wanted, strict=True)
        ]

    def render(self, console: Console) -> str:
        """The row as text and escape sequences, from and to plain looks. ``console`` has no say: the palette has."""
        if self._render_cache is None:
            looks, bits, text = self.palette.looks, self.palette.cell_bits, self._text
            out: list[str] = []
            current = PLAIN
            for match in _RUN.finditer(self.roles):
                look, piece = looks[bits[match[1][0]] >> LOOK_SHIFT], text[match.start() : match.end()]
                if current.leaves_blanks_alone and look.leaves_blanks_alone and piece.isspace():
                    out.append(piece)
                    continue
                out.append(switch(current, look))
                out.append(piece)
                current = look
            out.append(switch(current, PLAIN))
            self._render_cache = "".join(out)
        return self._render_cache


def cells_of(rows: Sequence[Row], width: int, palette: Palette) -> Cells:
    """``uint32[rows, width]``: the cells of rows, cut or padded, as their strips would have them; all at once."""
    text = "".join([row.text.ljust(width) if len(row.text) <= width else row.text[:width] for row in rows])
    if not text.isprintable():
        return np.stack([CellStrip.from_row(row, width, palette).cells for row in rows])
    roles = b"".join([row.roles.ljust(width, b"\0") if len(row.roles) <= width else row.roles[:width] for row in rows])
    return _cells(text, roles, palette).reshape(len(rows), width)


def _cells(text: str, roles: bytes, palette: Palette) -> Cells:
    codes = np.frombuffer(text.encode("utf-32-le", "replace"), dtype=np.uint32)
    looks = np.frombuffer(roles, dtype=np.uint8)
    cells = codes | palette.cell_bits[looks]
    cells[(codes == BLANK) & palette.plain[looks]] = BLANK
    return cells
