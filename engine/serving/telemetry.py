"""Turns what the engine did into frames."""

import itertools
import time
from collections.abc import Callable

from engine.core import Engine, Step
from engine.requests.output_text import TokenBytes
from engine.scheduling.kv_types import Switch
from engine.scheduling.output import HeadVerdict
from engine.serving.event_log import EventLog
from engine.serving.held import Held
from engine.serving.keyframes import KeyframeBuilder, KeyframeSnapshot
from engine.serving.request_facts import RequestFacts
from engine.serving.watchdog import Alarm
from engine.tiers.report import TierReport, moved_in_all
from kvtop.protocol import (
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
    TierLevel,
    Verdict,
)

QUEUE_SHOWN = 256
"""Waiting requests named in a frame, from the head."""


class Telemetry:
    """Collects facts between frames and hands them out as an iteration frame or a keyframe.

    ``attention_mode`` describes every request; ``token_bytes`` is given only when text may travel.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        bytes_per_token: int,
        attention_mode: str,
        token_bytes: TokenBytes | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._engine = engine
        tiers = engine.scheduler.tiers
        self._tiers = None if tiers is None else TierReport(tiers)
        self._bytes_per_token = bytes_per_token
        self._requests = RequestFacts(engine.scheduler, attention_mode, token_bytes)
        self.log = EventLog(engine, self._requests, wall)
        self.event = self.log.event
        self.touch = self._requests.touch
        self.finished_request = self._requests.finished
        self._geometry: Geometry | None = None
        """Where it is not the hello's any more."""
        self._geometry_sent = True
        self._wall = wall
        self._seq = 0
        self._held = Held()
        self.passed_over = False
        """Nothing was made of the latest turns: only a keyframe can go on from here."""
        self._building: KeyframeBuilder | None = None
        self._sent_queue: Queue | None = None
        self._sent_policy_id = -1
        self._sent_status: Status | None = None
        self.frame_ms = 0.0
        """Milliseconds it took to build the latest frame."""
        self.ledger_checks = 0
        self.ledger_violations = 0
        self._ledger_ms = 0.0
        self.alarm: Alarm | None = None
        """What the watchdog finds standing still now."""

    # What happened, as the server learns of it.

    def ledger(self, violations: list[str] | None, ms: float = 0.0) -> None:
        """The ledger was looked at for ``ms`` milliseconds; they go out with the next frame. ``violations``: when that
        ended a check, what it found."""
        self._ledger_ms += ms
        if violations is None:
            return
        self.ledger_checks += 1
        self.ledger_violations += len(violations)
        for violation in violations[:8]:
            self.event("ledger", severity="error", detail=violation[:1000])

    def kv_switched(self, switch: Switch, geometry: Geometry) -> None:
        """The KV cache was made anew, or not; ``geometry`` is how it is now."""
        self.log.kv_switched(switch)
        if switch.error is None:
            self._geometry, self._geometry_sent = geometry, False
            self._bytes_per_token = switch.new_bytes

    @property
    def has_news(self) -> bool:
        """Something is to be told without an iteration; where the latest turns were passed over, of blocks nothing is."""
        tiers, changes = self._engine.scheduler.tiers, self._engine.scheduler.pool.changes
        moved = tiers is not None and bool(tiers.traffic or tiers.news)
        changed = not self.passed_over and (bool(changes) or (tiers is not None and any(b.dirty for b in tiers.books)))
        told = len(self.log) or self._requests.has_news or self._held.count
        return bool(moved or changed or told or self._status() != self._sent_status)

    # Frames.

    def frame(self, step: Step | None) -> IterationFrame:
        """What changed since the last frame; ``step`` is None for news outside an iteration. Turns that were held back are
        in it."""
        began = time.perf_counter()
        engine, scheduler, pool = self._engine, self._engine.scheduler, self._engine.scheduler.pool
        now = engine.clock() if step is None else step.ended
        batch = None
        durations = Durations(publish=self.frame_ms, ledger=self._ledger_ms)
        if step is not None:
            self.log.absorb(step)
            batch = _batch(step)
            durations = _durations(step, self.frame_ms, self._ledger_ms)
        self._ledger_ms = 0.0
        self.log.tier_news()
        held, self._held = self._held, Held()
        if held.count:
            durations, batch = held.durations_with(durations), held.batch_with(batch)
            for request in scheduler.running:
                self.log.touch_search(request)
        building = self._building
        changes = self._requests.take_changes(None if building is None else building.requests.awaits)
        forgotten = self._requests.take_forgotten()
        if building is not None:
            building.requests.patch(changes, forgotten)
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
            merged=1 + held.count,
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
            forgotten=forgotten,
            queue=queue if queue != self._sent_queue else None,
            verdict=_verdict(scheduler.verdict),
            events=self.log.take(),
            traffic=[] if self._tiers is None else self._tiers.take_traffic(),
            tiers=[] if self._tiers is None else self._tiers.changed_levels(*self._device_prefix()),
            gauges=self._gauges(),
            counters=self._counters(),
        )
        self._geometry_sent = True
        self._sent_policy_id, self._sent_status, self._sent_queue = policies.version, status, queue
        self.frame_ms = 1000.0 * (time.perf_counter() - began)
        return frame

    def hold_back(self, step: Step) -> None:
        """Instead of a frame, for a moment: what this iteration did is told by the next frame, as merged with it."""
        self.log.absorb(step, touch=False)
        self.log.tier_news()
        self._held.add(_durations(step, 0.0, self._ledger_ms), _batch(step))
        self._ledger_ms = 0.0
        self._seq += 1

    def pass_over(self, step: Step | None) -> list[Event]:
        """Instead of a frame, while nobody watches: nothing is made of what changed but its events, which are returned.
        Whoever comes is told everything anew."""
        if step is not None:
            self.log.absorb(step, touch=False)
        self.log.tier_news()
        self._ledger_ms = 0.0
        self._held = Held()
        self._seq += 1
        self.passed_over = True
        self.drop_keyframe()
        if step is None:
            # It may have been the news; while the engine runs, nobody asks for news.
            self._sent_status = self._status()
        self._requests.forget_touched()
        # Each time: of half a million blocks, gathered while nobody watched, it would take milliseconds.
        self._engine.scheduler.pool.changes.forget()
        if self._tiers is not None:
            self._tiers.forget()
        return self.log.take()

    @property
    def seq(self) -> int:
        """Number of the latest frame, made or passed over."""
        return self._seq

    @property
    def gathers(self) -> bool:
        """A keyframe has been begun and is not complete."""
        return self._building is not None

    def prepare_keyframes(self) -> None:
        """Before the engine serves: has the memory that keyframes are gathered in."""
        self._engine.scheduler.pool.changes.prepare_copy()
        if self._tiers is not None:
            self._tiers.prepare_copies()

    def begin_keyframe(self) -> None:
        """A keyframe is gathered from now on, by `work_on_keyframe`; after the turn's `frame`, or its `pass_over`."""
        anew, self.passed_over = self.passed_over, False
        if anew:
            self._requests.start_over()
            self._sent_queue, self._sent_policy_id, self._sent_status = None, -1, None
        changes = self._engine.scheduler.pool.changes
        self._building = KeyframeBuilder(self._requests, changes.start_copy(), self._tiers, anew=anew)

    def work_on_keyframe(self, seconds: float) -> KeyframeSnapshot | None:
        """Goes on for about so long. The keyframe when all of it is gathered, as of the latest frame: call it right after
        `frame`, or where nothing has changed since."""
        if self._building is None or not self._building.work(seconds):
            return None
        snapshot = self._building.snapshot(self._head())
        self.drop_keyframe()
        return snapshot

    def drop_keyframe(self) -> None:
        """What was gathered of one is wanted by nobody any more."""
        self._building = self._engine.scheduler.pool.changes.copy = None
        if self._tiers is not None:
            self._tiers.drop_copies()

    def keyframe(self) -> Keyframe:
        """Everything now, at once. Takes nothing away from the next frame: what it holds is repeated there, harmlessly."""
        pool, tiers = self._engine.scheduler.pool, self._tiers
        head = self._head()
        everything = {
            "blocks": [*pool.changes.all_runs(), *([] if tiers is None else tiers.all_runs())],
            "hashes": [*pool.changes.all_hashes(), *([] if tiers is None else tiers.all_hashes())],
            "ages": [*pool.changes.all_ages(head.mono), *([] if tiers is None else tiers.all_ages(head.mono))],
            "requests": self._requests.all(),
        }
        return head.model_copy(update=everything)

    def _head(self) -> Keyframe:
        """A keyframe without blocks and requests."""
        engine, scheduler = self._engine, self._engine.scheduler
        return Keyframe.model_construct(
            seq=self._seq,
            iteration=engine.iteration,
            wall=self._wall(),
            mono=engine.clock(),
            policy_id=scheduler.policies.version,
            policy=scheduler.policies.values(),
            status=self._status(),
            geometry=self._geometry,
            blocks=[],
            requests=[],
            tiers=self.tier_levels(),
            queue=self._queue(),
            verdict=_verdict(scheduler.verdict),
            events=self.log.recent(),
            gauges=self._gauges(),
            counters=self._counters(),
            recent_batches=list(engine.batch_sizes),
        )

    # Parts of frames.

    def tier_levels(self) -> list[TierLevel]:
        """All tiers now, the device first; empty where there is only the device."""
        return [] if self._tiers is None else self._tiers.levels(*self._device_prefix())

    def _device_prefix(self) -> tuple[int, int]:
        """Prompt tokens found on the device at first admissions, and not found there."""
        scheduler = self._engine.scheduler
        below = 0 if scheduler.tiers is None else scheduler.tiers.loaded_tokens
        found = scheduler.totals.prefix_hit_tokens - below
        return found, scheduler.totals.prefix_query_tokens - found

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
        return Gauges.trusted(self.levels())

    def levels(self) -> dict[str, int]:
        """The fields of `Gauges` now."""
        scheduler = self._engine.scheduler
        pool = scheduler.pool
        used = pool.active_blocks + pool.shared_blocks
        loading = 0 if scheduler.tiers is None else len(scheduler.tiers.loading)
        return {
            "kv_blocks_total": pool.total,
            "kv_blocks_free": pool.free_blocks,
            "kv_blocks_cached": pool.cached_blocks,
            "kv_blocks_active": pool.active_blocks,
            "kv_blocks_shared": pool.shared_blocks,
            "kv_blocks_transfer": pool.transfer_blocks,
            "kv_blocks_pinned": pool.pinned_blocks,
            "kv_blocks_reserved": scheduler.reserved_blocks,
            "kv_bytes_used": used * pool.block_size * self._bytes_per_token,
            "kv_tokens": pool.tokens_in_use,
            "running": len(scheduler.running) - loading,
            "loading": loading,
            "waiting": len(scheduler.waiting),
            "preempted": scheduler.waiting.preempted,
        }

    def _counters(self) -> Counters:
        return Counters.trusted(self.totals())

    def totals(self) -> dict[str, int]:
        """The fields of `Counters` now."""
        scheduler, totals = self._engine.scheduler, self._engine.scheduler.totals
        moved = moved_in_all(scheduler.tiers)
        return {
            "iterations": self._engine.iteration,
            "prefill_tokens": totals.prefill_tokens,
            "decode_tokens": totals.decode_tokens,
            "prefix_query_tokens": totals.prefix_query_tokens,
            "prefix_hit_tokens": totals.prefix_hit_tokens,
            "recomputed_tokens": totals.recomputed_tokens,
            "admissions": totals.admissions,
            "finished": totals.finished,
            "aborted": totals.aborted,
            "errored": totals.errored,
            "preemptions": totals.preemptions,
            "evictions": scheduler.pool.evictions,
            "ledger_checks": self.ledger_checks,
            "ledger_violations": self.ledger_violations,
            "host_offload_bytes": moved.host_offload_bytes,
            "host_promotions": moved.host_promotions,
            "disk_offload_bytes": moved.disk_offload_bytes,
            "disk_promotions": moved.disk_promotions,
        }


def _durations(step: Step, publish_ms: float, ledger_ms: float) -> Durations:
    return Durations(
        schedule=step.schedule_ms,
        prepare=step.prepare_ms,
        forward=step.forward_ms,
        sample=step.sample_ms,
        transfer_wait=step.transfer_wait_ms,
        publish=publish_ms,
        ledger=ledger_ms,
    )


def _batch(step: Step) -> Batch:
    decodes = decoded = prefills = prefilled = 0
    for item in step.plan.items:
        if item.decodes:
            decodes += 1
            decoded += item.count
        else:
            prefills += 1
            prefilled += item.count
    return Batch.model_construct(
        prefill_tokens=prefilled,
        decode_tokens=decoded,
        prefill_requests=prefills,
        decode_requests=decodes,
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
