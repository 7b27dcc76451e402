"""What a request did when: its latest phases as runs, each from a date of the engine's clock.

A lifeline is immutable bytes, nine a run: at most `RUNS` of them, so that 10,000 requests that changed their phase all the
time take 3.2 MB in all (32 x 9 bytes and 33 of the object itself, each); those that ran through take a fifth of that.

Frames may be merged or missing. What happened between two of them is told by the times that ended: where those say it, it
is known, and else it is unknown from the last moment at which the phase before was seen.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from math import inf
from typing import NamedTuple

RUNS = 32
"""Kept of a request; what is older is told as one run, in which several phases took turns."""

KEPT_S = 600.0
"""Seconds after which a run is dropped."""

_RUN = struct.Struct("<Bd")
_NEAR = 1e-3
"""Seconds by which sums of times may differ from the time between two dates."""


class Phase(IntEnum):
    UNKNOWN = 0
    FOLDED = 1
    QUEUED = 2
    PREEMPTED = 3
    SWAPPED = 4
    LOADING = 5
    PREFILL = 6
    DECODE = 7
    ENDED = 8


_PHASES = {
    "waiting": Phase.QUEUED,
    "preempted": Phase.PREEMPTED,
    "swapped": Phase.SWAPPED,
    "loading": Phase.LOADING,
    "prefill": Phase.PREFILL,
    "decode": Phase.DECODE,
    "finished": Phase.ENDED,
}
_QUEUE, _PREFILL, _DECODE = range(3)
_KINDS = {Phase.PREFILL: _PREFILL, Phase.DECODE: _DECODE}
"""Which of the three times a phase counts in; all others in the first."""


class Times(NamedTuple):
    """What a request is doing, since when, and how long its ended phases took; None: not known."""

    state: str | None
    since: float | None
    queue: float | None
    prefill: float | None
    decode: float | None
    preemptions: int | None

    @property
    def phase(self) -> Phase:
        return _PHASES.get(self.state or "", Phase.UNKNOWN)

    @property
    def ended(self) -> tuple[float, float, float] | None:
        """Seconds of ended phases, by kind; None where not even one is known."""
        parts = (self.queue, self.prefill, self.decode)
        return None if parts == (None, None, None) else (parts[0] or 0.0, parts[1] or 0.0, parts[2] or 0.0)


class Run(NamedTuple):
    phase: Phase
    since: float


def runs(life: bytes) -> Iterator[Run]:
    """Oldest first; each lasts until the next begins."""
    return (Run(Phase(phase), since) for phase, since in _RUN.iter_unpack(life))


def moved(life: bytes, seconds: float) -> bytes:
    """The same with all dates later by so much: the clock that dates them has jumped."""
    return b"".join(_RUN.pack(phase, since + seconds) for phase, since in _RUN.iter_unpack(life))


def grown(life: bytes, before: Times | None, now: Times, seen: float | None, at: float) -> bytes:
    """``life`` with what has come to it.

    ``before``: what was known last, as it held at ``seen``; ``now``: what a frame says whose date is ``at``. Both by the
    engine's clock. None: nothing was known of the request, or no frame came before.
    """
    if now.state is None:
        return life
    if before is not None and before.state == now.state and _same(before.since, now.since):
        return life
    begun = at if now.since is None else min(now.since, at)
    between = _between(before, now, begun)
    if between is None:
        last = before.since if before is not None and before.since is not None else -inf
        unseen = max(last, seen) if seen is not None else max(last, begun - KEPT_S)
        between = [Run(Phase.UNKNOWN, unseen)] if unseen < begun else []
    for run in (*between, Run(now.phase, begun)):
        life = _with(life, run)
    return _bounded(life, at - KEPT_S)


def _same(one: float | None, other: float | None) -> bool:
    return one == other if one is None or other is None else abs(one - other) < _NEAR


def _between(before: Times | None, now: Times, begun: float) -> list[Run] | None:
    """The runs after the phase before and before the present one, which began at ``begun``; None where that is not known."""
    ended = now.ended
    if ended is None or now.since is None:
        return None
    if before is None:
        # From its arrival on: without a preemption there is but one order.
        start = begun - sum(ended)
        if now.preemptions != 0:
            return [Run(Phase.UNKNOWN, start)] if sum(ended) > _NEAR else []
        return _in_order(start, (Phase.QUEUED, Phase.PREFILL, Phase.DECODE), ended)
    known = before.ended
    if known is None or before.since is None:
        return None
    spent = (ended[0] - known[0], ended[1] - known[1], ended[2] - known[2])
    kind = _KINDS.get(before.phase, _QUEUE)
    whole = begun - before.since
    if min(spent) < -_NEAR or abs(sum(spent) - whole) > _NEAR:
        return None
    if abs(spent[kind] - whole) <= _NEAR:
        return []
    again = (now.preemptions or 0) - (before.preemptions or 0) - (now.phase in (Phase.PREEMPTED, Phase.SWAPPED))
    if again > 0 or sum(spent[:kind]) > _NEAR:
        return None
    phases = [Phase.QUEUED, Phase.PREFILL, Phase.DECODE]
    phases[kind] = before.phase
    return _in_order(before.since, tuple(phases), spent)[1:]


def _in_order(start: float, phases: tuple[Phase, ...], spent: tuple[float, ...]) -> list[Run]:
    found = []
    for phase, seconds in zip(phases, spent, strict=True):
        if seconds > _NEAR:
            found.append(Run(phase, start))
            start += seconds
    return found


def _with(life: bytes, run: Run) -> bytes:
    """What began at the same time or later has not been."""
    end = len(life)
    while end and _RUN.unpack_from(life, end - _RUN.size)[1] >= run.since:
        end -= _RUN.size
    if end and _RUN.unpack_from(life, end - _RUN.size)[0] == run.phase:
        return life[:end]
    return life[:end] + _RUN.pack(run.phase, run.since)


def _bounded(life: bytes, oldest: float) -> bytes:
    while len(life) > _RUN.size and _RUN.unpack_from(life, _RUN.size)[1] < oldest:
        life = life[_RUN.size :]
    while len(life) > RUNS * _RUN.size:
        life = _RUN.pack(Phase.FOLDED, _RUN.unpack_from(life)[1]) + life[2 * _RUN.size :]
    return life
