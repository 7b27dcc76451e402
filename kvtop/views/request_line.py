"""One line of the requests table, kept until its request changes: four times a second most lines say what they said."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from kvtop.state import RequestRow
from kvtop.views.columns import Column, Columns
from kvtop.views.fit import cut
from kvtop.views.format import ends, fixed
from kvtop.views.lifeline import slot
from kvtop.views.rows import Role, Row, highlighted

_JOINTS = re.compile("[ /+]")


class RequestLine(NamedTuple):
    """A drawn line and what it was drawn from.

    ``ticking``: the column whose text goes on with the clock, its width and its first cell; None where none does. ``moment``:
    see `moment_of`.
    """

    row: Row
    stamp: int
    columns: Columns
    width: int
    selected: bool
    ticking: tuple[Column, int, int] | None
    moment: int = 0


def moment_of(columns: Columns, mono: float | None) -> int:
    """Another number as soon as the clock alone moves the lifelines on by a cell; 0 where there are none."""
    return next((slot(mono, size) for column, size in columns if column.strip is not None), 0)


def request_line(
    row: RequestRow,
    columns: Columns,
    width: int,
    mono: float | None,
    selected: bool,
    known: Mapping[int, RequestLine],
    moment: int = 0,
) -> RequestLine:
    """``row`` in ``width`` cells. What is ``known`` of its num is used as far as it still holds: the same object where
    nothing differs."""
    old = known.get(row.num)
    if (
        old is None
        or (old.stamp, old.width, old.selected) != (row.stamp, width, selected)
        or old.columns is not columns
        or not row.stamp
        or old.moment != moment
    ):
        return _drawn(row, columns, width, mono, selected, moment)
    if old.ticking is None:
        return old
    column, size, at = old.ticking
    text = _aligned(column.cell(row, mono)[0], column, size)
    before = old.row.text
    if before.startswith(text, at):
        return old
    return old._replace(row=Row(before[:at] + text + before[at + size :], old.row.roles))


def _drawn(
    row: RequestRow, columns: Columns, width: int, mono: float | None, selected: bool, moment: int
) -> RequestLine:
    texts: list[str] = []
    roles: list[bytes] = []
    at = 0
    ticking = None
    for column, size in columns:
        if column.strip is not None:
            strip = column.strip(row, mono, size)
            texts.append(strip.text)
            roles.append(_plain(strip.roles, row.finished, selected))
            at += size + 1
            continue
        text, role = column.cell(row, mono)
        if row.finished:
            role = Role.DIM
        elif selected and role >= Role.STATE0:
            # Colours of the map are made for cells; under the selection's bar they would be hard to read.
            role = Role.STRONG
        if column.phase is not None and ticking is None and row.behind_clock(column.phase) is not None:
            ticking = (column, size, at)
        texts.append(_aligned(text, column, size))
        roles.append(bytes((role,)) * size)
        at += size + 1
    drawn = cut(Row(" ".join(texts), _BETWEEN.join(roles)), width)
    # A screen too narrow for one column cuts it, so that nothing can be put in its place.
    stamp = row.stamp if at - 1 <= width else 0
    return RequestLine(highlighted(drawn) if selected else drawn, stamp, columns, width, selected, ticking, moment)


def _plain(roles: bytes, finished: bool, selected: bool) -> bytes:
    """Roles of a strip where they are not to be in the way of the row's own."""
    if finished:
        return bytes((Role.DIM,)) * len(roles)
    return bytes(Role.STRONG if selected and role >= Role.STATE0 else role for role in roles)


_BETWEEN = bytes((Role.TEXT,))


def _aligned(text: str, column: Column, size: int) -> str:
    """In exactly ``size`` cells."""
    if column.left:
        return ends(text, size) if column.name in ("id", "label") else fixed(text, size)
    if len(text) > size:
        # Rather its first number whole than two of them cut.
        text = _JOINTS.split(text)[0]
    return text[:size].rjust(size)
