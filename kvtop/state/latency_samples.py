"""Latencies as they are first told of a request, dated for percentiles over a window."""

from typing import NamedTuple

from kvtop.state.outcomes import Outcomes, latency_of
from kvtop.state.percentiles import Latencies
from kvtop.state.request_row import RequestRow


class Had(NamedTuple):
    """What was known of a request before it changed."""

    ttft: float | None
    tpot: float | None
    finished: bool

    @classmethod
    def of(cls, row: RequestRow | None) -> "Had":
        return cls(None, None, False) if row is None else cls(row.ttft_s, row.tpot_s, row.finished)


class LatencySamples:
    """All that is sampled of requests. Values of requests that had ended before anybody watched, and are told no more, are
    unknown.

    Attributes:
        ttft: Arrival to first token, dated by that token.
        tpot: Per token after the first, dated by the end.
        queue: Waiting before the first token, dated by that.
        latency: Arrival to end of those that finished, dated by the end.
        outcomes: Those that ended, with all of these times together.
    """

    def __init__(self) -> None:
        self.ttft, self.tpot, self.queue, self.latency = Latencies(), Latencies(), Latencies(), Latencies()
        self.outcomes = Outcomes()

    def clear(self) -> None:
        for part in (self.ttft, self.tpot, self.queue, self.latency, self.outcomes):
            part.clear()

    def change(self, mono: float, had: Had, row: RequestRow) -> None:
        """What a frame of the engine's time ``mono`` told first."""
        if had.ttft is None and row.ttft_s is not None:
            self.ttft.add(mono, row.ttft_s)
            self._queue(mono, row.queue_s)
        if had.tpot is None and row.tpot_s is not None:
            self.tpot.add(mono, row.tpot_s)
        if row.finished and not had.finished:
            self._ended(mono, row)

    def known(self, before: RequestRow | None, row: RequestRow) -> None:
        """What a keyframe tells, dated as well as its times allow; ``before``: the request as it was known, if it was."""
        since, had = row.phase_since, Had.of(before)
        if since is None:
            return
        if row.tpot_s is not None and row.finished and had.tpot is None:
            self.tpot.add(since, row.tpot_s)
        if row.ttft_s is not None and had.ttft is None:
            if row.state == "decode":
                self.ttft.add(since, row.ttft_s)
                self._queue(since, waited_first(row))
            elif row.finished and row.decode_s is not None:
                self.ttft.add(since - row.decode_s, row.ttft_s)
                self._queue(since - row.decode_s, waited_first(row))
        if row.finished and not had.finished:
            self._ended(since, row)

    def _queue(self, mono: float, waited: float | None) -> None:
        if waited is not None:
            self.queue.add(mono, waited)

    def _ended(self, mono: float, row: RequestRow) -> None:
        self.outcomes.add(mono, row, waited_first(row))
        whole = latency_of(row)
        if whole is not None and row.finish_reason in ("stop", "length"):
            self.latency.add(mono, whole)


def waited_first(row: RequestRow) -> float | None:
    """Seconds in the queue before its first token, of a request that has it; None where it was preempted: some of them may
    have come after it."""
    return None if row.preemptions else row.queue_s
