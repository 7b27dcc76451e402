"""Plain text tables for the shell."""

from collections.abc import Sequence

from kvtop.views.clusters import spell
from kvtop.views.rows import clean


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns two blanks apart, each as wide as its widest cell."""
    cells = [list(headings), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return spell("\n".join(lines))


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
