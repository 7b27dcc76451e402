"""Which panel gets which part of the terminal: a pure function of its size and of what the panels need.

Narrow terminals stack the panels; from `WIDE` columns on there are two columns, each filled to the bottom.
Whatever the map does not need (a small pool has few cells) goes to the other panels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

MIN_WIDTH, MIN_HEIGHT = 60, 16
WIDE = 120

ROOM_FOR_ALL = 36
"""Rows of a terminal from which on a panel that may stand in another's place has one of its own."""

ROOMY = 30
"""Rows of a terminal from which on the capacity bar has a row of its own."""

Column = Literal["left", "right"]


class Area(NamedTuple):
    """A rectangle of cells; the panel's title row is part of it."""

    x: int
    y: int
    width: int
    height: int


class Need(NamedTuple):
    """What a panel asks of its column: at least ``least`` rows, at most ``most``, and ``weight`` between these."""

    least: int
    most: int
    weight: float


class Room(NamedTuple):
    """What there is to share.

    Attributes:
        height: Rows of the terminal.
        rest: Rows of a column.
        wide: Whether there are two columns.
        content: Rows that the whole content of a panel takes, by its id; 0 or absent: there is none, or no end of it.
        asked: The panel that the user wants to see where two have but one place.
    """

    height: int
    rest: int
    wide: bool
    content: Mapping[str, int]
    asked: str

    @property
    def for_all(self) -> bool:
        return self.height >= ROOM_FOR_ALL


class Tile(NamedTuple):
    """A panel as the layout sees it.

    Attributes:
        id: The panel's id.
        column: Where it goes on a wide terminal.
        need: What it asks; None where it has no place.
        fill: Of ``(width, rows)`` offered, how many rows it can make use of.
    """

    id: str
    column: Column
    need: Callable[[Room], Need | None]
    fill: Callable[[Room, int, int], int] = lambda room, width, rows: rows


def too_small(width: int, height: int) -> bool:
    return width < MIN_WIDTH or height < MIN_HEIGHT


def share(height: int, needs: Mapping[str, Need]) -> dict[str, int]:
    """Rows for each of ``needs``, ``height`` in all: least first, the rest by weight, what nobody wants to the last."""
    rows = {name: need.least for name, need in needs.items()}
    for _ in range(height - sum(rows.values())):
        hungry = [name for name, need in needs.items() if rows[name] < need.most]
        poorest = min(hungry, key=lambda name: rows[name] / needs[name].weight, default=list(needs)[-1])
        rows[poorest] += 1
    return rows


def _stack(x: int, y: int, width: int, rows: Mapping[str, int]) -> dict[str, Area]:
    areas = {}
    for name, height in rows.items():
        areas[name] = Area(x, y, width, height)
        y += height
    return areas


def plan(
    width: int,
    height: int,
    tiles: Sequence[Tile],
    content: Mapping[str, int] | None = None,
    asked: str = "",
    full: str = "",
) -> dict[str, Area]:
    """The area of every panel that has a place, by id; the frame's are header, capacity, footer and divider.

    ``content`` and ``asked``: see `Room`; "header" of ``content`` is what the header would like, 3 by default. ``full``:
    the panel that has all but the header's first line, its warning and the footer.
    Raises ValueError below `MIN_WIDTH` x `MIN_HEIGHT`.
    """
    if too_small(width, height):
        raise ValueError(f"needs {MIN_WIDTH}x{MIN_HEIGHT}, this is {width}x{height}")
    content = content or {}
    if full:
        top = 2 if content.get("header", 3) > 3 else 1
        return _stack(0, 0, width, {"header": top, full: height - top - 1, "footer": 1})
    top = 2 if height < 20 else content.get("header", 3)
    bar = 1 if height < 20 else 2 if height < ROOMY else 3
    areas = _stack(0, 0, width, {"header": top, "capacity": bar})
    areas["footer"] = Area(0, height - 1, width, 1)
    y, rest = top + bar, height - top - bar - 1
    room = Room(height, rest, width >= WIDE, content, asked)
    if not room.wide:
        return areas | _stack(0, y, width, _column(room, width, tiles))
    right = min(max(69, width * 11 // 20), 112)
    left = width - right - 1
    areas |= _stack(0, y, left, _column(room, left, [tile for tile in tiles if tile.column == "left"]))
    areas["divider"] = Area(left, y, 1, rest)
    return areas | _stack(left + 1, y, right, _column(room, right, [tile for tile in tiles if tile.column == "right"]))


def _column(room: Room, width: int, tiles: Sequence[Tile]) -> dict[str, int]:
    """`share`, with what a panel cannot fill of its part given to the others."""
    needs = {tile.id: need for tile in tiles if (need := tile.need(room)) is not None}
    first = share(room.rest, needs)
    for tile in tiles:
        if tile.id in needs:
            used = tile.fill(room, width, first[tile.id])
            if used < first[tile.id]:
                need = needs[tile.id]
                needs[tile.id] = need._replace(most=max(need.least, used))
    return share(room.rest, needs)
