"""What goes out after each turn of the engine: frames while somebody watches, fewer for the flight recorder alone, and
keyframes made beside the work."""

import logging
import threading
import time
from collections.abc import Callable

from engine.core import Step
from engine.serving.keyframes import KeyframeSnapshot
from engine.serving.telemetry import Telemetry
from kvtop.publish import Publisher

GATHER_S = 0.001
"""Seconds an iteration is lengthened at most by a keyframe in the making."""

GATHER_IDLE_S = 0.02
"""The same where nothing runs; commands wait as long."""

RECORDED_EVERY_S = 0.5
"""Seconds between two frames while only the flight recorder listens."""

RETRY_S = 1.0
"""Seconds before a keyframe is tried again that could not be encoded."""

_LOG = logging.getLogger(__name__)


class Broadcast:
    """Between telemetry and publisher. While nobody watches, an iteration costs nothing but its events; with a flight
    recorder, a frame now and then that tells of all iterations since the one before. ``clock``: monotonic seconds."""

    def __init__(self, telemetry: Telemetry, publisher: Publisher, clock: Callable[[], float] = time.monotonic) -> None:
        self._telemetry = telemetry
        self._publisher = publisher
        self._clock = clock
        self._framed = float("-inf")
        self._encoder: threading.Thread | None = None
        self._not_before = 0.0

    def open(self) -> None:
        """The empty pool, before anything runs: a viewer need not wait for the first iteration to see it."""
        self._publisher.publish_keyframe(self._telemetry.keyframe())
        self._telemetry.prepare_keyframes()

    def tell(self, step: Step | None, *, urgent: bool = False) -> bool:
        """What this turn did, and some of a keyframe that somebody waits for. Whether more of that is left to be done.
        ``urgent``: the flight recorder is to know of it at once."""
        telemetry, publisher = self._telemetry, self._publisher
        news = step is not None or telemetry.has_news
        # One look: viewers come and go on another thread, also in the middle of this.
        watched, recorded = publisher.watched, publisher.recorded
        listened = watched or recorded
        if not listened:
            telemetry.drop_keyframe()
        # Also one look: a keyframe is begun right after a frame, so where one is wanted nothing is held back.
        wanted = listened and not telemetry.gathers and not self._is_encoding and self._is_wanted()
        if not listened or telemetry.passed_over:
            if news:
                events = telemetry.pass_over(step)
                publisher.pass_over(telemetry.seq, events)
        elif news:
            self._frame(step, at_once=watched or urgent or wanted)
        if not listened:
            return False
        if wanted:
            # Who was told nothing for a while is told by it, and from then on by frames again.
            telemetry.begin_keyframe()
        if telemetry.gathers:
            snapshot = telemetry.work_on_keyframe(GATHER_S if step is not None else GATHER_IDLE_S)
            if snapshot is not None:
                publisher.keyframe_coming(snapshot.head.seq)
                self._encoder = threading.Thread(
                    target=self._encode, args=(snapshot,), name="kvtop-keyframe", daemon=True
                )
                self._encoder.start()
        return telemetry.gathers

    def _frame(self, step: Step | None, at_once: bool) -> None:
        """Of this turn and those held back; else it is held back too."""
        now = self._clock()
        # A keyframe in the making has to be told of every change at once.
        due = at_once or now - self._framed >= RECORDED_EVERY_S or self._telemetry.gathers
        if due or (step is not None and step.fatal is not None):
            self._framed = now
            self._publisher.publish(self._telemetry.frame(step))
        elif step is not None:
            self._telemetry.hold_back(step)

    def last_words(self) -> None:
        """What has been held back, for the flight recorder of an engine that fails."""
        if self._publisher.recorded and not self._telemetry.passed_over and self._telemetry.has_news:
            self._publisher.publish(self._telemetry.frame(None))

    def close(self) -> None:
        """Waits for a keyframe that is being encoded."""
        if self._encoder is not None:
            self._encoder.join(5.0)

    def _is_wanted(self) -> bool:
        return self._publisher.keyframe_due() and time.monotonic() >= self._not_before

    @property
    def _is_encoding(self) -> bool:
        return self._encoder is not None and self._encoder.is_alive()

    def _encode(self, snapshot: KeyframeSnapshot) -> None:
        try:
            self._publisher.publish_keyframe(snapshot.encode())
        except Exception:
            self._not_before = time.monotonic() + RETRY_S
            _LOG.exception("kvtop: a keyframe could not be made; trying again")
