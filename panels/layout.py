"""Which panel gets which part of the terminal: a pure function of its size and of the pool's.

Narrow terminals stack the panels; from `WIDE` columns on there are two columns, each filled to the bottom.
Whatever the map does not need (a small pool has few cells) goes to the other panels.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

MIN_WIDTH, MIN_HEIGHT = 60, 16
WIDE = 120

PANELS = ("map", "requests", "queue", "events")
"""The panels that take the focus, in the order of Tab and of the digits; of engines with several tiers, "tiers" too."""

ROOM_FOR_TIERS = 36
"""Rows of a terminal from which on the tiers have a place of their own, and need not take the queue's."""


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


def map_frame(height: int) -> int:
    """Rows of the map's panel that are not map, on a terminal of ``height``: its title, and one or two about a block."""
    return 2 if height < 28 else 3


def plan(
    width: int,
    height: int,
    map_rows: Callable[[int, int], int],
    header_rows: int = 3,
    *,
    tiers: int = 0,
    instead_of_queue: bool = False,
) -> dict[str, Area]:
    """The area of every panel, by name.

    ``map_rows(columns, room)`` tells how many of ``room`` rows the whole map fills; ``header_rows`` is what the header
    would like, ``tiers`` the rows of the table of tiers (0: there is none). Where there is no room for queue and tiers,
    ``instead_of_queue`` decides which of them is there. Raises ValueError below `MIN_WIDTH` x `MIN_HEIGHT`.
    """
    if too_small(width, height):
        raise ValueError(f"needs {MIN_WIDTH}x{MIN_HEIGHT}, this is {width}x{height}")
    top = 2 if height < 20 else header_rows
    bar = 1 if height < 20 else 2
    areas = _stack(0, 0, width, {"header": top, "capacity": bar})
    areas["footer"] = Area(0, height - 1, width, 1)
    y, rest = top + bar, height - top - bar - 1
    frame = map_frame(height)
    if width >= WIDE:
        right = min(max(69, width * 11 // 20), 112)
        left = width - right - 1
        below = {"queue": Need(4, rest, 1.0), "tiers": Need(min(tiers + 1, 5), tiers + 2, 2.0)}
        lower = _queue_or_tiers(below, height, tiers, instead_of_queue)
        rows = _with_map(rest, left, map_rows, frame, {"map": Need(frame + 1, rest, 3.0), **lower})
        areas |= _stack(0, y, left, rows)
        areas["divider"] = Area(left, y, 1, rest)
        rows = share(rest, {"requests": Need(5, rest, 3.0), "events": Need(4, rest, 2.0)})
        return areas | _stack(left + 1, y, right, rows)
    needs = {
        "map": Need(frame + 1, rest, 7.0),
        "requests": Need(4, rest, 6.0),
        "queue": Need(2 if height < 22 else 3, 6, 1.6),
        "tiers": Need(2 if height < 22 else min(tiers + 1, 5), tiers + 2, 3.0),
        "events": Need(3, rest, 4.0),
    }
    needs = _queue_or_tiers(needs, height, tiers, instead_of_queue)
    return areas | _stack(0, y, width, _with_map(rest, width, map_rows, frame, needs))


def _queue_or_tiers(needs: dict[str, Need], height: int, tiers: int, instead_of_queue: bool) -> dict[str, Need]:
    """``needs`` without those of the two that have no place."""
    both = tiers and height >= ROOM_FOR_TIERS
    absent = None if both else "queue" if tiers and instead_of_queue else "tiers"
    return {name: need for name, need in needs.items() if name != absent}


def _with_map(
    rest: int, width: int, map_rows: Callable[[int, int], int], frame: int, needs: dict[str, Need]
) -> dict[str, int]:
    """`share`, with what the map does not fill of its part given to the others."""
    first = share(rest, needs)
    used = map_rows(width, first["map"] - frame)
    return share(rest, {**needs, "map": needs["map"]._replace(most=max(needs["map"].least, frame + used))})
