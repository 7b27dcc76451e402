"""The one shape in which every view hands text to a panel: a row of cells, each with a role.

A *role* says what a cell means (a warning, a shared block, the third owner); a palette in `kvtop.term` says how
that looks at a colour depth. Views know roles only, so they run and are tested without a terminal.
"""

from enum import IntEnum
from typing import NamedTuple

from kvtop.views.clusters import in_cells

HIGHLIGHT = 0x80
"""Added to a role: the cell is under a cursor, or belongs to what is selected."""

OWNERS = 12
"""Distinct owner colours; owners beyond that share them."""

HEAT_STEPS = 8


class Role(IntEnum):
    """What a cell means. Below 128: `HIGHLIGHT` is the eighth bit."""

    TEXT = 0
    DIM = 1
    STRONG = 2
    TITLE = 3
    GOOD = 4
    WARN = 5
    BAD = 6
    ACCENT = 7
    KEY = 8
    BORDER = 9
    STATE0 = 16  # … 31: states of blocks, see `kvtop.views.block_states`
    OWNER0 = 32  # … OWNER0 + OWNERS - 1
    HEAT0 = 48  # … HEAT0 + HEAT_STEPS - 1, oldest first
    SHARE0 = 64  # … SHARE0 + HEAT_STEPS - 1, fewest references first
    FLASH0 = 80  # … FLASH0 + 1: a cell that changed just now, the brightest last


class Row(NamedTuple):
    """``text`` has as many characters as cells; ``roles`` has one byte a cell (`Role`, maybe | `HIGHLIGHT`)."""

    text: str
    roles: bytes


def clean(text: str, limit: int = 256) -> str:
    """``text`` in printable cells, one character each (see `kvtop.views.clusters`): controls and escapes become ``?``.

    Names come from outside; a terminal must never interpret them, and a column must keep its width.
    """
    text = text[:limit]
    return text if text.isascii() and text.isprintable() else in_cells(text)


class RowBuilder:
    """Builds a `Row` left to right. Text given to `add` must already be in cells (see `clean`)."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._roles: list[bytes] = []
        self.width = 0

    def add(self, text: str, role: int = Role.TEXT) -> "RowBuilder":
        self._text.append(text)
        self._roles.append(bytes((role,)) * len(text))
        self.width += len(text)
        return self

    def to(self, column: int, role: int = Role.TEXT) -> "RowBuilder":
        """Pads with blanks up to ``column``; does nothing if already there."""
        return self.add(" " * max(0, column - self.width), role)

    def row(self, width: int | None = None, fill: int = Role.TEXT) -> Row:
        """The row, cut or padded to ``width`` cells."""
        text, roles = "".join(self._text), b"".join(self._roles)
        if width is None or width == len(text):
            return Row(text, roles)
        if width < len(text):
            return Row(text[:width], roles[:width])
        return Row(text + " " * (width - len(text)), roles + bytes((fill,)) * (width - len(roles)))


def highlighted(row: Row) -> Row:
    """The same row as a whole under the cursor."""
    return Row(row.text, bytes(r | HIGHLIGHT for r in row.roles))
