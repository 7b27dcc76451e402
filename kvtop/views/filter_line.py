"""The line under the filter while one types: what could come next, or what is wrong and where."""

from kvtop.views.fit import line
from kvtop.views.format import short
from kvtop.views.request_filter import FilterError, RequestFilter, hint
from kvtop.views.rows import Role, Row, clean


def hint_row(text: str, cursor: int, width: int) -> Row:
    """For a text that is a filter, with the cursor before its character of that number."""
    return line([(clean(hint(text, cursor), width + 1), Role.DIM)], width)


def mistake_row(mistake: FilterError, column: int, in_force: RequestFilter, width: int) -> Row:
    """What is wrong, beside a mark in the ``column`` (in cells) under its place, and which filter is in force meanwhile."""
    said = clean(mistake.message)
    kept = f"; in force: {short(in_force.text, 24)}" if in_force else "; no filter is in force"
    if not 0 <= column < width:
        return line([(f"at {mistake.at + 1}: {said}{kept}", Role.BAD)], width)
    for text in (said + kept, said):
        if column + 2 + len(text) <= width:
            return line([(" " * column + "^ ", Role.BAD), (text, Role.BAD)], width)
        if len(text) + 1 <= column:
            return line([(text.rjust(column - 1) + " ^", Role.BAD)], width)
    return line([(f"at {mistake.at + 1}: {said}", Role.BAD)], width)
