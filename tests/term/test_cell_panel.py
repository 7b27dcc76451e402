import asyncio
from collections.abc import Awaitable, Callable

from kvtop.term.cell_panel import CellPanel
from kvtop.term.depth import ColourDepth
from kvtop.term.strip import CellStrip
from kvtop.views.rows import Role, Row, RowBuilder
from tests.term.demo_app import DemoApp
from tests.term.driver import CountingDriver, driver_of


def in_app(check: Callable[[DemoApp, CellPanel, Callable[[], Awaitable[None]]], Awaitable[None]]) -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=(60, 12)) as pilot:
            await pilot.pause()
            await check(app, app.panel("list"), lambda: pilot.pause(0.03))

    asyncio.run(main())


def lines(panel: CellPanel) -> list[str]:
    return [strip.text for strip in panel.render_lines(panel.size.region)]


def test_rows_are_padded_and_cut_to_the_panel() -> None:
    async def check(app: DemoApp, panel: CellPanel, settle: Callable[[], Awaitable[None]]) -> None:
        panel.show([Row("ab", b"\0\0"), Row("x" * 100, bytes(100))])
        await settle()
        assert lines(panel) == ["ab" + " " * 58, "x" * 60, " " * 60, " " * 60, " " * 60]

    in_app(check)


def test_only_changed_rows_are_counted_and_an_unchanged_one_keeps_its_strip() -> None:
    async def check(app: DemoApp, panel: CellPanel, settle: Callable[[], Awaitable[None]]) -> None:
        rows = [RowBuilder().add(f"row {i}", Role.DIM).row() for i in range(5)]
        assert panel.show(rows) == 5
        before = panel.render_lines(panel.size.region)
        assert panel.show([RowBuilder().add(f"row {i}", Role.DIM).row() for i in range(5)]) == 0
        assert panel.show([*rows[:2], Row("other", bytes(5)), *rows[3:]]) == 1
        after = panel.render_lines(panel.size.region)
        assert [a is b for a, b in zip(before, after, strict=True)] == [True, True, False, True, True]
        assert panel.show(rows[:3]) == 3

    in_app(check)


def test_a_tick_without_change_writes_nothing() -> None:
    async def check(app: DemoApp, panel: CellPanel, settle: Callable[[], Awaitable[None]]) -> None:
        panel.show([Row("still", bytes(5))])
        await settle()
        app._healed_at = float("inf")  # the piece that is sent again now and then is not what is looked at here
        driver_of(app).take()
        panel.show([Row("still", bytes(5))])
        panel.refresh()
        await settle()
        assert driver_of(app).take() == ""
        panel.show([Row("stilt", bytes(5))])
        await settle()
        assert driver_of(app).take() == "\x1b[7;5Ht\x1b[1;1H"

    in_app(check)


def test_markup_and_escapes_are_text() -> None:
    async def check(app: DemoApp, panel: CellPanel, settle: Callable[[], Awaitable[None]]) -> None:
        driver_of(app).take()
        panel.show([Row("[bold]x[/] \x1b[2J", bytes(15))])
        await settle()
        sent = driver_of(app).take()
        assert "[bold]x[/] ?[2J" in sent
        assert "\x1b[2J" not in sent

    in_app(check)


def test_a_crop_gives_the_columns_asked_for() -> None:
    async def check(app: DemoApp, panel: CellPanel, settle: Callable[[], Awaitable[None]]) -> None:
        panel.show([Row("abcdef", bytes(6))])
        strip = panel.render_lines(panel.size.region.crop_size((60, 1)).translate((2, 0)).crop_size((3, 1)))[0]
        assert isinstance(strip, CellStrip)
        assert strip.text == "cde"

    in_app(check)
