"""What happened in the engine as events in the protocol's terms, in the words that operators read."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from engine.core import Engine, Step
from engine.memory.copies import Copied
from engine.requests.beam import Beam
from engine.requests.request import FinishReason, Request, RequestState
from engine.scheduling.kv_types import Switch
from engine.scheduling.output import Admission, Preemption, SchedulerOutput
from engine.serving.request_facts import RequestFacts
from engine.serving.watchdog import Notice
from engine.words import counted
from kvtop.protocol import ROUTINE_EVENTS, Event

KEPT_EVENTS = 100
"""Latest routine events that a keyframe repeats, and twice as many notable ones."""

COMPACTION_EVENT_EVERY = 1.0
"""Seconds between two events about moved blocks."""

EVICTION_EVENT_EVERY = 1.0
"""Seconds between two events about evictions; those in between are summed."""

_ENDS = {
    FinishReason.STOP: ("finish", "info"),
    FinishReason.LENGTH: ("finish", "info"),
    FinishReason.ABORT: ("abort", "warn"),
    FinishReason.ERROR: ("error", "error"),
}
"""Kind and severity of the event that tells of a request's end."""


_LIMITS = {
    name: next((m.max_length for m in field.metadata if hasattr(m, "max_length")), None)
    for name, field in Event.model_fields.items()
}
"""Characters that the protocol's fields hold."""


def _fitting(name: str, text: str) -> str:
    """``text`` as it can be sent: what others say in an error may be of any length and in any characters."""
    return text.encode("utf-8", "replace").decode()[: _LIMITS.get(name)]


class EventLog:
    """Numbers the events of one engine and keeps the latest. Whom they happen to is touched in ``facts``."""

    def __init__(self, engine: Engine, facts: RequestFacts, wall: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._facts = facts
        self._wall = wall
        self.on_end: Callable[[Request], None] | None = None
        """Told of every request that ended, when its event is made."""
        self._next = 0
        self._pending: list[Event] = []
        self._recent: deque[Event] = deque(maxlen=KEPT_EVENTS)
        self._notable: deque[Event] = deque(maxlen=2 * KEPT_EVENTS)
        self._evicted = 0
        self._evicted_since = float("-inf")
        self._loading: set[int] = set()
        self._moved = 0
        self._moved_since = float("-inf")

    def __len__(self) -> int:
        """Events that have not gone out yet."""
        return len(self._pending)

    def event(self, kind: str, **facts: Any) -> None:
        """Record one event; it goes out with the next frame. Texts are cut to what the protocol holds."""
        said: dict[str, Any] = {
            name: _fitting(name, value) if isinstance(value, str) else value for name, value in facts.items()
        }
        event = Event(id=self._next, kind=kind, iteration=self._engine.iteration, wall=self._wall(), **said)
        self._next += 1
        self._pending.append(event)
        (self._recent if kind in ROUTINE_EVENTS else self._notable).append(event)

    def recent(self) -> list[Event]:
        """The latest ones, by id; notable ones go back further than routine ones."""
        return sorted([*self._recent, *self._notable], key=lambda event: event.id)

    def take(self) -> list[Event]:
        """Those that have not gone out yet."""
        pending, self._pending = self._pending, []
        return pending

    def preempted(self, preemption: Preemption) -> None:
        victim, by = preemption.victim, preemption.by
        self.touch_search(victim)
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

    def touch_search(self, request: Request) -> None:
        """The request changed, and with it the beams of its search that viewers know of."""
        for each in [request] if request.beam is None else request.beam.seen:
            self._facts.touch(each)

    def finished(self, request: Request, detail: str | None = None) -> None:
        self._facts.touch(request)
        if self.on_end is not None:
            self.on_end(request)
        kind, severity = _ENDS[request.finish_reason or FinishReason.STOP]
        self.event(
            kind,
            severity=severity,
            request=request.num,
            request_id=request.id,
            cause=str(request.finish_reason),
            tokens=request.output_tokens,
            seconds=max(0.0, request.times.since - request.arrival),
            detail=detail or request.finish_detail,
        )
        if request.beam is not None and request.beam.leader is request:
            self._beams_ended(request.beam)

    def _beams_ended(self, beam: Beam[Request]) -> None:
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

    def kv_switched(self, switch: Switch) -> None:
        """The KV cache was made anew, or could not be."""
        self.event(
            "kv_switch",
            severity="error" if switch.error else "warn",
            axis="kv_dtype",
            old=switch.old,
            new=switch.new,
            blocks=switch.forgotten,
            detail=switch.text,
        )

    def watchdog(self, notice: Notice) -> None:
        """Something stands still, or does no more."""
        alarm = notice.alarm
        self.event(
            "watchdog",
            severity="info" if notice.over else alarm.severity,
            cause=str(alarm.trouble),
            seconds=notice.seconds,
            detail=f"over: {alarm.text}" if notice.over else alarm.text,
        )

    def tier_news(self) -> None:
        """What the tiers have to tell; the requests concerned have changed too."""
        scheduler = self._engine.scheduler
        if scheduler.tiers is None:
            return
        while scheduler.tiers.news:
            news = scheduler.tiers.news.popleft()
            request = None if news.num is None else scheduler.requests.get(news.num)
            if request is not None:
                self._facts.touch(request)
            self.event(
                news.kind,
                severity=news.severity,
                tier=news.tier,
                request=news.num,
                request_id=None if request is None else request.id,
                blocks=news.blocks,
                tokens=news.tokens,
                seconds=news.seconds,
                detail=news.detail or None,
            )
        loading = set(scheduler.tiers.loading)
        # Those whose blocks have come since may not have been computed yet: the budget was given to others.
        for num in loading | self._loading:
            if num in scheduler.requests:
                self._facts.touch(scheduler.requests[num])
        self._loading = loading

    def absorb(self, step: Step, *, touch: bool = True) -> None:
        """All that one iteration did. ``touch``: those who ran are to be told of."""
        plan = step.plan
        for fault in step.faults:
            self.event("fault", severity="error", detail=fault)
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
        for item in plan.items if touch else ():
            self.touch_search(item.request)
            for sample in item.forks:
                self._facts.touch(sample)
        for request in step.finished:
            self.finished(request)
        self._evicted += plan.evicted
        if self._evicted and step.ended - self._evicted_since >= EVICTION_EVENT_EVERY:
            rule = self._engine.scheduler.policies.rule("eviction")
            self.event("evict", blocks=self._evicted, cause=f"room for new content; {rule} chose them")
            self._evicted, self._evicted_since = 0, step.ended

    def _compacted(self, plan: SchedulerOutput, now: float) -> None:
        """Moves of blocks are summed for a while, as evictions are; the end of a command is told at once."""
        for request in plan.retabled:
            self._facts.resend_table(request)
            self._facts.touch(request)
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
        self._facts.resend_table(copied.request)
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
        self._facts.touch(request)
        self.event(
            "admit",
            request=request.num,
            request_id=request.id,
            blocks=admission.blocks,
            tokens=admission.cached,
            seconds=admission.waited,
        )
