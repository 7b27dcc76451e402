"""Stacked columns over several rows: two parts of a whole, one column a step, against a bound."""

from collections.abc import Sequence
from functools import lru_cache

from kvtop.views.fit import cut
from kvtop.views.rows import Role, Row


def stacked_rows(
    columns: Sequence[tuple[float, float] | None],
    top: float,
    width: int,
    height: int,
    *,
    glyphs: tuple[str, str],
    roles: tuple[int, int],
    eighths: str,
    axis: Sequence[str],
) -> list[Row]:
    """``height`` rows: the latest of ``columns`` at the right edge, each the first part below and the second above it.

    Args:
        columns: Parts of each step; None: unknown, left blank.
        top: What the whole height stands for; above it a column is cut.
        glyphs: A whole cell of the first and of the second part.
        roles: Of the two.
        eighths: From an empty to a whole cell, for the uppermost cell of a column.
        axis: Labels at the left, from the uppermost row down, all of one length; rows beyond them have none.
    """
    margin = len(axis[0]) if axis else 0
    room = max(0, width - margin)
    shown = list(columns)[-room:] if room else []
    cells = [_column(parts, top, height, glyphs, roles, eighths) for parts in shown]
    texts = ["".join(line) for line in zip(*[text for text, _ in cells], strict=True)] or [""] * height
    shades = [bytes(line) for line in zip(*[shade for _, shade in cells], strict=True)] or [b""] * height
    left = " " * (room - len(shown))
    rows = []
    for y in range(height):
        label = axis[y] if y < len(axis) else " " * margin
        text = label + left + texts[y]
        row = Row(text, bytes((Role.DIM,)) * len(label) + bytes((Role.TEXT,)) * len(left) + shades[y])
        rows.append(row if len(text) == width else cut(row, width))
    return rows


@lru_cache(8192)
def _column(
    parts: tuple[float, float] | None,
    top: float,
    height: int,
    glyphs: tuple[str, str],
    roles: tuple[int, int],
    eighths: str,
) -> tuple[str, bytes]:
    """The cells of one column from above, and their roles. Most columns are as one before: a scroll draws few anew."""
    if parts is None or top <= 0:
        return " " * height, bytes((Role.TEXT,)) * height
    steps = len(eighths) - 1
    first = min(1.0, max(0.0, parts[0]) / top) * height
    whole = min(1.0, max(0.0, parts[0] + parts[1]) / top) * height
    text, shade = "", []
    for low in range(height - 1, -1, -1):
        filled = min(1.0, max(0.0, whole - low))
        below = min(1.0, max(0.0, first - low))
        part = 0 if below >= filled / 2 else 1
        if filled <= 0:
            # What is nothing still is a step, and no gap.
            text += eighths[0] if low == 0 else " "
            shade.append(int(Role.DIM if low == 0 else Role.TEXT))
        else:
            text += glyphs[part] if filled > 1 - 0.5 / steps else eighths[max(1, round(filled * steps))]
            shade.append(roles[part])
    return text, bytes(shade)
