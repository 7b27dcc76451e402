"""Leaving in order: no new requests, and those that run get their time."""

import time

from engine.http.gate import Gate
from engine.serving.server import Server


class Drain:
    """``seconds``: for requests that are being answered when it begins."""

    def __init__(self, gate: Gate, server: Server, seconds: float) -> None:
        self._gate, self._server = gate, server
        self._why = f"about to stop: no new requests, those that are being answered get {seconds:g} s"
        self.seconds = seconds
        self._begun: float | None = None

    def begin(self) -> bool:
        """False where it has begun before. Safe from a signal handler: it takes no lock."""
        if self._begun is not None:
            return False
        self._begun = time.monotonic()
        self._gate.draining = True
        self._server.drain(self._why)
        return True

    @property
    def begun(self) -> bool:
        return self._begun is not None

    @property
    def active(self) -> int:
        """Requests that are being answered."""
        return self._gate.active

    @property
    def over(self) -> bool:
        """It has begun, and nobody is left to answer or the time is up."""
        if self._begun is None:
            return False
        return not self._gate.active or time.monotonic() - self._begun >= self.seconds
