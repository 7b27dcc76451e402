"""Keys of the panels that fill the screen at once: latency with its service level, and the scheduler."""

from pathlib import Path

from panels.latency import LatencyPanel
from tests.app.harness import bench, in_loop


@in_loop
async def test_a_panel_without_a_place_fills_the_screen_and_gives_it_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.iterate(30)
        for digit, name in (("7", "latency"), ("6", "scheduler")):
            await b.press("3", digit)
            await b.iterate(1)
            assert f"▸{digit} {name}" in b.text(name)
            assert not b.screen.map.display
            await b.press("escape")
            assert b.screen.map.display
            assert b.screen.panels["queue"].has_focus, "where one was before"


@in_loop
async def test_a_service_level_is_typed_refused_with_its_reason_and_left_as_it_was(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        panel = b.screen.panel(LatencyPanel)
        await b.iterate(60)
        await b.press("7", "L", *"ttft=0.5,tpot", "enter")
        assert "tpot is not NAME=SECONDS" in b.text("footer")
        assert panel.field.display, "what was typed can be put right"
        await b.press(*"=0.1", "enter")
        assert panel.level == {"ttft": 0.5, "tpot": 0.1}
        await b.iterate(1)
        assert "goodput ttft≤500ms tpot≤100ms" in b.text("latency")
        assert panel.has_focus
        await b.press("L", "9", "escape")
        assert panel.level == {"ttft": 0.5, "tpot": 0.1}
        assert panel.full, "Esc left the field, not the panel"
        await b.press("L", *["backspace"] * 40, "enter")
        assert panel.level == {}
        await b.press("o", "w", "w")
        assert "▸7 latency: tpot, all seen" in b.text("latency")
