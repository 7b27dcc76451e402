"""How large a block is drawn: from the whole pool on the panel, many blocks a cell, to a few blocks with what is in them.

Small pools on large terminals are drawn large by themselves; the user goes in and out from there.
"""

from typing import NamedTuple


class Zoom(NamedTuple):
    """A block is ``glyphs`` cells wide, with ``gap`` blank cells after it. From `CONTENT` cells on it tells its owner and
    what is written to it too."""

    glyphs: int
    gap: int

    @property
    def columns(self) -> int:
        return self.glyphs + self.gap

    def per_row(self, width: int) -> int:
        """Blocks in a row of ``width`` cells; the last one needs no gap."""
        return max(1, (width + self.gap) // self.columns)

    def rows(self, blocks: int, width: int) -> int:
        """Rows that ``blocks`` need."""
        return max(1, -(-blocks // self.per_row(width)))


CONTENT = 3
"""Cells of a block from which on there is room for its own glyph, its owner's letter and its fill."""

COUNTED = 5
"""The same with its fill in tokens."""

ZOOMS = (Zoom(1, 0), Zoom(2, 0), Zoom(2, 1), Zoom(CONTENT, 1), Zoom(COUNTED, 1))
"""Smallest first. There are no blank rows between blocks: whatever rows a map leaves are of more use to other panels."""


def fitting(blocks: int, width: int, height: int) -> Zoom:
    """The largest zoom at which ``blocks`` fit; the smallest where none does (then cells stand for several blocks)."""
    return next((zoom for zoom in reversed(ZOOMS) if zoom.rows(blocks, width) <= height), ZOOMS[0])


class Scale(NamedTuple):
    """So many blocks a cell; where it is one, drawn at that zoom."""

    per_cell: int
    zoom: Zoom

    @property
    def fineness(self) -> tuple[int, int]:
        """Rises as one goes in."""
        return -self.per_cell, self.zoom.columns * self.zoom.glyphs


def scales(blocks: int, width: int, height: int) -> list[Scale]:
    """All there are for a panel of ``width`` x ``height`` cells: first the one that shows the whole pool, each of the
    others nearer. In between a cell stands for a power of two."""
    whole = fitting(blocks, width, height)
    most = max(1, -(-blocks // max(1, width * height)))
    found = [Scale(most, ZOOMS[0])] if most > 1 else []
    per_cell = 1 << max(0, (most - 1).bit_length() - 1)
    while most > 1 and per_cell > 1:
        found.append(Scale(per_cell, ZOOMS[0]))
        per_cell //= 2
    return found + [Scale(1, zoom) for zoom in ZOOMS[ZOOMS.index(whole) :]]


def nearest(found: list[Scale], chosen: Scale | None) -> int:
    """The place among ``found`` of what is nearest to ``chosen``, no finer; 0, the whole, where nothing was chosen."""
    if chosen is None:
        return 0
    return max((place for place, scale in enumerate(found) if scale.fineness <= chosen.fineness), default=0)
