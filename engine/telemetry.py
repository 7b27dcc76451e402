"""Turns what the engine did into frames: the only file that knows both the engine's insides and the protocol."""

import itertools
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from engine.beam import Beam
from engine.copies import Copied
from engine.core import Engine, Step
from engine.kv_switch import Switch
from engine.plan import Admission, HeadVerdict, Plan, Preemption
from engine.request import FinishReason, Request, RequestState
from engine.request_facts import RequestFacts
from engine.tiers.report import TierReport
from engine.watchdog import Alarm, Notice
from engine.words import counted
from kvtop.protocol import (
    ROUTINE_EVENTS,
    Batch,
    Counters,
    Durations,
    Event,
    Gauges,
    Geometry,
    IterationFrame,
    Keyframe,
    Queue,
    Status,
    Verdict,
)

KEPT_EVENTS = 100
"""Latest routine events that a keyframe repeats, and twice as many notable ones."""

QUEUE_SHOWN = 256
"""Waiting requests named in a frame, from the head."""

COMPACTION_EVENT_EVERY = 1.0
"""Seconds between two events about moved blocks."""

EVICTION_EVENT_EVERY = 1.0
"""Seconds between two events about evictions; those in between are summed."""


class Telemetry:
    """Collects facts between frames and hands them out as an iteration frame or a keyframe.

    ``attention_mode`` describes every request; ``decode_text`` is given only when text may travel.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        bytes_per_token: int,
        attention_mode: str,
        decode_text: Callable[[list[int]], str] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        tiers = engine.scheduler.tiers
        self._tiers = None if tiers is None else TierReport(tiers)
        self._bytes_per_token = bytes_per_token
        self._requests = RequestFacts(engine.scheduler, attention_mode, decode_text)
        self._geometry: Geometry | None = None
        """Where it is not the hello's any more."""
        self._geometry_sent = True
        self._wall = wall
        self._seq = 0
        self._event_id = 0
        self._pending: list[Event] = []
        self._recent: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._notable: deque[Event] = deque(maxlen=2 * KEPT_EVENTS)
        self._sent_queue: Queue | None = None
        self._sent_policy_id = -1
        self._sent_status: Status | None = None
        self._evicted = 0
        self._moved = 0
        self._moved_since = float("-inf")
        self._evicted_since = float("-inf")
        self.frame_ms = 0.0
        """Milliseconds it took to build the latest frame."""
        self.ledger_checks = 0
        self.ledger_violations = 0
        self._ledger_ms = 0.0
        self.alarm: Alarm | None = None
        """What the watchdog finds standing still now."""

    # What happened, as the server learns of it.

    def event(self, kind: str, **facts: Any) -> None:
        """Record one event; it goes out with the next frame."""
        event = Event(id=self._event_id, kind=kind, iteration=self._engine.iteration, wall=self._wall(), **facts)
        self._event_id += 1
        self._pending.append(event)
        (self._recent if kind in ROUTINE_EVENTS else self._notable).append(event)

    def recent_events(self) -> list[Event]:
        """The latest ones, by id; notable ones go back further than routine ones."""
        return sorted([*self._recent, *self._notable], key=lambda event: event.id)

    def touch(self, request: Request) -> None:
        """The request changed outside a step (it arrived, or a command moved it)."""
        self._requests.touch(request)

    def finished_request(self, wanted: int | str) -> Request | None:
        """The finished request of this num or id, while it is still visible."""
        return self._requests.finished(wanted)

    def preempted(self, preemption: Preemption) -> None:
        victim, by = preemption.victim, preemption.by
        self._touch_group(victim)
        self.event(
            "preempt",
            severity="warn",
            request=victim.num,
            request_id=victim.id,
            by=None if by is None else by.num,
            by_id=None if by is None else by.id,
            cause=preemption.cause,
            need_blocks=preemption.need_blocks,
            free_blocks=preemption.free_blocks,
            blocks=preemption.blocks_released,
            tokens=preemption.tokens_lost,
            seconds=preemption.seconds_lost,
        )
        if victim.state is RequestState.FINISHED:
            for each in [victim] if victim.beam is None else victim.beam.seen:
                self.finished(each)

    def _touch_group(self, request: Request) -> None:
        """The request changed, and with it the beams of its group that viewers know of."""
        for each in [request] if request.beam is None else request.beam.seen:
            self.touch(each)

    def finished(self, request: Request, detail: str | None = None) -> None:
        self.touch(request)
        aborted = request.finish_reason in (FinishReason.ABORT, FinishReason.ERROR)
        self.event(
            "abort" if aborted else "finish",
            severity="warn" if aborted else "info",
            request=request.num,
            request_id=request.id,
            cause=str(request.finish_reason),
            tokens=request.output_tokens,
            seconds=max(0.0, request.times.since - request.arrival),
            detail=detail or request.finish_detail,
        )
        if request.beam is not None and request.beam.leader is request:
            self._beams_ended(request.beam)

    def _beams_ended(self, beam: Beam) -> None:
        leader, hypotheses = beam.leader, sum(member.output_tokens > 0 for member in beam.members)
        best = (
            ""
            if leader.score is None
            else f"; the best scores {beam.search.score(leader.score, leader.output_tokens):.4f}"
        )
        self.event(
            "beam",
            request=leader.num,
            request_id=leader.id,
            tokens=leader.output_tokens,
            cause=str(leader.finish_reason),
            detail=f"outputs of {hypotheses} of {counted(beam.width, 'beam')}{best}",
        )

    def ledger(self, violations: list[str], ms: float = 0.0) -> None:
        """The result of one ledger check, which took ``ms`` milliseconds; they go out with the next frame."""
        self.ledger_checks += 1
        self._ledger_ms += ms
        self.ledger_violations += len(violations)
        for violation in violations[:8]:
            self.event("ledger", severity="error", detail=violation[:1000])

    def kv_switched(self, switch: Switch, geometry: Geometry) -> None:
        """The KV cache was made anew, or not; ``geometry`` is how it is now."""
        self.event(
            "kv_switch",
            severity="error" if switch.error else "warn",
            axis="kv_dtype",
            old=switch.old,
            new=switch.new,
            blocks=switch.forgotten,
            detail=switch.text[:1000],
        )
        if switch.error is None:
            self._geometry, self._geometry_sent = geometry, False
            self._bytes_per_token = switch.new_bytes

    def watchdog(self, notice: Notice) -> None:
        """Something stands still, or does no more."""
        alarm = notice.alarm
        self.event(
            "watchdog",
            severity="info" if notice.over else alarm.severity,
            cause=str(alarm.trouble),
            seconds=notice.seconds,
            detail=(f"over: {alarm.text}" if notice.over else alarm.text)[:1000],
        )

    @property
    def has_news(self) -> bool:
        tiers = self._engine.scheduler.tiers
        moved = tiers is not None and bool(tiers.traffic or tiers.news)
        return bool(moved or self._pending or self._requests.has_news or self._status() != self._sent_status)

    # Frames.

    def frame(self, step: Step | None) -> IterationFrame:
        """What changed since the last frame; ``step`` is None for news outside an iteration."""
        began = time.perf_counter()
        engine, scheduler, pool = self._engine, self._engine.scheduler, self._engine.scheduler.pool
        now = engine.clock() if step is None else step.ended
        batch = None
        durations = Durations(publish=self.frame_ms, ledger=self._ledger_ms)
        if step is not None:
            self._absorb(step)
            batch = _batch(step)
            durations = Durations(
                schedule=step.schedule_ms,
                forward=step.forward_ms,
                sample=step.sample_ms,
                transfer_wait=step.transfer_wait_ms,
                publish=self.frame_ms,
                ledger=self._ledger_ms,
            )
        self._ledger_ms = 0.0
        self._tier_news()
        changes = self._requests.take_changes()
        runs, hashes = pool.changes.take()
        if self._tiers is not None:
            below = self._tiers.take_changes()
            runs, hashes = [*runs, *below[0]], [*hashes, *below[1]]
        status = self._status()
        queue = self._queue()
        policies = scheduler.policies
        self._seq += 1
        frame = IterationFrame.model_construct(
            seq=self._seq,
            iteration=engine.iteration,
            wall=self._wall(),
            mono=now,
            durations=durations,
            batch=batch,
            policy_id=policies.version if policies.version != self._sent_policy_id else None,
            policy=policies.values() if policies.version != self._sent_policy_id else None,
            status=status if status != self._sent_status else None,
            geometry=None if self._geometry_sent else self._geometry,
            blocks=runs,
            hashes=hashes,
            requests=changes,
            forgotten=self._requests.take_forgotten(),
            queue=queue if queue != self._sent_queue else None,
            verdict=_verdict(scheduler.verdict),
            events=self._pending,
            traffic=[] if self._tiers is None else self._tiers.take_traffic(),
            tiers=[] if self._tiers is None else self._tiers.changed_levels(*self._device_prefix()),
            gauges=self._gauges(),
            counters=self._counters(),
        )
        self._pending = []
        self._geometry_sent = True
        self._sent_policy_id, self._sent_status, self._sent_queue = policies.version, status, queue
        self.frame_ms = 1000.0 * (time.perf_counter() - began)
        return frame

    def keyframe(self) -> Keyframe:
        """Everything now. Takes nothing away from the next frame: what it holds is repeated there, harmlessly."""
        engine, scheduler, pool = self._engine, self._engine.scheduler, self._engine.scheduler.pool
        now = engine.clock()
        return Keyframe.model_construct(
            seq=self._seq,
            iteration=engine.iteration,
            wall=self._wall(),
            mono=now,
            policy_id=scheduler.policies.version,
            policy=scheduler.policies.values(),
            status=self._status(),
            geometry=self._geometry,
            blocks=[*pool.changes.all_runs(), *([] if self._tiers is None else self._tiers.all_runs())],
            hashes=[*pool.changes.all_hashes(), *([] if self._tiers is None else self._tiers.all_hashes())],
            ages=[*pool.changes.all_ages(now), *([] if self._tiers is None else self._tiers.all_ages(now))],
            tiers=[] if self._tiers is None else self._tiers.levels(*self._device_prefix()),
            requests=self._requests.all(),
            queue=self._queue(),
            verdict=_verdict(scheduler.verdict),
            events=self.recent_events(),
            gauges=self._gauges(),
            counters=self._counters(),
            recent_batches=list(engine.batch_sizes),
        )

    # Parts of frames.

    def _tier_news(self) -> None:
        """What the tiers have to tell; the requests concerned have changed too."""
        scheduler = self._engine.scheduler
        if scheduler.tiers is None:
            return
        while scheduler.tiers.news:
            news = scheduler.tiers.news.popleft()
            request = None if news.num is None else scheduler.requests.get(news.num)
            if request is not None:
                self.touch(request)
            self.event(
                news.kind,
                severity=news.severity,
                tier=news.tier,
                request=news.num,
                request_id=None if request is None else request.id,
                blocks=news.blocks,
                tokens=news.tokens,
                seconds=news.seconds,
                detail=news.detail[:1000] or None,
            )
        for num in scheduler.tiers.loading:
            if num in scheduler.requests:
                self.touch(scheduler.requests[num])

    def _device_prefix(self) -> tuple[int, int]:
        """Prompt tokens found on the device at first admissions, and not found there."""
        scheduler = self._engine.scheduler
        below = 0 if scheduler.tiers is None else scheduler.tiers.loaded_tokens
        found = scheduler.totals.prefix_hit_tokens - below
        return found, scheduler.totals.prefix_query_tokens - found

    def _absorb(self, step: Step) -> None:
        plan = step.plan
        for admission in plan.admitted:
            self._admitted(admission)
        for preemption in plan.preempted:
            self.preempted(preemption)
        for request, why in plan.rejected:
            self.finished(request, why)
        for notice in plan.notices:
            self.event("notice", detail=notice)
        for copied in plan.copied:
            self._copied(copied)
        self._compacted(plan, step.ended)
        for item in plan.items:
            self._touch_group(item.request)
            for sample in item.forks:
                self.touch(sample)
        for request in step.finished:
            self.finished(request)
        self._evicted += plan.evicted
        if self._evicted and step.ended - self._evicted_since >= EVICTION_EVENT_EVERY:
            rule = self._engine.scheduler.policies.rule("eviction")
            self.event("evict", blocks=self._evicted, cause=f"room for new content; {rule} chose them")
            self._evicted, self._evicted_since = 0, step.ended

    def _compacted(self, plan: Plan, now: float) -> None:
        """Moves of blocks are summed for a while, as evictions are; the end of a command is told at once."""
        for request in plan.retabled:
            self._requests.resend_table(request)
            self.touch(request)
        self._moved += len(plan.moves)
        due = now - self._moved_since >= COMPACTION_EVENT_EVERY
        if plan.compacted is not None or (self._moved and due):
            rule = self._engine.scheduler.policies.rule("compaction")
            said = plan.compacted or f"{self._moved} blocks moved down"
            cause = "command compact" if plan.compacted is not None else rule
            self.event("compact", blocks=self._moved, cause=cause, detail=said)
            self._moved, self._moved_since = 0, now

    def _copied(self, copied: Copied) -> None:
        copy = copied.copy
        if copied.request is None:
            return  # A move of compaction, which is told as such.
        # The copy may stand in the middle of what was sent of its table.
        self._requests.resend_table(copied.request)
        self.event(
            "copy",
            request=copied.request.num,
            request_id=copied.request.id,
            blocks=1,
            tokens=copy.tokens,
            cause=copied.why,
            detail=f"block {copy.source} to block {copy.target}",
        )

    def _admitted(self, admission: Admission) -> None:
        request = admission.request
        self.touch(request)
        self.event(
            "admit",
            request=request.num,
            request_id=request.id,
            blocks=len(request.block_table),
            tokens=request.cached,
            seconds=admission.waited,
        )

    def _queue(self) -> Queue:
        waiting = self._engine.scheduler.waiting
        return Queue.model_construct(order=[r.num for r in itertools.islice(waiting, QUEUE_SHOWN)], total=len(waiting))

    def _status(self) -> Status:
        scheduler, alarm = self._engine.scheduler, self.alarm
        state, detail = "running" if scheduler.running or len(scheduler.waiting) else "idle", None
        if scheduler.paused:
            state = "paused"
        elif (detail := scheduler.transition_text()) is not None:
            state = "draining"
        warning, since = (None, None) if alarm is None else (alarm.text[:500], alarm.since)
        return Status(state=state, detail=detail, warning=warning, warning_since=since)

    def _gauges(self) -> Gauges:
        scheduler = self._engine.scheduler
        pool = scheduler.pool
        used = pool.active_blocks + pool.shared_blocks
        return Gauges.model_construct(
            kv_blocks_total=pool.total,
            kv_blocks_free=pool.free_blocks,
            kv_blocks_cached=pool.cached_blocks,
            kv_blocks_active=pool.active_blocks,
            kv_blocks_shared=pool.shared_blocks,
            kv_blocks_transfer=pool.transfer_blocks,
            kv_blocks_pinned=pool.pinned_blocks,
            kv_blocks_reserved=scheduler.reserved_blocks,
            kv_bytes_used=used * pool.block_size * self._bytes_per_token,
            kv_tokens=pool.tokens_in_use,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            preempted=scheduler.waiting.preempted,
        )

    def _counters(self) -> Counters:
        scheduler, totals = self._engine.scheduler, self._engine.scheduler.totals
        return Counters.model_construct(
            iterations=self._engine.iteration,
            prefill_tokens=totals.prefill_tokens,
            decode_tokens=totals.decode_tokens,
            prefix_query_tokens=totals.prefix_query_tokens,
            prefix_hit_tokens=totals.prefix_hit_tokens,
            recomputed_tokens=totals.recomputed_tokens,
            admissions=totals.admissions,
            finished=totals.finished,
            aborted=totals.aborted,
            preemptions=totals.preemptions,
            evictions=scheduler.pool.evictions,
            host_offload_bytes=0 if scheduler.tiers is None else scheduler.tiers.offloaded_bytes,
            host_promotions=0 if scheduler.tiers is None else scheduler.tiers.promoted_blocks,
            ledger_checks=self.ledger_checks,
            ledger_violations=self.ledger_violations,
        )


def _batch(step: Step) -> Batch:
    decodes = [item for item in step.plan.items if item.is_decode]
    prefills = [item for item in step.plan.items if not item.is_decode]
    return Batch.model_construct(
        prefill_tokens=sum(item.count for item in prefills),
        decode_tokens=len(decodes),
        prefill_requests=len(prefills),
        decode_requests=len(decodes),
        token_budget=step.plan.token_budget,
    )


def _verdict(verdict: HeadVerdict | None) -> Verdict | None:
    if verdict is None:
        return None
    head = verdict.request
    return Verdict.model_construct(
        request=head.num,
        request_id=head.id,
        code=verdict.code,
        rule=verdict.rule,
        need_blocks=verdict.need_blocks,
        available_blocks=verdict.available_blocks,
        reserved_blocks=verdict.reserved_blocks,
        watermark_blocks=verdict.watermark_blocks,
        limit=verdict.limit,
        detail=verdict.detail,
    )
