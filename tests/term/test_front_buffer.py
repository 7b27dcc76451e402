"""What a user would notice of the front buffer: few bytes, no colour when none is wanted, keys that answer."""

import asyncio
import os
import re
import subprocess
import sys

import pytest

from kvtop.term import front_buffer, selftest
from kvtop.term.cell_buffer import CellBuffer
from kvtop.term.depth import ColourDepth
from kvtop.term.palette import Palette
from kvtop.term.paper import Paper
from kvtop.term.paste import PaperTold
from kvtop.term.theme import THEMES
from kvtop.views.block_states import role_of
from kvtop.views.rows import Role, Row
from tests.term.demo_app import DemoApp, Dialog
from tests.term.driver import CountingDriver, StallingDriver, driver_of
from tests.term.screen_of import terminal, visible
from tests.term.test_palette import indexed

SIZE = (60, 12)


async def until(condition: object, what: str) -> None:
    """Waits for ``condition()``; a minute without it is a failure."""
    for _ in range(6000):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never happened: {what}")


def row(text: str) -> Row:
    return Row(text, bytes(len(text)))


def test_textual_is_as_the_front_buffer_knows_it() -> None:
    assert selftest.problem() == ""


def test_another_textual_means_its_own_painting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "problem", lambda: "Textual's App has no _display")

    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        assert app.stock_reason == "Textual's App has no _display"
        async with app.run_test(headless=False, size=SIZE):
            app.panel("list").show([row("painted all the same")])
            await until(lambda: "painted all the same" in "".join(driver_of(app).written), "the row on the terminal")
            app.redraw()

    asyncio.run(main())


@pytest.mark.parametrize("theme", ["auto", "high-contrast"])
def test_ink_follows_the_paper_that_the_terminal_tells(theme: str) -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED, look=THEMES[theme])
        async with app.run_test(headless=False, size=SIZE) as pilot:
            app.panel("list").show([Row("drawn before", bytes((Role.TITLE,)) * 12)])
            screen, stream = terminal(*SIZE)

            def ink() -> str:
                """The colour of the row's first letter on the terminal; empty while it is not there."""
                stream.feed(driver_of(app).take())
                y = next((y for y, text in enumerate(screen.display) if text.startswith("drawn before")), None)
                return "" if y is None else screen.buffer[y][0].fg

            dark, light = (
                indexed(Palette(ColourDepth.INDEXED, paper, THEMES[theme].strong).looks[Role.TITLE].fg)
                for paper in (Paper.DARK, Paper.LIGHT)
            )
            await until(lambda: ink() == dark, "a first paint")
            app.post_message(PaperTold(Paper.LIGHT))
            await pilot.pause()
            await until(lambda: ink() == light, "the same in other ink")
            assert app.theme == "ansi-light"

    asyncio.run(main())


def test_a_terminal_is_asked_unless_the_user_has_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, asks, paper, strong in (
        ("auto", True, Paper.DARK, False),
        ("light", False, Paper.LIGHT, False),
        ("dark", False, Paper.DARK, False),
        ("high-contrast", True, Paper.DARK, True),
        ("high-contrast-light", False, Paper.LIGHT, True),
    ):
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED, look=THEMES[name])
        assert (app.asks_paper, app.palette.paper, app.palette.strong) == (asks, paper, strong)
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED).palette.paper is Paper.LIGHT


def test_a_fault_while_painting_shows_the_screen_the_old_way(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            await until(lambda: driver_of(app).written, "a first paint")
            with monkeypatch.context() as patch:
                patch.setattr(CellBuffer, "flush", lambda self: 1 / 0)
                app.panel("list").show([row("through the fault")])
                await until(lambda: "through the fault" in "".join(driver_of(app).written), "the row")
                assert app.faults >= 1
            screen, stream = terminal(*SIZE)
            driver_of(app).take()
            app.screen.refresh()
            await until(lambda: driver_of(app).written, "a repaint")
            stream.feed(driver_of(app).take())
            assert "through the fault" in "\n".join(screen.display)

    asyncio.run(main())


def test_repeated_faults_end_the_front_buffer_and_not_the_app(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_buffer, "absorb", lambda *_: 1 / 0)

    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            await until(lambda: app.stock_reason, "giving up")
            assert app.faults == front_buffer.FAULTS_MOST
            assert "ZeroDivisionError" in app.stock_reason
            app.panel("list").show([row("still painted")])
            await until(lambda: "still painted" in "".join(driver_of(app).written), "the row")

    asyncio.run(main())


def test_frames_are_wrapped_in_one_synchronised_update_where_the_terminal_knows_it() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            await until(lambda: driver_of(app).written, "a first paint")
            app._sync_available = True
            driver_of(app).take()
            app.panel("list").show([row("one")])
            await until(lambda: driver_of(app).written, "a frame")
            frame = driver_of(app).written[0]
            assert frame.startswith("\x1b[?2026h")
            assert frame.endswith("\x1b[?2026l")
            assert frame.count("\x1b[?2026") == 2

    asyncio.run(main())


def test_redraw_repairs_what_something_else_wrote() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            app.panel("list").show([row("content")])
            await until(lambda: "content" in "".join(driver_of(app).written), "the row")
            screen, stream = terminal(*SIZE)
            stream.feed(driver_of(app).take())
            good = visible(screen)
            stream.feed("\x1b[H" + "garbage" * 40)
            assert visible(screen) != good
            app.redraw()
            stream.feed(driver_of(app).take())
            assert visible(screen) == good

    asyncio.run(main())


def test_while_frames_are_drawn_damage_heals_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front_buffer, "HEAL_EVERY", 0.0)

    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            await until(lambda: driver_of(app).written, "a first paint")
            screen, stream = terminal(*SIZE)
            app.redraw()
            stream.feed(driver_of(app).take())
            good = visible(screen)[:-6]
            stream.feed("\x1b[1;1H" + "garbage")
            frames = 0

            def healed() -> bool:
                nonlocal frames
                frames += 1
                app.panel("list").show([row(str(frames))])
                stream.feed(driver_of(app).take())
                return visible(screen)[:-6] == good

            await until(healed, "a healed screen")

    asyncio.run(main())


def test_a_stalled_terminal_blocks_neither_keys_nor_later_frames() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=StallingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE) as pilot:
            driver = driver_of(app)
            await until(lambda: driver.tap.taken, "a first paint")
            driver.tap.flowing.clear()
            frames = 0
            while frames < 200:
                # Many times what the writer's queue holds. Were a frame to wait for room, this would never end.
                frames += 1
                app.panel("list").show([row(f"frame {frames}")])
                await asyncio.sleep(0.012)
                if app.writer_backlog() > 2 and frames > 60:
                    break
            await pilot.press("d")
            assert app.counted == 1
            assert app.writer_backlog() > 2
            assert driver._writer_thread._queue.qsize() < 10
            app.panel("list").show([row("the latest")])
            driver.tap.flowing.set()
            await until(lambda: app.writer_backlog() == 0 and not app._queued(), "a drained terminal")
            screen, stream = terminal(*SIZE)
            await until(lambda: "latest" in _replayed(screen, stream, driver), "the latest frame")

    asyncio.run(main())


def _replayed(screen: object, stream: object, driver: object) -> str:
    while driver.tap.taken:  # type: ignore[attr-defined]
        stream.feed(driver.tap.taken.pop(0))  # type: ignore[attr-defined]
    return "\n".join(screen.display)  # type: ignore[attr-defined]


def test_a_stalled_terminal_slows_the_clock_and_says_so() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=StallingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE):
            driver = driver_of(app)
            await until(lambda: driver.tap.taken, "a first paint")
            frame = 0

            def tick(now: float, text_due: bool) -> None:
                nonlocal frame
                frame += 1
                app.panel("list").show([row(f"frame {frame}")])

            clock = app.start_clock(tick)
            assert app.clock is clock
            driver.tap.flowing.clear()
            await until(lambda: app.governor.reason == "slow terminal", "a slower clock")
            assert clock.fps < 20
            driver.tap.flowing.set()

    asyncio.run(main())


def test_nothing_is_written_while_suspended_and_all_of_it_afterwards() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=SIZE) as pilot:
            app.panel("list").show([row("before")])
            await until(lambda: "before" in "".join(driver_of(app).written), "the row")
            clock = app.start_clock(lambda now, text_due: None)
            app.app_suspend_signal.publish(app)
            driver_of(app).take()
            assert clock.paused
            app.panel("list").show([row("during")])
            await pilot.pause(0.05)
            assert driver_of(app).take() == ""
            app.app_resume_signal.publish(app)
            assert not clock.paused
            await until(lambda: "during" in "".join(driver_of(app).written), "a repaint")
            screen, stream = terminal(*SIZE)
            stream.feed(driver_of(app).take())
            assert "Quit" in "\n".join(screen.display)

    asyncio.run(main())


COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:[349][0-9]|10[0-7])(?:;[0-9;]*)?m")

NO_COLOUR_RUN = """
import asyncio, sys
from kvtop.term.environment import prepare_environment
prepare_environment()
from kvtop.term.depth import ColourDepth
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.views.rows import Row
from tests.term.demo_app import DemoApp, Dialog
from tests.term.driver import CountingDriver, driver_of

async def main():
    app = DemoApp(driver_class=CountingDriver, depth=ColourDepth(sys.argv[1]))
    if sys.argv[2] == "stock":
        app.stock_reason = "asked for"
    async with app.run_test(headless=False, size=(80, 24), notifications=True) as pilot:
        await pilot.pause()
        app.panel("map").show([Row("x" * 80, bytes(range(y * 8, y * 8 + 80))) for y in range(20)])
        await pilot.pause(0.1)
        app.notify("a notice", severity="error")
        await pilot.pause(0.1)
        await app.push_screen(Dialog())
        await pilot.pause(0.1)
        app.pop_screen()
        app.action_command_palette()
        await pilot.pause(0.2)
        return driver_of(app).take()

text = asyncio.run(main())
sys.stdout.buffer.write(text.encode())
"""


def _run(depth: str, painting: str, **env: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    run = subprocess.run(
        [sys.executable, "-c", NO_COLOUR_RUN, depth, painting], env=clean | env, capture_output=True, timeout=120
    )
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    return run.stdout.decode()


@pytest.mark.parametrize("painting", ["diff", "stock"])
@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_without_colour_nothing_on_the_screen_has_any(painting: str, env: dict[str, str]) -> None:
    sent = _run("none", painting, **env)
    assert "Shall it be done?" in sent
    assert "a notice" in sent
    assert COLOUR.findall(sent) == []


def test_sixteen_colours_are_all_that_is_sent_to_a_terminal_of_sixteen() -> None:
    sent = _run("16", "diff")
    assert COLOUR.search(sent)
    assert not re.search(r"[34]8;[25]", sent)


def test_a_dialog_over_a_changing_map_costs_little() -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=ColourDepth.INDEXED)
        async with app.run_test(headless=False, size=(100, 30)) as pilot:
            rows = [Row("█" * 76, bytes([role_of("free")]) * 76) for _ in range(20)]
            app.panel("map").show(rows)
            await app.push_screen(Dialog())
            await pilot.pause(0.1)
            driver_of(app).take()
            rows[3] = Row(
                "█" * 76, bytes([role_of("free")]) * 10 + bytes([role_of("shared")]) + bytes([role_of("free")]) * 65
            )
            app.panel("map").show(rows)
            await until(lambda: driver_of(app).written, "a frame")
            assert len(driver_of(app).take().encode()) < 300

    asyncio.run(main())
