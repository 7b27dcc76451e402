"""The screen's way to a terminal that is set not to block, that claims odd sizes, or that is gone."""

import asyncio
import contextlib
import contextvars
import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator

import pytest
from textual._context import active_app
from textual.app import App

from kvtop.term.driver import LARGEST_SIZE, STANDARD_SIZE, TerminalDriver, hung_up, terminal_size
from kvtop.term.writer import TerminalWriter


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Both ends of a pseudo terminal: ours, and the program's."""
    ours, programs = pty.openpty()
    attributes = termios.tcgetattr(programs)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(programs, termios.TCSANOW, attributes)
    yield ours, programs
    for number in (ours, programs):
        with contextlib.suppress(OSError):
            os.close(number)


def never() -> None:
    raise AssertionError("it is not gone")


def test_all_arrives_at_a_terminal_that_does_not_block(ends: tuple[int, int]) -> None:
    ours, programs = ends
    os.set_blocking(programs, False)
    text = "".join(f"line {n} é\n" for n in range(20_000))
    wanted = text.encode()
    writer = threading.Thread(target=TerminalWriter(programs, "utf-8", never).write, args=(text,), daemon=True)
    writer.start()
    got = b""
    while len(got) < len(wanted):
        got += os.read(ours, 65536)
    writer.join(30)
    assert got == wanted


def test_a_terminal_that_is_gone_is_told_once(ends: tuple[int, int]) -> None:
    ours, programs = ends
    told: list[bool] = []
    outlet = TerminalWriter(programs, "ascii", lambda: told.append(True))
    outlet.write("█ ok")
    assert os.read(ours, 100) == b"# ok"
    assert not hung_up(programs)
    os.close(ours)
    assert hung_up(programs)
    assert outlet.write("more") == len("more")
    assert outlet.write("and more") == len("and more")
    assert told == [True]


@pytest.mark.parametrize(
    ("columns", "rows", "size"),
    [
        (0, 0, STANDARD_SIZE),
        (120, 0, STANDARD_SIZE),
        (1, 1, (1, 1)),
        (65535, 65535, LARGEST_SIZE),
        (200, 50, (200, 50)),
    ],
)
def test_sizes_are_the_terminals_own(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, size: tuple[int, int]
) -> None:
    monkeypatch.setenv("COLUMNS", "17")
    monkeypatch.setenv("LINES", "x")
    fcntl.ioctl(ends[1], termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    assert terminal_size(ends[1]) == size


def test_what_is_no_terminal_has_the_standard_size() -> None:
    reader, writer = os.pipe()
    os.close(writer)
    assert terminal_size(reader) == STANDARD_SIZE
    os.close(reader)


def test_what_a_signal_or_a_thread_hands_over_is_done_as_the_app() -> None:
    """A timer begun after a stop by force did not know its app, and the screen ended in an internal error at ``q``."""

    async def hand_over() -> tuple[App[None], list[object]]:
        app: App[None] = App()
        driver = object.__new__(TerminalDriver)
        driver._app, driver._loop = app, asyncio.get_running_loop()
        found: list[object] = []
        # Between two callbacks, where the system calls a signal's handler, nobody is the app.
        contextvars.Context().run(driver._in_loop, lambda: found.append(active_app.get(None)))
        await asyncio.sleep(0)
        return app, found

    app, found = asyncio.run(hand_over())
    assert found == [app]
