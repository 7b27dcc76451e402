"""Notices that work waits and nothing comes of it, and says which of the known ways of standing still it is.

Pure: fed with the facts of every turn of the serving loop, the time among them. It looks at what has come of the
iterations (tokens for somebody, requests that ended), not at whether there are any: an engine that preempts and computes
the same tokens again and again is busy and stands still.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from engine.requests.request import RequestState
from engine.words import counted
from kvtop.protocol import BLOCK_STATES

if TYPE_CHECKING:
    from engine.core import Engine

_MOVING = tuple(BLOCK_STATES.index(name) for name in ("copying", "transfer"))
_PINNED = BLOCK_STATES.index("pinned")
_PASSING = frozenset({"after_preemption", "token_budget"})
"""Refusals that hold for one iteration only: between others they interrupt nothing."""


class Trouble(StrEnum):
    """A way of standing still."""

    NEVER_FITS = "never_fits"
    """The head of the queue can never have what it needs."""
    BLOCKS_HELD = "blocks_held"
    """Nobody computes: blocks or KV that are needed for it are in copies, or pinned."""
    PAUSED = "paused"
    """Paused, and forgotten."""
    NO_TOKENS = "no_tokens"
    """Iterations follow one another and nobody gets a token."""
    NOTHING_RUNS = "nothing_runs"
    """Work waits and there are no iterations."""
    HEAD_REFUSED = "head_refused"
    """Others get on; the head of the queue is refused for the same reason again and again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds after which each kind of standing still is told; 0 never."""

    stall: float = 10.0
    """Without progress, or with a head that can never fit."""
    paused: float = 60.0
    """Paused with work waiting."""
    head: float = 30.0
    """The same request at the head of the queue, refused for the same reason, while others get on."""

    def __post_init__(self) -> None:
        for name, value in (("stall", self.stall), ("paused", self.paused), ("head", self.head)):
            if not 0.0 <= value < float("inf"):
                raise ValueError(f"watchdog limit {name} of {value} s must be 0 (never) or more")


@dataclass(frozen=True, slots=True)
class Facts:
    """One turn of the serving loop. Totals are since the start; blocks are of the device pool."""

    now: float
    """Monotonic seconds."""
    iteration: int
    waiting: int
    running: int
    """Those that load included."""
    paused: bool
    sampled: int
    """Output tokens."""
    computed: int
    """Tokens computed for the first time."""
    ended: int
    """Requests finished or aborted."""
    total: int
    available: int
    moving: int
    """Blocks in a copy: not readable, or not free, until it ends."""
    pinned: int
    loading: int = 0
    """Of the running, those that wait for their KV from a lower tier."""
    head: str | None = None
    """Id of the request at the head of the queue that was not admitted."""
    code: str | None = None
    """Why not, as in the protocol's Verdict."""
    detail: str = ""
    """The same in a sentence."""
    need: int | None = None
    """Blocks it lacks, beyond those cached for it."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something stands still ``since`` then (monotonic seconds). ``text``: what, in a sentence."""

    trouble: Trouble
    severity: Literal["warn", "error"]
    text: str
    since: float
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """An alarm that began, or (``over``) ended, after ``seconds`` of standing still."""

    alarm: Alarm
    over: bool
    seconds: float


class Watchdog:
    """At most one alarm at a time: ``alarm``, the gravest. `look` tells each beginning and each end once."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.alarm: Alarm | None = None
        self._best = (-1, -1, -1)
        self._progress: tuple[float, int] | None = None
        """When something last came of an iteration (or there was nothing to do), and the iteration then."""
        self._paused: float | None = None
        self._refused: tuple[str, str, float] | None = None
        """Head, code, and since when it is so."""

    def look(self, facts: Facts) -> list[Notice]:
        """The facts of one turn; what began or ended with it."""
        self._keep_times(facts)
        found = self._trouble(facts)
        old = self.alarm
        if old is not None and found is not None and (old.trouble, old.head) == (found.trouble, found.head):
            return []
        self.alarm = found
        notices = [] if old is None else [Notice(old, True, max(0.0, facts.now - old.since))]
        return notices if found is None else [*notices, Notice(found, False, max(0.0, facts.now - found.since))]

    def _keep_times(self, facts: Facts) -> None:
        reached = (facts.sampled, facts.computed, facts.ended)
        moved = any(new > best for new, best in zip(reached, self._best, strict=True))
        # Tokens computed anew count as progress only beyond the most there ever were.
        self._best = tuple(map(max, reached, self._best))  # type: ignore[assignment]
        idle = not (facts.waiting or facts.running)
        if self._progress is None or moved or idle or facts.paused:
            self._progress = (facts.now, facts.iteration)
        if not facts.paused or idle:
            self._paused = None
        elif self._paused is None:
            self._paused = facts.now
        if facts.head is None or facts.code is None or facts.paused:
            self._refused = None
        elif self._refused is None or self._refused[0] != facts.head:
            self._refused = (facts.head, facts.code, facts.now)
        elif facts.code not in (_PASSING | {self._refused[1]}):
            since = self._refused[2] if self._refused[1] in _PASSING else facts.now
            self._refused = (facts.head, facts.code, since)

    def _trouble(self, facts: Facts) -> Alarm | None:
        if self._paused is not None:
            if not _over(facts.now - self._paused, self.limits.paused):
                return None
            work = counted(facts.waiting + facts.running, "request")
            return Alarm(Trouble.PAUSED, "warn", f"paused with {work} left to serve; resume to go on", self._paused)
        if (never := self._never_fits(facts)) is not None:
            return never
        since, iteration = self._progress or (facts.now, facts.iteration)
        if _over(facts.now - since, self.limits.stall):
            return self._standstill(facts, since, facts.iteration - iteration)
        if self._refused is not None and _over(facts.now - self._refused[2], self.limits.head):
            head, code, refused = self._refused
            text = f"{head} is at the head of the queue and refused each time: {facts.detail or code}"
            return Alarm(Trouble.HEAD_REFUSED, "warn", text, refused, head)
        return None

    def _never_fits(self, facts: Facts) -> Alarm | None:
        if self._refused is None or not _over(facts.now - self._refused[2], self.limits.stall):
            return None
        head, code, since = self._refused
        if code == "never_fits":
            return Alarm(Trouble.NEVER_FITS, "error", f"{head} can never run: {facts.detail}", since, head)
        if code == "needs_blocks" and facts.pinned and (facts.need or 0) > facts.total - facts.pinned:
            text = (
                f"{head} needs {counted(facts.need or 0, 'block')} and {facts.pinned} of {facts.total} are pinned: "
                "it can never run until some are unpinned"
            )
            return Alarm(Trouble.NEVER_FITS, "error", text, since, head)
        return None

    def _standstill(self, facts: Facts, since: float, iterations: int) -> Alarm:
        running = facts.running - facts.loading
        work = f"{counted(facts.waiting, 'request')} waiting" + (f", {facts.loading} loading" if facts.loading else "")
        held = facts.moving + facts.pinned
        if not running and held and (facts.loading or (facts.need or 1) > facts.available):
            parts = [f"{facts.moving} in copies"] * bool(facts.moving) + [f"{facts.pinned} pinned"] * bool(facts.pinned)
            text = (
                f"{work} and none can start: of {facts.total} blocks {' and '.join(parts)}, {facts.available} available"
            )
            return Alarm(Trouble.BLOCKS_HELD, "error", text, since)
        if iterations:
            text = f"iterations go on but nobody gets a token: {running} running, {work}"
            return Alarm(Trouble.NO_TOKENS, "error", text, since)
        why = f": {facts.detail}" if facts.detail else ""
        return Alarm(Trouble.NOTHING_RUNS, "error", f"no iteration with {running} running and {work}{why}", since)


def _over(seconds: float, limit: float) -> bool:
    return 0.0 < limit <= seconds


def facts_of(engine: "Engine", now: float) -> Facts:
    """What the watchdog wants to know, at the end of a turn. O(running)."""
    scheduler = engine.scheduler
    pool, totals, verdict = scheduler.pool, scheduler.totals, scheduler.verdict
    return Facts(
        now=now,
        iteration=engine.iteration,
        waiting=len(scheduler.requests) - len(scheduler.running),
        running=len(scheduler.running),
        paused=scheduler.paused,
        sampled=totals.decode_tokens,
        computed=totals.prefill_tokens - totals.recomputed_tokens,
        ended=totals.ended,
        total=pool.total,
        available=pool.available,
        moving=sum(pool.counts[state] for state in _MOVING),
        pinned=pool.counts[_PINNED],
        loading=sum(request.state is RequestState.LOADING for request in scheduler.running),
        head=None if verdict is None else verdict.request.id,
        code=None if verdict is None else verdict.code,
        detail="" if verdict is None else verdict.detail,
        need=None if verdict is None else verdict.need_blocks,
    )
