"""A panel that fills the screen: how one gets there, what more it shows, how one leaves."""

from pathlib import Path

import pytest

from panels.panel import TitledPanel
from tests.app.harness import Bench, bench, in_loop
from tests.app.sources import HandFedSource
from tests.recording import RecordedEngine


def shown(b: Bench) -> set[str]:
    return {name for name, panel in b.screen.panels.items() if isinstance(panel, TitledPanel) and panel.display}


@pytest.mark.parametrize("again", ["f", "4"])
@pytest.mark.parametrize("back", ["f", "4", "escape", "0"])
def test_its_digit_again_or_f_and_each_way_back(again: str, back: str, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path) as b:
            before = shown(b)
            await b.press("4")
            assert shown(b) == before
            await b.press(again)
            assert shown(b) == {"events"}
            assert b.screen.panels["events"].size.height == 24 - 2
            await b.iterate(2)
            assert "live" in b.text("header"), "whether it is live is said there too"
            await b.press(back)
            assert shown(b) == before
            assert b.screen.panels["events"].has_focus

    run()


@in_loop
async def test_the_first_digit_only_goes_there_even_where_the_focus_is_already(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert b.screen.requests.has_focus
        await b.press("2")
        assert len(shown(b)) > 1
        assert "once more" in b.text("footer")
        await b.press("2")
        assert shown(b) == {"requests"}


@in_loop
async def test_another_digit_and_tab_keep_to_one_panel(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("1", "1", "3")
        assert shown(b) == {"queue"}
        await b.press("tab")
        assert b.screen.panels["queue"].has_focus
        await b.press("slash")
        assert shown(b) == {"requests"}, "a filter is typed where one sees it"


@in_loop
async def test_escape_clears_first_what_was_chosen(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "j", "f")
        assert b.screen.requests.view.selected is not None
        await b.press("escape")
        assert shown(b) == {"requests"}
        assert b.screen.requests.view.selected is None
        await b.press("escape")
        assert len(shown(b)) > 1


@in_loop
async def test_requests_tell_all_of_the_selected_one(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("2", "g", "f")
        await b.iterate(1)
        selected = b.screen.feed.shown.request(b.screen.requests.view.selected or 0)
        assert selected is not None
        text = b.text("requests")
        assert f"{selected.name} · {selected.state}" in text
        assert "waited" in text


@in_loop
async def test_the_owner_of_a_block_is_shown_where_the_map_filled_the_screen(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("1", "f", "g", "enter")
        assert shown(b) == {"requests"}
        assert b.screen.requests.has_focus


@pytest.mark.parametrize("size", [(60, 16), (120, 40), (200, 50)])
def test_it_fills_every_size_and_follows_it(size: tuple[int, int], tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, size=size) as b:
            await b.press("1", "f")
            await b.iterate(1)
            assert b.screen.panels["map"].region.size == (size[0], size[1] - 2)
            assert not b.screen.panels["capacity"].display
            await b.pilot.resize_terminal(100, 30)
            await b.tick()
            assert b.screen.panels["map"].region.size == (100, 28)
            await b.press("escape")
            await b.iterate(1)
            assert "KV used" in b.text("capacity")

    run()


@in_loop
async def test_queue_and_events_tell_of_the_last_minute_there(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(60)
        await b.press("3", "f")
        await b.iterate(1)
        queue = b.text("queue").splitlines()
        assert any(row.startswith("refused · ") for row in queue)
        assert any(row.startswith("2m oldest wait ") for row in queue)
        await b.press("4")
        await b.iterate(1)
        tally = b.text("events").splitlines()[1]
        assert tally.startswith("last 60 s: · ")
        assert " preempt" in tally
        await b.press("v", "g")
        assert "last 60 s:" in b.text("events").splitlines()[1]
        assert len(b.text("events").splitlines()) == 22


@in_loop
async def test_tiers_tell_how_much_moved_there(tmp_path: Path) -> None:
    async with bench(tmp_path, source=HandFedSource(RecordedEngine("tiers"))) as b:
        await b.iterate(60)
        await b.press("5", "f")
        await b.iterate(1)
        row = b.text("tiers").splitlines()[1]
        assert row.startswith("2m moved a second ")
        assert row.rstrip().endswith("B"), "what its height is, in bytes"
