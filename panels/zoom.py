"""Small pools on large terminals: a block drawn as several cells, so that a map of few blocks can be seen.

A zoom changes how large a block is drawn, never how many blocks a cell stands for: it is used only while every block
has a cell of its own.
"""

from typing import NamedTuple

from kvtop.views.rows import Role, Row


class Zoom(NamedTuple):
    """A block is ``glyphs`` cells wide, with ``gap`` blank cells after it and ``gap_rows`` blank rows below."""

    glyphs: int
    gap: int
    gap_rows: int

    @property
    def columns(self) -> int:
        return self.glyphs + self.gap

    def per_row(self, width: int) -> int:
        """Blocks in a row of ``width`` cells; the last one needs no gap."""
        return max(1, (width + self.gap) // self.columns)

    def rows(self, blocks: int, width: int) -> int:
        """Rows that ``blocks`` need; none are left blank after the last."""
        lines = -(-blocks // self.per_row(width))
        return max(1, lines * (1 + self.gap_rows) - self.gap_rows)

    def widen(self, row: Row) -> Row:
        """A row of blocks, drawn at this size."""
        if self.columns == 1:
            return row
        blank, paper = " " * self.gap, bytes((Role.TEXT,)) * self.gap
        text = "".join(glyph * self.glyphs + blank for glyph in row.text)
        roles = b"".join(bytes((role,)) * self.glyphs + paper for role in row.roles)
        return Row(text, roles)


ZOOMS = (Zoom(1, 0, 0), Zoom(2, 0, 0), Zoom(2, 1, 0), Zoom(3, 1, 0), Zoom(3, 1, 1), Zoom(5, 1, 1))
"""Smallest first."""


def fitting(blocks: int, width: int, height: int) -> Zoom:
    """The largest zoom at which ``blocks`` fit; the smallest where none does (then cells stand for several blocks)."""
    return next((zoom for zoom in reversed(ZOOMS) if zoom.rows(blocks, width) <= height), ZOOMS[0])
