"""Plain text tables for the shell."""

import os
from collections.abc import Sequence
from typing import TextIO

from kvtop.views.clusters import spell
from kvtop.views.format import fixed, short
from kvtop.views.rows import clean

GAP = 2
"""Blanks between two columns."""

LEAST = 8
"""Cells that a column keeps which is cut for the others."""


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, width: int | None = None, cut: Sequence[str] = ()
) -> str:
    """Columns two blanks apart, each as wide as its widest cell.

    ``width``: cells of the terminal; None where there is none, and all is told. In one that is too narrow the columns headed
    ``cut`` are, the first of them first, and then whatever stands beyond its edge."""
    cells = [list(headings), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    if width is not None:
        for heading in cut:
            if heading in headings:
                column = headings.index(heading)
                beyond = sum(widths) + GAP * (len(widths) - 1) - width
                widths[column] -= max(0, min(beyond, widths[column] - LEAST))
    lines = ["  ".join(map(fixed, row, widths)).rstrip() for row in cells]
    return spell("\n".join(lines if width is None else [short(line, width) for line in lines]))


def columns(stream: TextIO) -> int | None:
    """Cells of the terminal that ``stream`` goes to; None where it goes to none, or to one that does not say."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def number(value: int | float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def age(seconds: float | None) -> str:
    """A length of time in its two largest units."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"
