"""What the numbers of a panel mean, as rows: name, what it is now, unit and window; below, its definition."""

from collections.abc import Callable, Sequence

from kvtop.state import RequestRow
from kvtop.views.definition import Number, Section
from kvtop.views.format import called, short
from kvtop.views.present import of_a_request
from kvtop.views.rows import Role, Row, RowBuilder
from panels.dialogs.wrapping import wrapped

INDENT = 4
NAME_COLUMN = 20


def number_rows(
    width: int, sections: Sequence[Section], value: Callable[[Number], str], selected: RequestRow | None
) -> list[Row]:
    """``value``: what a number is now. ``selected``: the request whose numbers those of requests are."""
    rows: list[Row] = []
    for section in sections:
        rows += [Row("", b"")] if rows else []
        heading = RowBuilder().add(section.name, Role.TITLE)
        if selected is not None and any(isinstance(entry, Number) and of_a_request(entry) for entry in section.entries):
            heading.add(f" · of {called(selected.name)}", Role.DIM)
        rows.append(heading.row(width))
        for entry in section.entries:
            rows += _number(entry, value(entry), width) if isinstance(entry, Number) else _term(*entry, width)
    return rows


def _number(number: Number, now: str, width: int) -> list[Row]:
    name = RowBuilder().add(number.name, Role.KEY)
    rows = []
    if name.width >= NAME_COLUMN:
        rows, name = [name.row(width)], RowBuilder()
    name.to(NAME_COLUMN).add(short(now, max(8, width - NAME_COLUMN - 2)), Role.STRONG).add("  ")
    measure = short(number.measure, max(0, width - name.width))
    rows.append(name.add(measure, Role.DIM).row(width))
    meaning = number.meaning + (f"; beside it: {number.beside}" if number.beside else "")
    return rows + wrapped(meaning, width, Role.TEXT, " " * INDENT)


def _term(name: str, meaning: str, width: int) -> list[Row]:
    return [RowBuilder().add(name, Role.KEY).row(width), *wrapped(meaning, width, Role.TEXT, " " * INDENT)]
