"""Rows that change reach the terminal without the compositor, unless something lies over them."""

from collections.abc import Callable
from typing import Any

import pytest
from textual.screen import Screen

from kvtop.term.cell_panel import CellPanel
from kvtop.views.rows import Row
from tests.app.harness import in_loop
from tests.term.demo_app import DemoApp
from tests.term.driver import CountingDriver, driver_of


def _counted(app: DemoApp, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many lines panels were asked for by Textual since the last look."""
    asked: list[int] = []
    render = CellPanel.render_lines

    def lines(self: CellPanel, crop: Any) -> Any:
        asked.append(crop.height)
        return render(self, crop)

    def taken() -> int:
        count = sum(asked)
        asked.clear()
        return count

    monkeypatch.setattr(CellPanel, "render_lines", lines)
    return taken


@in_loop
async def test_a_changed_row_asks_no_widget_for_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    app = DemoApp(driver_class=CountingDriver)
    async with app.run_test(headless=False, size=(60, 20), notifications=False) as pilot:
        await pilot.pause(0.1)
        taken = _counted(app, monkeypatch)
        driver_of(app).take()
        app.panel("list").show([Row("one row", bytes(7))])
        await pilot.pause(0.1)
        assert "one row" in driver_of(app).take()
        assert taken() == 0
        app.push_screen(Screen())
        await pilot.pause(0.1)
        taken()
        driver_of(app).take()
        app.panel("list").show([Row("hidden", bytes(6))])
        await pilot.pause(0.1)
        assert "hidden" not in driver_of(app).take()
        app.pop_screen()
        await pilot.pause(0.1)
        assert "hidden" in driver_of(app).take()
