"""The terminal around the screen: may it be drawn on, and is it put back as it was."""

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from kvtop.errors import UserError

if TYPE_CHECKING:
    import asyncio

RESET = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1016l"  # mouse reporting
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # bracketed paste, focus reports, resize reports
    "\x1b[<u"  # keyboard protocol
    "\x1b[?2026l\x1b[?1049l"  # held frame, alternate screen
    "\x1b[0m\x1b[?25h"  # colours, cursor
)
"""Undoes whatever a viewer that was killed may have left switched on. Harmless where nothing was."""


HARD_AFTER = 3.0
"""Seconds that an event loop gets to end in good order before whatever it waits for (a stalled terminal) is broken off."""

_WRITABLE_WITHIN = 1.0


class Terminated(SystemExit):
    """SIGINT, SIGTERM or SIGHUP came. A `SystemExit`, which an event loop lets through."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def require_screen() -> None:
    """Raises `UserError` (code 2) where a full-screen view cannot be drawn."""
    hint = "for a script: kvtop snapshot -   or   kvtop ls --json"
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output"), (sys.stderr, "error")):
        if stream is None or stream.closed or not stream.isatty():
            raise UserError(f"the screen needs a terminal, and standard {name} is not one", hint, code=2)
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UserError("the screen needs a terminal that can move its cursor (TERM is unset or dumb)", hint, code=2)


def current_folder() -> Path:
    """The folder the shell is in. One that has been deleted is said to be gone when something is written there."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise `Terminated`, so that every ``finally`` of the body runs.

    Outside an event loop it is raised where the signal strikes. In one the loop raises it between two callbacks, so that its tasks are cancelled in good order; a second signal, or `HARD_AFTER` seconds, break it off.
    """
    first: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        loop = _running_loop()
        if loop is None or first:
            raise Terminated(first[0] if first else number)
        first.append(number)
        signal.setitimer(signal.ITIMER_REAL, HARD_AFTER, HARD_AFTER)
        loop.call_soon_threadsafe(_raise, number)

    # What was ignored from the start (nohup, a background job) stays so.
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    numbers = [n for n in wanted if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in [*numbers, signal.SIGALRM]}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _running_loop() -> "asyncio.AbstractEventLoop | None":
    """The event loop that this thread is in."""
    # Nothing is imported in a signal handler: it may have struck in the middle of that very import.
    running = getattr(sys.modules.get("asyncio.events"), "get_running_loop", None)
    if running is None:
        return None
    try:
        loop: asyncio.AbstractEventLoop = running()
    except RuntimeError:
        return None
    return loop


def _raise(number: int) -> None:
    raise Terminated(number)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """However the body ends, the terminal gets back its modes; after an exception also its screen and cursor."""
    import termios

    terminal = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(terminal)
    except termios.error:
        before = None
    try:
        yield
    except BaseException:
        # The screen is over: nothing that follows (the engine's orderly end) is to be broken off.
        signal.setitimer(signal.ITIMER_REAL, 0)
        with contextlib.suppress(OSError):
            # Only if it is taken at once; a stalled terminal must not hold us up.
            if select.select([], [sys.stdout], [], _WRITABLE_WITHIN)[1]:
                os.write(sys.stdout.fileno(), RESET.encode())
        raise
    finally:
        if before is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSANOW, before)
