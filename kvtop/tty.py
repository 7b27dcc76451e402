"""The terminal around the screen: may it be drawn on, and is it put back as it was."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from kvtop.errors import UserError
from kvtop.term.depth import detect

RESET = (
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1016l"  # mouse reporting
    "\x1b[?2004l\x1b[?1004l\x1b[?2048l"  # bracketed paste, focus reports, resize reports
    "\x1b[<u"  # keyboard protocol
    "\x1b[?2026l\x1b[?1049l"  # held frame, alternate screen
    "\x1b[0m\x1b[?25h"  # colours, cursor
)
"""Undoes whatever a viewer that was killed may have left switched on. Harmless where nothing was."""


class Terminated(SystemExit):
    """SIGTERM or SIGHUP came. A `SystemExit`, which an event loop lets through wherever in it the signal strikes."""

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
    try:
        detect(os.environ, isatty=True)
    except ValueError as error:
        raise UserError(str(error), code=2) from None


@contextlib.contextmanager
def signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP raise `Terminated` in the main thread, so that every ``finally`` runs."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Terminated(number)

    # What was ignored from the start (nohup) stays so.
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """However the body ends, the terminal gets back its modes; after an exception also its screen and cursor."""
    import termios

    try:
        before = termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, ValueError):
        before = None
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.write(RESET)
            sys.stdout.flush()
        raise
    finally:
        if before is not None:
            with contextlib.suppress(termios.error, OSError, ValueError):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, before)
