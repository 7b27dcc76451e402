"""Leaving in order: no new requests, and those that run get their time."""

import time

from engine.http.gate import Gate
from engine.serving.server import Server
from engine.words import counted

PAUSED = "the engine is paused, so nothing comes of them before kvtop ctl resume"


class Drain:
    """``seconds``: for requests that are being answered when it begins."""

    def __init__(self, gate: Gate, server: Server, seconds: float) -> None:
        self._gate, self._server = gate, server
        self.seconds = seconds
        self._begun: float | None = None

    def begin(self) -> bool:
        """False where it has begun before. Safe from a signal handler: it takes no lock."""
        if self._begun is not None:
            return False
        self._begun = time.monotonic()
        self._gate.draining = True
        why = f"about to stop: no new requests, those that are being answered get {self.seconds:g} s"
        self._server.drain(f"{why}; {PAUSED}" if self._server.paused and self.active else why)
        return True

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return self._gate.active

    @property
    def paused(self) -> bool:
        """Whether those that are being answered get nothing, however long it takes."""
        return self._server.paused

    @property
    def waits_for(self) -> str:
        """What an end in order waits for, in a sentence; empty where it waits for nothing."""
        if self._begun is None or not self.active:
            return ""
        left = max(0.0, self.seconds - (time.monotonic() - self._begun))
        waiting = f"{counted(self.active, 'request')} may take {left:.0f} s more"
        return f"{waiting}; {PAUSED}" if self.paused else waiting

    @property
    def over(self) -> bool:
        """It has begun, and nobody is left to answer or the time is up."""
        if self._begun is None:
            return False
        return not self.active or time.monotonic() - self._begun >= self.seconds
