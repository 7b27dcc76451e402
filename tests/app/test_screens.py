"""The app holds screens of engines: each follows its own, and draws only while it is in sight."""

from pathlib import Path

from kvtop.app.commander import Commander
from kvtop.app.engine_screen import EngineScreen
from kvtop.app.feed import Feed
from tests.app.harness import bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource


@in_loop
async def test_two_engines_are_followed_and_the_one_in_sight_is_drawn(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        source = HandFedSource(LiveEngine(blocks=128, arrivals=1.0))
        other = EngineScreen(Feed(source), Commander(None), now=lambda: b.time)
        b.app.engines.append(other)
        header = b.text("header")
        await b.app.push_screen(other)
        await b.pilot.pause()
        shown = b.screen.map.rows
        source.run(5)
        await b.iterate(20)
        assert other.feed.live.iteration == 5
        assert "/128 " in b.text("capacity")
        # The one beneath went on without drawing, and is up to date when it is seen again.
        assert b.screen.map.rows is shown
        await b.app.pop_screen()
        await b.pilot.pause()
        assert b.app.screen is b.screen
        assert b.text("header") != header
        assert b.screen.map.rows is not shown


@in_loop
async def test_keys_go_to_the_engine_in_sight(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        other = EngineScreen(Feed(HandFedSource(LiveEngine())), Commander(None), now=lambda: b.time)
        b.app.engines.append(other)
        await b.app.push_screen(other)
        await b.iterate(3)
        await b.press("p")
        assert other.feed.held
        assert not b.screen.feed.held


@in_loop
async def test_a_terminal_resized_behind_the_help_is_filled_afterwards(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.press("question_mark")
        await b.pilot.resize_terminal(130, 40)
        await b.press("q")
        assert b.screen.map.size.width + 1 + b.screen.requests.size.width == 130
