"""Every panel gets its place, at every size, and nothing overlaps or is left over."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.views.zoom import ZOOMS, fitting
from panels.block_map import frame_rows
from panels.layout import MIN_HEIGHT, MIN_WIDTH, ROOM_FOR_ALL, WIDE, Area, Need, Room, Tile, plan, share, too_small
from panels.panel import TitledPanel
from panels.registry import PANELS
from panels.scheduler import FROM_HEIGHT

FULL_ONLY = {"latency", "policies"}
"""Panels that have no place beside others."""

TITLED = [panel for panel in PANELS if issubclass(panel, TitledPanel)]


def planned(
    width: int,
    height: int,
    map_rows: Callable[[int, int], int],
    *,
    header: int = 3,
    tiers: int = 0,
    asked: str = "",
) -> dict[str, Area]:
    """Where the panels of the registry go, ``map_rows(columns, room)`` being the rows that the map fills."""

    def fill(room: Room, columns: int, rows: int) -> int:
        frame = frame_rows(room.height)
        return frame + map_rows(columns, rows - frame)

    tiles = [Tile(p.ID, p.COLUMN, p.need, fill) if p.ID == "map" else Tile(p.ID, p.COLUMN, p.need) for p in TITLED]
    return plan(width, height, tiles, {"header": header, "tiers": tiers}, asked)


@given(
    width=st.integers(MIN_WIDTH, 400),
    height=st.integers(MIN_HEIGHT, 150),
    blocks=st.integers(0, 2_000_000),
    header=st.integers(3, 4),
    tiers=st.integers(0, 9),
    instead=st.booleans(),
)
def test_areas_tile_the_terminal(width: int, height: int, blocks: int, header: int, tiers: int, instead: bool) -> None:
    def map_rows(columns: int, room: int) -> int:
        return min(room, fitting(blocks, columns, room).rows(blocks, columns)) if blocks else min(room, 3)

    areas = planned(width, height, map_rows, header=header, tiers=tiers, asked="tiers" if instead else "")
    panels = {panel.ID for panel in TITLED} - {"tiers", *FULL_ONLY}
    if width < WIDE or height < FROM_HEIGHT:
        panels.remove("scheduler")
    if tiers and (instead or height >= ROOM_FOR_ALL):
        panels.add("tiers")
        panels -= set() if height >= ROOM_FOR_ALL else {"queue"}
    assert set(areas) - {"divider"} == {"header", "capacity", "footer", *panels}
    assert ("divider" in areas) == (width >= WIDE)
    cells = [[0] * width for _ in range(height)]
    for area in areas.values():
        for y in range(area.y, area.y + area.height):
            for x in range(area.x, area.x + area.width):
                cells[y][x] += 1
    assert all(cell == 1 for row in cells for cell in row)


def test_the_usual_terminal_shows_one_cell_a_block_of_the_demo_pool() -> None:
    areas = planned(80, 24, lambda columns, room: min(room, fitting(256, columns, room).rows(256, columns)))
    room = areas["map"].height - 2
    zoom = fitting(256, 80, room)
    assert zoom.per_row(80) * room >= 256
    # Two lines for the verdict, and at least three requests and three events.
    assert areas["queue"].height >= 3
    assert areas["requests"].height >= 5
    assert areas["events"].height >= 4


def test_three_tiers_are_seen_with_their_titles_on_the_usual_terminal() -> None:
    areas = planned(80, 24, lambda columns, room: min(room, 4), tiers=4, asked="tiers")
    assert areas["tiers"].height >= 5
    assert areas["requests"].height >= 4
    assert areas["events"].height >= 3


def test_what_a_small_map_does_not_need_goes_to_the_others() -> None:
    small = planned(80, 40, lambda columns, room: min(room, 2))
    large = planned(80, 40, lambda columns, room: room)
    assert small["map"].height < large["map"].height
    assert small["requests"].height > large["requests"].height


@pytest.mark.parametrize(("size", "small"), [((60, 16), False), ((59, 16), True), ((60, 15), True), ((1, 1), True)])
def test_too_small(size: tuple[int, int], small: bool) -> None:
    assert too_small(*size) is small
    if small:
        with pytest.raises(ValueError, match="needs 60x16"):
            plan(*size, [])


def test_shares_are_fair_and_exact() -> None:
    rows = share(20, {"a": Need(2, 30, 3.0), "b": Need(2, 30, 1.0), "c": Need(2, 4, 9.0)})
    assert rows == {"a": 12, "b": 4, "c": 4}
    assert sum(share(9, {"a": Need(1, 2, 1.0), "b": Need(1, 2, 1.0)}).values()) == 9


@given(blocks=st.integers(1, 5000), width=st.integers(20, 300), height=st.integers(1, 100))
def test_a_zoom_never_costs_a_block_its_cell(blocks: int, width: int, height: int) -> None:
    zoom = fitting(blocks, width, height)
    if zoom is not ZOOMS[0]:
        assert zoom.rows(blocks, width) <= height
        assert zoom.per_row(width) * zoom.columns - zoom.gap <= width
    if blocks <= width * height:
        assert zoom.rows(blocks, width) <= height
