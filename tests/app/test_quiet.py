"""Nothing changed: nothing is drawn, nothing is written."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kvtop.app.engine_screen import LIVE_FPS, STILL_FPS
from kvtop.sources.base import LinkDown
from panels.block_map import BlockMapPanel
from panels.panel import Panel, Tick
from panels.registry import PANELS
from tests.app.harness import bench, in_loop
from tests.app.live_engine import LiveEngine
from tests.term.driver import CountingDriver, driver_of


def _written(app: object) -> str:
    driver = driver_of(app)
    assert isinstance(driver, CountingDriver)
    return driver.take()


@in_loop
async def test_a_tick_without_change_writes_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path, headless=False, driver_class=CountingDriver, notifications=False) as b:
        await b.iterate(3)
        await b.press("j", "1", "l")
        await b.tick(seconds=0.0)
        await asyncio.sleep(0.1)
        await b.pilot.pause()
        assert _written(b.app)
        for _ in range(20):
            await b.tick(seconds=0.0)
        await asyncio.sleep(0.1)
        assert _written(b.app) == ""


@pytest.mark.parametrize("keys", [("E",), ("P",), ("P", "enter"), ("P", "enter", "k", "enter"), ("slash", "c")])
def test_a_dialog_that_has_nothing_new_to_say_writes_nothing(keys: tuple[str, ...], tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, headless=False, driver_class=CountingDriver, notifications=False) as b:
            await b.iterate(3)
            await b.press(*keys)
            for _ in range(3):
                await b.tick(seconds=0.0)
                await asyncio.sleep(0.1)
            assert _written(b.app)
            for _ in range(20):
                await b.tick(seconds=0.0)
            await asyncio.sleep(0.2)
            assert _written(b.app) == ""

    run()


@in_loop
async def test_a_few_changed_blocks_cost_a_few_bytes(tmp_path: Path) -> None:
    engine = LiveEngine(blocks=10_000)
    async with bench(
        tmp_path,
        size=(200, 50),
        engine=engine,
        warm=0,
        headless=False,
        driver_class=CountingDriver,
        notifications=False,
    ) as b:
        await asyncio.sleep(0.1)
        _written(b.app)
        frame = engine.step(only_time=True)
        b.source.put(frame.model_copy(update={"blocks": [(5000, 40, 2, 1, 1, 16, 0, 0)]}))
        b.app.tick(text_due=False)
        await b.pilot.pause()
        await asyncio.sleep(0.1)
        assert 0 < len(_written(b.app)) < 250


@in_loop
async def test_an_engine_is_asked_for_less_while_nothing_of_it_is_seen(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(2)
        assert b.source.paces == [LIVE_FPS]
        for enter, leave in (("p", "p"), ("question_mark", "q")):
            b.source.paces.clear()
            await b.press(enter)
            await b.iterate(2)
            assert b.source.paces == [STILL_FPS]
            await b.press(leave)
            await b.iterate(2)
            assert b.source.paces == [STILL_FPS, LIVE_FPS]


@in_loop
async def test_texts_of_which_nothing_was_told_are_looked_at_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    for panel in PANELS:

        def counted(self: Panel, tick: Tick, update: Callable[..., None] = panel.update) -> None:
            drawn.append(self.ID)
            update(self, tick)

        monkeypatch.setattr(panel, "update", counted)

    def texts(of: str) -> int:
        count = drawn.count(of)
        drawn.clear()
        return count

    async with bench(tmp_path) as b:
        await b.iterate(3)
        texts("requests")
        await b.iterate(5)
        assert texts("requests") == 5
        for _ in range(40):
            await b.tick(0.1)
        assert 3 <= texts("requests") <= 4
        await b.press("p")
        drawn.clear()
        for _ in range(40):
            await b.tick(0.1)
        assert 3 <= drawn.count("header") <= 4
        assert set(drawn) == {"header"}
        await b.press("p")
        b.source.put(LinkDown("gone", retrying=True))
        await b.tick(0.1)
        drawn.clear()
        for _ in range(40):
            await b.tick(0.1)
        assert 3 <= drawn.count("header") <= 4
        assert "requests" not in drawn


@in_loop
async def test_what_is_not_seen_is_not_computed(tmp_path: Path, monkeypatch: object) -> None:
    async with bench(tmp_path) as b:
        calls: list[str] = []
        draw = BlockMapPanel.update

        def counted(self: BlockMapPanel, *args: object, **kwargs: object) -> None:
            calls.append("map")
            draw(self, *args, **kwargs)  # type: ignore[arg-type]

        monkeypatch.setattr(BlockMapPanel, "update", counted)  # type: ignore[attr-defined]
        await b.iterate(2)
        assert calls
        header = b.text("header")
        await b.press("question_mark")
        calls.clear()
        await b.iterate(5)
        assert calls == []
        await b.press("q")
        assert calls
        assert b.screen.map.map.state is b.screen.feed.live
        assert b.text("header") != header
