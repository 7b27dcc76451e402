"""Drawing a dialog: a framed card of cells, text wrapped to its width, and a row of buttons."""

import textwrap
from collections.abc import Iterable, Sequence

from kvtop.views.rows import HIGHLIGHT, Role, Row, RowBuilder, clean


def wrapped(text: str, width: int, role: int = Role.TEXT, mark: str = "") -> list[Row]:
    """``text`` in rows of at most ``width`` cells; ``mark`` stands before the first one, the others are indented."""
    lines = textwrap.wrap(clean(text, 2000), max(8, width - len(mark))) or [""]
    indent = " " * len(mark)
    return [
        RowBuilder().add(indent if i else mark, role).add(line, role).row(width, Role.TEXT)
        for i, line in enumerate(lines)
    ]


def buttons(labels: Sequence[str], chosen: int, width: int) -> Row:
    """The buttons on the right of one row. The chosen one is reversed and in angle brackets, so it shows without colour."""
    parts = [f"> {label} <" if i == chosen else f"[ {label} ]" for i, label in enumerate(labels)]
    builder = RowBuilder().to(width - sum(map(len, parts)) - 2 * (len(parts) - 1))
    for i, part in enumerate(parts):
        builder.add("  " if i else "").add(part, Role.STRONG | HIGHLIGHT if i == chosen else Role.KEY)
    return builder.row(width)


def in_view(rows: Sequence[Row], focus: range, width: int, height: int) -> list[Row]:
    """At most ``height`` of ``rows``, those of ``focus`` among them, in the middle where possible; says how many lines
    are above and below."""
    if len(rows) <= height:
        return list(rows)
    height = max(3, height)
    middle = (focus.start + min(focus.stop, focus.start + height - 2)) // 2
    first = max(0, min(middle - height // 2, len(rows) - height))
    shown = list(rows[first : first + height])
    below = len(rows) - first - height
    if first:
        shown[0] = RowBuilder().add(f"… {first + 1} more lines above", Role.DIM).row(width)
    if below:
        shown[-1] = RowBuilder().add(f"… {below + 1} more lines below", Role.DIM).row(width)
    return shown


def filled(body: Sequence[Row], last: Row, width: int, height: int) -> list[Row]:
    """``body`` and at the bottom ``last``, ``height`` rows in all; says so where rows of the body are left out."""
    room = max(0, height - 1)
    if len(body) > room > 0:
        left_out = RowBuilder().add(f"… and {len(body) - room + 1} more lines", Role.DIM).row(width)
        body = [*body[: room - 1], left_out]
    return [*body[:room], *[Row("", b"")] * (room - len(body)), last]


def card(title: str, rows: Iterable[Row], width: int, height: int, keys: str = "") -> list[Row]:
    """``rows`` in a frame of ``width`` x ``height`` cells with a title above and the keys that work below.

    Rows that do not fit are cut at the end; the last row always stays, for it holds the buttons.
    """
    inner = width - 4
    body = list(rows)
    room = height - 2
    if len(body) > room:
        body = [*body[: room - 1], body[-1]]
    top = RowBuilder().add("┌─ ", Role.BORDER).add(clean(title)[: inner - 2], Role.TITLE).add(" ", Role.BORDER)
    top.add("─" * (width - top.width - 1) + "┐", Role.BORDER)
    framed = [top.row(width)]
    for row in body:
        cut = RowBuilder().add("│ ", Role.BORDER).row(2)
        pad = max(0, inner - len(row.text))
        framed.append(
            Row(
                cut.text + row.text[:inner] + " " * pad + " │",
                cut.roles + row.roles[:inner] + bytes(pad) + bytes((Role.BORDER,)) * 2,
            )
        )
    blank = Row("│" + " " * (width - 2) + "│", bytes((Role.BORDER,)) * width)
    framed += [blank] * (room - len(body))
    note = f" {keys} "[: max(0, inner)] if keys else ""
    bottom = (
        RowBuilder().add("└" + "─" * (width - 3 - len(note)), Role.BORDER).add(note, Role.DIM).add("─┘", Role.BORDER)
    )
    return [*framed, bottom.row(width)]
