"""The map's panel around the map: its legend's place, colours chosen directly, flashes only where they are of use."""

from dataclasses import replace
from pathlib import Path

import pytest

from kvtop.app.keys import COLOURS, EVERYWHERE_NAME
from kvtop.term.depth import ColourDepth
from kvtop.views.cells import MODES
from kvtop.views.legend import legend_entries
from kvtop.views.rows import HIGHLIGHT, Role
from tests.app.harness import Bench, bench, in_loop
from tests.app.live_engine import LiveEngine


def bright(b: Bench) -> bool:
    flashing = (Role.FLASH0, Role.FLASH0 + 1)
    return any(role & ~HIGHLIGHT in flashing for row in b.screen.map.rows for role in row.roles)


async def flashes(b: Bench) -> bool:
    for _ in range(40):
        await b.iterate()
        if bright(b):
            return True
    return False


@in_loop
async def test_any_colour_is_chosen_directly_by_its_entry_in_the_palette(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        for action, mode in reversed(list(zip(COLOURS, MODES, strict=True))):
            await b.screen.do(EVERYWHERE_NAME, action)
            assert f"blocks by {mode} " in b.text("map").splitlines()[0]


@pytest.mark.parametrize(
    ("size", "depth", "ascii_only"), [((60, 24), ColourDepth.NONE, True), ((80, 24), ColourDepth.ANSI16, False)]
)
def test_the_legend_is_whole_at_every_width_and_the_map_below_it_too(
    size: tuple[int, int], depth: ColourDepth, ascii_only: bool, tmp_path: Path
) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, depth=depth, ascii_only=ascii_only, size=size) as b:
            panel = b.screen.map
            for mode in MODES:
                panel.colour_by(mode)
                await b.iterate(2)
                lines = b.text("map").splitlines()
                head = " ".join(lines[: 1 + panel._legend_height])
                at = 0
                for entry in legend_entries(panel.map, panel.glyphs):
                    at = head.index(f" {entry.number}", at) + 1
                assert len(panel.map.in_sight) == 240
                assert len(lines) == panel.size.height

    run()


@in_loop
async def test_moving_over_the_map_leaves_it_where_it_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("1")
        height = b.screen.map.map_height
        for key in ("plus", "plus", "G", "g", "plus", "minus", "z"):
            await b.press(key)
            await b.iterate(1)
            assert b.screen.map.map_height == height, key


@in_loop
async def test_without_colours_nothing_flashes_until_it_is_asked_for(tmp_path: Path) -> None:
    async with bench(tmp_path, depth=ColourDepth.NONE) as b:
        assert not await flashes(b)
        await b.press("1", "b")
        assert await flashes(b)


@in_loop
async def test_a_slow_terminal_is_spared_flashes(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        take = b.screen.map.update
        b.screen.map.update = lambda tick: take(replace(tick, warning="slow terminal 5 fps"))  # type: ignore[method-assign]
        assert not await flashes(b)
        del b.screen.map.update
        assert await flashes(b)


@in_loop
async def test_what_is_followed_stays_in_sight_while_it_grows_and_its_end_is_told(tmp_path: Path) -> None:
    async with bench(tmp_path, engine=LiveEngine(), warm=300) as b:
        rows = [row for row in (b.screen.feed.shown.requests or {}).values() if row.state == "decode" and row.table]
        row = max(rows, key=lambda row: (row.max_tokens or 0) - (row.output_tokens or 0))
        b.screen.requests.select(row.num)
        await b.press("1", "plus", "plus", "F")
        seen = set()
        for _ in range(60):
            await b.iterate(1)
            if "follows" not in b.text("map"):
                break
            now = b.screen.feed.shown.request(row.num)
            if now is not None and now.table:
                seen.add(now.table[-1])
                assert now.table[-1] in b.screen.map.map.in_sight
        assert len(seen) > 1
