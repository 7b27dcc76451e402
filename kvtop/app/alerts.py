"""Telling of alarms beyond the screen: the terminal's bell, and a command of the user's with the alarm as JSON."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from math import isfinite
from typing import Any

from kvtop.alarms import Change
from kvtop.alarms.report import alarm_document
from kvtop.state import EngineState

BELL_EVERY_S = 10.0
AT_ONCE = 4
"""Commands that run at the same time at most."""

TIMEOUT_S = 30.0


def change_document(change: Change, state: EngineState) -> dict[str, Any]:
    """An alarm that began or is over, for a program."""
    engine = state.hello.engine if state.hello is not None else None
    document = {
        "engine": None if engine is None else engine.name,
        "run": None if engine is None else engine.run,
        "at": change.wall,
        **alarm_document(change.check, change.mono),
        "state": "firing" if change.began else "over",
    }
    # Dates are an engine's word: JSON has no NaN.
    return {
        name: None if isinstance(value, float) and not isfinite(value) else value for name, value in document.items()
    }


class Alerts:
    """Takes changes in the screen's thread and never waits there.

    Args:
        bell: Whether a critical alarm rings, at most once in `BELL_EVERY_S`.
        command: Run by ``sh -c`` with the alarm as one line of JSON on its standard input; what an engine says goes nowhere
            else. In a session of its own, so that it cannot touch the terminal.
        timeout: Seconds after which it is killed, with all that it started.
        now: The viewer's monotonic clock.

    Attributes:
        ring: Rings.
        say: Shows a text with a severity; called from other threads too.
    """

    def __init__(
        self,
        bell: bool = False,
        command: str | None = None,
        *,
        timeout: float = TIMEOUT_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bell, self._command, self._timeout, self._now = bell, command, timeout, now
        self._rang: float | None = None
        self._lock = threading.Lock()
        self._running: dict[threading.Thread, subprocess.Popen[bytes] | None] = {}
        self._failed = self._closed = False
        self.ring: Callable[[], None] = lambda: None
        self.say: Callable[[str, str], None] = lambda text, severity: None

    def take(self, state: EngineState, changes: list[Change]) -> None:
        """Alarms of ``state`` began or ended."""
        if any(change.began and change.check.severity == "critical" for change in changes):
            self._maybe_ring()
        if self._command is not None:
            for change in changes:
                self._start(change_document(change, state))

    def close(self) -> None:
        """No further command is started, and those that run are ended."""
        with self._lock:
            self._closed = True
            running = list(self._running.items())
        for _, process in running:
            if process is not None:
                _kill(process)
        for thread, _ in running:
            thread.join(1.0)

    def _maybe_ring(self) -> None:
        now = self._now()
        if self._bell and (self._rang is None or not 0 <= now - self._rang < BELL_EVERY_S):
            self._rang = now
            self.ring()

    def _start(self, document: dict[str, Any]) -> None:
        line = json.dumps(document).encode(errors="replace") + b"\n"
        thread = threading.Thread(target=self._run, args=(line,), name="kvtop-on-alarm", daemon=True)
        with self._lock:
            if self._closed:
                return
            busy = len(self._running) >= AT_ONCE
            if not busy:
                self._running[thread] = None
        if busy:
            self._complain(f"{AT_ONCE} of it run already, so it was not told of {document['title']}")
        else:
            thread.start()

    def _run(self, line: bytes) -> None:
        thread = threading.current_thread()
        try:
            trouble = self._told(line, thread)
        except OSError as error:
            trouble = error.strerror or str(error)
        finally:
            with self._lock:
                self._running.pop(thread, None)
        if trouble and not self._closed:
            self._complain(trouble)

    def _told(self, line: bytes, thread: threading.Thread) -> str | None:
        """Why it failed; None where it did not."""
        assert self._command is not None
        process = subprocess.Popen(
            ["/bin/sh", "-c", self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        with self._lock:
            self._running[thread] = process
            closed = self._closed
        if closed:
            _kill(process)
        try:
            process.communicate(line, timeout=self._timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.communicate()
            return f"it took more than {self._timeout:g} s and was ended"
        return f"exit code {process.returncode}" if process.returncode else None

    def _complain(self, what: str) -> None:
        with self._lock:
            first, self._failed = not self._failed, True
        if first:
            self.say(f"--on-alarm: {what} (further failures are not told)", "warning")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
