"""The engine as its frames have described it so far: the one thing that all views look at.

Frames come from outside. Whatever cannot be true (a block beyond the pool, a negative gauge) is left out, counted in
`EngineState.bad_facts` and described in `EngineState.bad_note`; every container is bounded.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kvtop.protocol import (
    AnyFrame,
    Batch,
    Bye,
    Counters,
    Durations,
    Fault,
    Gap,
    Gauges,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    PolicyValue,
    Queue,
    RequestChange,
    Status,
    TierLevel,
    Verdict,
)
from kvtop.record.playback import Playback
from kvtop.state.block_arrays import MAX_BLOCKS, BlockArrays
from kvtop.state.changes import Changes, LogEntry, Marker
from kvtop.state.engine_clock import EngineClock, Jump
from kvtop.state.event_log import EventLog
from kvtop.state.history import PARTS, History, Reading, Values
from kvtop.state.latency_samples import Had, LatencySamples
from kvtop.state.percentiles import Latencies
from kvtop.state.policy_log import PolicyLog
from kvtop.state.rates import Rates
from kvtop.state.reading import reading
from kvtop.state.refusals import Refusals
from kvtop.state.request_row import MAX_NUMBER, RequestRow
from kvtop.state.request_table import RequestTable
from kvtop.state.tiers import known_levels, tier_spans, tier_totals

MAX_EVENTS = 2000
"""Routine events kept, and as many notable ones."""

MAX_QUEUE = 10_000
HISTORY = 512


class Link(NamedTuple):
    """The connection. ``since``: viewer's clock; before the first contact it is down with an empty reason."""

    up: bool = False
    reason: str = ""
    retrying: bool = False
    since: float | None = None


class Timing(NamedTuple):
    """Durations of one frame; summed over so many ``iterations``, none for news from between two."""

    mono: float
    iterations: int
    durations: Durations
    batch: Batch | None = None
    """Its tokens are sums too."""


class EngineState:
    """One object for the life of a viewer. A hello with another ``run`` empties it in place."""

    def __init__(self) -> None:
        self.link = Link()
        self.hello: Hello | None = None
        self._frozen: float | None = None
        self.playback: Playback | None = None
        """How the recording is played that all this comes from; None where an engine tells it."""
        self.past = False
        """It is looked back on: the engine has gone on since."""
        self._reset()

    def _reset(self) -> None:
        self.seq: int | None = None
        self.iteration: int | None = None
        self.wall: float | None = None
        self.mono: float | None = None
        self.arrived: float | None = None
        self._engine_clock = EngineClock()
        self.jump: Jump | None = None
        self.resync = False
        self.blocks: BlockArrays | None = None
        self.requests: RequestTable | None = None
        self.queue: Queue | None = None
        self.verdict: Verdict | None = None
        self.gauges: dict[str, int | float] = {}
        self.counters: dict[str, int | float] = {}
        self.policy: dict[str, PolicyValue] = {}
        self.policy_id: int | None = None
        self.status: Status | None = None
        self.batch: Batch | None = None
        self.batches: deque[int] = deque(maxlen=HISTORY)
        self.durations: deque[Timing] = deque(maxlen=HISTORY)
        self.events = EventLog(MAX_EVENTS)
        self.rates = Rates()
        self.tiers: tuple[TierLevel, ...] = ()
        self.tier_rates = Rates(None)
        self.history = History()
        self.refusals = Refusals()
        self.policies = PolicyLog()
        self._spent = dict.fromkeys(PARTS, 0.0)
        self.latencies = LatencySamples()
        self.bad_facts = 0
        self.bad_note: str | None = None
        self.fault: Fault | None = None
        self.bye: str | None = None

    def begin_anew(self) -> Changes:
        """Forgets everything but the link: what comes next is told from elsewhere in a recording."""
        self.hello, self._frozen = None, None
        self._reset()
        return Changes(full=True, hello=True)

    # -- what comes in ------------------------------------------------------------------------------------------

    def apply(self, frame: AnyFrame, now: float) -> Changes:
        """Takes one frame; ``now`` is the viewer's monotonic clock. Never raises for what a frame says."""
        if not self.link.up:
            self.link = Link(up=True, since=now)
        self._frozen = None
        if isinstance(frame, IterationFrame):
            return self._iteration(frame, now)
        if isinstance(frame, Keyframe):
            return self._keyframe(frame, now)
        if isinstance(frame, Hello):
            return self._hello(frame)
        if isinstance(frame, Gap):
            return self._gap(frame)
        if isinstance(frame, Fault):
            self.fault = frame
            return Changes(numbers=True)
        if isinstance(frame, Bye):
            self.bye = frame.reason
            return Changes(link=True)
        return Changes()

    def unusable(self, count: int, note: str) -> Changes:
        """So many facts came in a form that could not be used; ``note`` describes one."""
        self.bad_facts += count
        self.bad_note = note
        return Changes(numbers=True)

    def note(self, marker: Marker) -> Changes:
        """Enters a mark of the viewer's own into the log."""
        self.events.append(marker)
        return Changes(events=[marker])

    def link_up(self, now: float) -> Changes:
        """The source is connected (its frames follow)."""
        self.link = Link(up=True, since=now)
        self.bye = None
        return Changes(link=True)

    def link_down(self, reason: str, retrying: bool, now: float) -> Changes:
        """The source lost its engine. What was known stays, and its times stand still."""
        was_up = self.link.up
        if was_up:
            self._frozen = self.mono_now(now)
        since = now if was_up or self.link.since is None else self.link.since
        self.link = Link(False, reason[:500] or "connection lost", retrying, since)
        if not was_up:
            return Changes(link=True)
        marker = Marker("link", self.wall, self.iteration, "warn", f"connection lost: {self.link.reason}")
        self.events.append(marker)
        return Changes(link=True, events=[marker])

    def _hello(self, hello: Hello) -> Changes:
        restarted = self.hello is not None and self.hello.engine.run != hello.engine.run
        if restarted:
            self._reset()
        self.hello = hello
        self.bye = None
        self.resync = self.seq is not None
        changes = Changes(hello=True, full=restarted)
        if restarted:
            marker = Marker("restart", hello.engine.started, None, "warn", "engine restarted: a new run begins here")
            self.events.append(marker)
            changes.events.append(marker)
        return changes

    def _gap(self, gap: Gap) -> Changes:
        self.resync = True
        # The gap itself says how many events it lost; a hole in their numbers is no further news.
        events = self.events.receive(gap.events, hole_is_known=gap.events_lost > 0)
        self._policies_told(self.policy, events, ahead=True)
        lost = f", {gap.events_lost} events lost" if gap.events_lost else ", no event lost"
        count = max(0, gap.last - gap.first + 1)
        text = f"{count} frames not shown ({gap.reason}){lost}"
        marker = Marker("gap", self.wall, self.iteration, "warn" if gap.events_lost else "info", text)
        self.events.append(marker)
        return Changes(events=[*events, marker])

    def _geometry(self, geometry: Geometry | None) -> None:
        """What has changed since the hello; the pools cannot."""
        if geometry is not None and self.hello is not None:
            geometry = geometry.model_copy(update={"pools": self.hello.geometry.pools})
            self.hello = self.hello.model_copy(update={"geometry": geometry})

    def _keyframe(self, frame: Keyframe, now: float) -> Changes:
        before, joined, still = self._reading(), not self.resync, self.stands_still
        seen = self.mono
        marks = self._clock(frame.seq, frame.iteration, frame.wall, frame.mono, now)
        self.resync = False
        events = self.events.receive(frame.events)
        self._policies_told(frame.policy, events)
        self.policy, self.policy_id, self.status = frame.policy, frame.policy_id, self._dated(frame.status)
        self._geometry(frame.geometry)
        self.queue, self.verdict = _bounded(frame.queue), frame.verdict
        self.gauges, self.counters, self.tiers = {}, {}, ()
        self._levels(frame.gauges, frame.counters)
        self._tier_levels(frame.tiers)
        if frame.recent_batches:
            self.batches = deque(frame.recent_batches, maxlen=HISTORY)
        self._all_blocks(frame)
        if frame.requests is None:
            self.requests = None
        else:
            known, self.requests = self.requests, RequestTable()
            self._date_requests(seen, frame.mono)
            self.requests.former = known
            for change in frame.requests:
                row = self._change_request(change)
                if row is not None:
                    self.latencies.known(None if known is None else known.get(row.num), row)
            self.requests.former = None
        after = self._reading()
        assert after is not None
        self.history.add(before, after, still=still, joined=joined)
        return Changes(full=True, events=[*marks, *events], policy=True, numbers=True)

    def _all_blocks(self, frame: Keyframe) -> None:
        if frame.blocks is None:
            self.blocks = None
            return
        total = self._pool_size(frame)
        states = len(self.hello.block_states) if self.hello else 8
        device = next((len(span) for _, span in self.tier_spans()), 0)
        self.blocks = BlockArrays(total, states, device or None)
        self.blocks.apply_runs(frame.blocks, None, self._complain)
        self.blocks.apply_hashes(frame.hashes, self._complain)
        ages = frame.ages
        if self.jump is not None:
            ages = [(at, n, frame.mono - self._engine_clock.dated(frame.mono - age)) for at, n, age in ages]
        self.blocks.apply_ages(ages, frame.mono, self._complain)

    def _pool_size(self, frame: Keyframe) -> int:
        """Blocks of all pools by the hello, else by the gauge, else as far as the keyframe's runs reach."""
        total = sum(pool.blocks for pool in self.hello.geometry.pools) if self.hello else 0
        total = total or int(self.gauges.get("kv_blocks_total", 0))
        total = total or max((start + count for start, count, *_ in frame.blocks or ()), default=0)
        if total > MAX_BLOCKS:
            self._complain(f"a pool of {total:.3g} blocks; this viewer keeps {MAX_BLOCKS}")
        return max(0, min(total, MAX_BLOCKS))

    def _iteration(self, frame: IterationFrame, now: float) -> Changes:
        events = self.events.receive(frame.events)
        if self.seq is None or self.resync or frame.seq <= self.seq:
            # Nothing to add it to, or already known: only its events are news.
            return Changes(events=events)
        if frame.seq - frame.merged != self.seq:
            self.resync = True
            self._complain(f"frames {self.seq + 1} to {frame.seq - frame.merged} never came")
            return Changes(events=events, link=True)
        iterations = max(0, frame.iteration - (self.iteration or 0))
        before = self._reading() if self.history.turns(frame.mono) else None
        still, seen = self.stands_still, self.mono
        was = self.history.at(frame.mono if seen is None else seen)
        marks = self._clock(frame.seq, frame.iteration, frame.wall, frame.mono, now)
        at = self.history.at(frame.mono)
        self.refusals.add(at, at - was, frame.verdict)
        durations = self._possible(frame.durations)
        self.durations.append(Timing(frame.mono, iterations, durations, frame.batch))
        for part, milliseconds in durations:
            if milliseconds:
                self._spent[part] += milliseconds
        if frame.batch is not None:
            self.batch = frame.batch
            self.batches.append(frame.batch.prefill_requests + frame.batch.decode_requests)
        changes = Changes(full=bool(marks), events=[*events, *marks], numbers=True, policy=frame.policy is not None)
        self._policies_told(self.policy if frame.policy is None else frame.policy, events)
        if frame.policy is not None:
            self.policy = frame.policy
        if frame.policy_id is not None:
            self.policy_id = frame.policy_id
        self.status = self._dated(frame.status) or self.status
        self._geometry(frame.geometry)
        self.queue = _bounded(frame.queue) or self.queue
        self.verdict = frame.verdict
        self._levels(frame.gauges, frame.counters)
        self._tier_levels(frame.tiers)
        if self.blocks is not None:
            changes.blocks = self.blocks.apply_runs(frame.blocks, frame.mono, self._complain)
            hashed = self.blocks.apply_hashes(frame.hashes, self._complain)
            if hashed:
                changes.blocks = np.union1d(changes.blocks, np.array(hashed, dtype=np.int64))
        if self.requests is not None:
            self._date_requests(seen, frame.mono)
            self._change_requests(frame, changes)
        if before is not None and (after := self._reading(waits=False)) is not None:
            self.history.add(before, after, still=still, joined=True)
        return changes

    def _date_requests(self, seen: float | None, at: float) -> None:
        """``seen``: the date of the frame before, by the clock of then."""
        assert self.requests is not None
        self.requests.seen = seen if seen is None or self.jump is None else self._engine_clock.dated(seen)
        self.requests.at = at

    def _change_requests(self, frame: IterationFrame, changes: Changes) -> None:
        assert self.requests is not None
        for change in frame.requests:
            old = self.requests.get(change.num)
            had = Had.of(old)
            row = self._change_request(change)
            if row is None:
                continue
            changes.requests.add(row.num)
            self.latencies.change(frame.mono, had, row)
        for num in frame.forgotten:
            if self.requests.forget(num):
                changes.requests.add(num)

    def _change_request(self, change: RequestChange) -> RequestRow | None:
        assert self.requests is not None
        if change.phase_since is not None and self.jump is not None:
            change = change.model_copy(update={"phase_since": self._engine_clock.dated(change.phase_since)})
        return self.requests.apply(change, self.blocks.total if self.blocks else None, self._complain)

    def _possible(self, durations: Durations) -> Durations:
        """Without what no time can be: added up once, it would swallow all that comes after it."""
        wrong = [part for part, milliseconds in durations if milliseconds and milliseconds > MAX_NUMBER]
        for part in wrong:
            self._complain(f"{part} took {getattr(durations, part):.3g} ms")
        return durations.model_copy(update=dict.fromkeys(wrong, 0.0)) if wrong else durations

    def _levels(self, gauges: Gauges | None, counters: Counters | None) -> None:
        for target, source in ((self.gauges, gauges), (self.counters, counters)):
            if source is None:
                continue
            for name, value in source:
                if value is None:
                    continue
                if 0 <= value <= MAX_NUMBER:
                    target[name] = value
                else:
                    self._complain(f"{name} is {value:.6g}")
        if self.mono is not None and (counters is not None or gauges is not None):
            self.rates.add(self.mono, self.counters)

    def _tier_levels(self, levels: list[TierLevel]) -> None:
        if not levels:
            return
        self.tiers = known_levels(levels, self._complain)
        if self.mono is not None:
            self.tier_rates.add(self.mono, tier_totals(self.tiers))

    def _clock(self, seq: int, iteration: int, wall: float, mono: float, now: float) -> list[LogEntry]:
        """Takes over a frame's dates. Returns the mark of a clock that has jumped, which is in the log then."""
        jump = self._engine_clock.take(mono, wall, now)
        if (self.mono is not None and mono < self.mono) or (jump is not None and jump.mono):
            # Nothing counted by the old dates can be compared any more.
            self.rates.clear()
            self.tier_rates.clear()
            if jump is not None:
                self.history.jumped(jump.mono)
            self.latencies.clear()
            self.durations.clear()
        self.seq, self.iteration, self.wall, self.mono, self.arrived = seq, iteration, wall, mono, now
        if jump is None:
            return []
        self.jump = jump
        if jump.mono:
            # What is dated by the old clock goes on by the new one: a wait is as long as before.
            if self.blocks is not None:
                self.blocks.touched += jump.mono
            if self.requests is not None:
                self.requests.move_dates(jump.mono)
            self.status = self._dated(self.status)
        marker = Marker("clock", wall, iteration, "warn", jump.sentence)
        self.events.append(marker)
        return [marker]

    def _reading(self, waits: bool = True) -> Reading | None:
        """What the history keeps of now; None before the first frame. Without ``waits`` they are left out."""
        if self.mono is None:
            return None
        return reading(
            self.history.at(self.mono),
            self.gauges,
            {**self.counters, **self._spent, **({"iterations": self.iteration or 0} if self.counts_iterations else {})},
            counts=self.counts(),
            waiting=None if self.queue is None else self.queue.total,
            oldest_wait=self._oldest_wait() if waits else None,
            lower=[level for level in self.tiers if level.tier != self._device],
        )

    @property
    def _device(self) -> str:
        return next((name for name, _ in self.tier_spans()), "device")

    def _oldest_wait(self) -> float | None:
        if self.requests is None or self.mono is None:
            return None
        # That nobody waits is known, and no wait.
        return self.requests.longest_wait(self.mono) or 0.0

    def _dated(self, status: Status | None) -> Status | None:
        """``status`` by the engine's clock as it goes now."""
        if status is None or status.warning_since is None or self.jump is None:
            return status
        return status.model_copy(update={"warning_since": self._engine_clock.dated(status.warning_since)})

    def _policies_told(self, after: dict[str, PolicyValue], events: list[LogEntry], ahead: bool = False) -> None:
        if self.mono is not None and (events or after is not self.policy):
            at, wall, iteration = self.history.at(self.mono), self.wall or 0.0, self.iteration or 0
            self.policies.take(self.policy, after, events, at=at, wall=wall, iteration=iteration, ahead=ahead)

    def _complain(self, note: str) -> None:
        self.bad_facts += 1
        self.bad_note = note

    # -- what is asked ------------------------------------------------------------------------------------------

    @property
    def ttft(self) -> Latencies:
        return self.latencies.ttft

    @property
    def tpot(self) -> Latencies:
        return self.latencies.tpot

    @property
    def run(self) -> str | None:
        """Which life of the engine all this is about; None before its hello."""
        return self.hello.engine.run if self.hello else None

    @property
    def engine_kind(self) -> str:
        return self.hello.engine.kind if self.hello else "this engine"

    @property
    def paused(self) -> bool:
        """Whether the engine has paused scheduling."""
        return self.status is not None and self.status.state == "paused"

    @property
    def stands_still(self) -> bool:
        """Whether the engine says that nothing runs, so that what it does not tell of is as it was."""
        return self.status is not None and self.status.state in ("idle", "paused")

    @property
    def counts_iterations(self) -> bool:
        """Whether the number of the iteration means anything: an engine that exposes none sends 0."""
        return "iterations" in self.counters

    def has(self, capability: str) -> bool:
        """Whether the engine exposes ``blocks``, ``requests``, ``queue``, ``events`` …"""
        return self.hello is not None and capability in self.hello.capabilities

    def age(self, now: float) -> float | None:
        """Seconds since the last frame with news arrived, by the viewer's clock."""
        return None if self.arrived is None else max(0.0, now - self.arrived)

    def mono_now(self, now: float) -> float | None:
        """The engine's monotonic clock at ``now``, as far as can be told; it stands still while the link is down."""
        if self.mono is None or self.arrived is None:
            return None
        if self._frozen is not None:
            return self._frozen
        return self.mono + max(0.0, now - self.arrived)

    def trend_end(self, now: float) -> int | None:
        """The second that goes on at ``now`` by the history's clock: the end of all trends. None before the first frame."""
        mono = self.mono_now(now)
        return None if mono is None else self.history.end(mono)

    def trends(self, names: Sequence[str], start: int, stop: int) -> list[Values]:
        """Those columns of the history from second ``start`` up to ``stop``, which `trend_end` bounds. Seconds in which an
        engine that says nothing runs was silent are as it left them; others that nothing was heard of are NaN."""
        silent = self.history.edge is not None and stop > self.history.edge and self.stands_still
        return self.history.spans(names, start, stop, self._reading() if silent else None)

    def hold(self, now: float) -> None:
        """Running times stand still at ``now`` until the next frame."""
        self._frozen = self.mono_now(now)

    def request(self, num: int) -> RequestRow | None:
        """The request of that num; None where there is none, or requests are not exposed."""
        return None if self.requests is None else self.requests.get(num)

    def owners(self, block: int) -> list[tuple[RequestRow, int]]:
        """Requests whose table holds ``block``, each with the block's place in it, in the order of their nums."""
        if self.requests is None or self.blocks is None:
            return []
        owner = self.requests.get(int(self.blocks.owner[block]))
        if self.blocks.refs[block] <= 1 and (owner is None or block in owner.table):
            rows = [] if owner is None else [owner]
        else:
            rows = self.requests.holding((block,)).get(block, [])
        return [(row, row.table.index(block)) for row in rows]

    def counts(self) -> dict[str, int] | None:
        """The device's blocks by the name of their state, every state the hello names; None when not exposed."""
        if self.blocks is None:
            return None
        counts = dict.fromkeys(self.state_names(), 0)
        for code, name in enumerate(self.state_names()):
            counts[name] += int(self.blocks.counts[code])
        return counts

    def tier_spans(self) -> list[tuple[str, range]]:
        """Name and block numbers of each tier the hello names, the device first; empty where it names none."""
        return tier_spans(self.hello.geometry.pools) if self.hello else []

    def held_below(self, num: int) -> list[int]:
        """Blocks of lower tiers that hold KV of this request."""
        if self.blocks is None or self.blocks.device == self.blocks.total:
            return []
        first = self.blocks.device
        held: list[int] = (np.flatnonzero(self.blocks.owner[first:] == num) + first).tolist()
        return held

    def state_names(self) -> list[str]:
        """Names behind the state codes, at most 256."""
        return self.hello.block_states[:256] if self.hello else []


def _bounded(queue: Queue | None) -> Queue | None:
    if queue is None or len(queue.order) <= MAX_QUEUE:
        return queue
    return queue.model_copy(update={"order": queue.order[:MAX_QUEUE]})
