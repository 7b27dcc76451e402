"""What happened in a stretch of a recording, in order: events that matter, who was preempted at what cost, figures by second.

Pure: it reads a tape and folds its frames as the screen does, so that it says what the screen said.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvtop.alarms import Report, Watch
from kvtop.alarms.report import alarm_document
from kvtop.bundle.scenes import Scene, scene
from kvtop.protocol import AnyFrame, Event, Hello, PolicyValue, TierLevel
from kvtop.record import Place, Tape
from kvtop.record.summary import NOTABLE_KINDS
from kvtop.state import EngineState, LogEntry, Marker
from kvtop.state.moment import Fold, recorded_time
from kvtop.views.definition import LONG_WINDOW, RATE_WINDOW
from kvtop.views.events import event_sentence
from kvtop.views.second import Second, second_of

MAX_ORDER = 5000
"""Events told at most; of more, the first and the last, with how many are left out."""

MAX_SCENES = 180

MAX_SECONDS = 1800
"""Samples kept at most is twice that; a longer stretch is told more coarsely."""

MAX_CAUSES = 8
"""Different causes kept of one request's preemptions."""


@dataclass(slots=True)
class Told:
    """An event that matters, in order. ``wall``: Unix seconds, the engine's clock; None where that is not known."""

    wall: float | None
    iteration: int | None
    kind: str
    severity: str
    text: str
    request: str | None = None
    by: str | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Victim:
    """A request that was preempted. ``tokens``, ``seconds`` and ``blocks``: given up in all, None where never told."""

    request: str
    label: str | None
    times: int = 0
    by: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    tokens: int | None = None
    seconds: float | None = None
    blocks: int | None = None
    first: float | None = None
    last: float | None = None

    def add(self, event: Event) -> None:
        self.times += 1
        if event.by_id or event.by is not None:
            self.by[event.by_id or f"#{event.by}"] += 1
        if event.cause and (event.cause in self.causes or len(self.causes) < MAX_CAUSES):
            self.causes[event.cause] += 1
        self.tokens = _sum(self.tokens, event.tokens)
        self.seconds = _sum(self.seconds, event.seconds)
        self.blocks = _sum(self.blocks, event.blocks)
        self.first = event.wall if self.first is None else self.first
        self.last = event.wall


@dataclass(slots=True)
class Story:
    """``first`` to ``last`` of a tape around ``moment`` (Unix seconds). ``rate_window`` and ``latency_window``: seconds that
    `Second`'s rates and percentiles are taken over."""

    hello: Hello
    moment: float
    began: float
    ended: float
    runs: int
    holes: list[str]
    damage: list[str]
    order: list[Told] = field(default_factory=list)
    left_out: int = 0
    victims: list[Victim] = field(default_factory=list)
    policy_at_start: dict[str, PolicyValue] = field(default_factory=dict)
    policy_at_end: dict[str, PolicyValue] = field(default_factory=dict)
    seconds: list[Second] = field(default_factory=list)
    scenes: list[Scene] = field(default_factory=list)
    tiers_at_start: list[TierLevel] = field(default_factory=list)
    tiers_at_end: list[TierLevel] = field(default_factory=list)
    counters_at_start: dict[str, int | float] = field(default_factory=dict)
    counters_at_end: dict[str, int | float] = field(default_factory=dict)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    """Every check as it stood at the moment (`kvtop.alarms.report.alarm_document`), by the rules' usual thresholds."""
    rate_window: float = RATE_WINDOW
    latency_window: float = LONG_WINDOW


class StoryError(ValueError):
    """There is nothing to tell. One sentence."""


def story(tape: Tape, first: Place, last: Place, moment: Place) -> Story:
    """What happened from ``first`` to ``last``. Raises `StoryError` where nothing of it can be read."""
    entry = tape.entry_before(first) or next((chunk for chunk in tape.chunks if chunk.summary.entry), None)
    if entry is None:
        raise StoryError("nothing is recorded that could be told")
    telling = _Telling(tape, entry.first.run, first, moment)
    for frame in tape.frames(entry, last):
        telling.take(frame)
    return telling.finish(last)


class _Telling:
    def __init__(self, tape: Tape, run: int, first: Place, moment: Place) -> None:
        """``run``: of the tape, with which reading starts."""
        self._tape, self._first, self._moment = tape, first, moment
        self._place_run = run - 1
        self._fold = Fold()
        self._watch = Watch()
        self._alarms = Report()
        self._moment_mono: float | None = None
        self._run: str | None = None
        self._runs = 0
        self._moment_wall: float | None = None
        self._order: list[Told] = []
        self._victims: dict[tuple[int, int], Victim] = {}
        self._seconds: list[Second] = []
        self._every = 1.0
        self._scenes: list[Scene] = []
        self._scene_every = 1.0
        self._next_second = self._next_scene = float("-inf")
        self._hello: Hello | None = None
        self._began: tuple[float, dict[str, PolicyValue], list[TierLevel], dict[str, int | float]] | None = None

    def take(self, frame: AnyFrame) -> None:
        state = self._fold.state
        if isinstance(frame, Hello) and frame.engine.run != self._run:
            self._run, self._runs, self._place_run = frame.engine.run, self._runs + 1, self._place_run + 1
        changes = self._watch.apply(state, frame, recorded_time(self._fold.clock, frame))
        if state.seq is None or state.wall is None or not self._in_time(state):
            return
        if self._began is None:
            self._hello = state.hello
            self._began = (state.wall, dict(state.policy), list(state.tiers), dict(state.counters))
        for entry in changes.events:
            self._event(entry, state)
        if self._moment_wall is None or Place(self._place_run, state.seq) <= self._moment:
            self._moment_wall, self._alarms, self._moment_mono = state.wall, self._watch.report, state.mono
        self._figures(state)

    def _in_time(self, state: EngineState) -> bool:
        """Frames before the first were read to know the state there."""
        return self._began is not None or Place(self._place_run, state.seq or 0) >= self._first

    def _event(self, entry: LogEntry, state: EngineState) -> None:
        if isinstance(entry, Event) and entry.kind == "preempt" and entry.request is not None:
            row = state.request(entry.request)
            name = entry.request_id or (row.name if row is not None else f"#{entry.request}")
            key = (self._runs, entry.request)
            victim = self._victims.setdefault(key, Victim(name, None if row is None else row.label))
            victim.add(entry)
        if isinstance(entry, Marker) or entry.kind in NOTABLE_KINDS or entry.severity != "info":
            self._order.append(_told(entry))

    def _figures(self, state: EngineState) -> None:
        now = self._fold.clock.now
        if now >= self._next_second:
            self._next_second = now + self._every
            self._seconds.append(second_of(state))
            if len(self._seconds) > 2 * MAX_SECONDS:
                self._seconds, self._every = self._seconds[::2], 2 * self._every
        if now >= self._next_scene:
            self._next_scene = now + self._scene_every
            self._scenes.append(scene(state, now))
            if len(self._scenes) > MAX_SCENES:
                self._scenes, self._scene_every = self._scenes[::2], 2 * self._scene_every

    def finish(self, last: Place) -> Story:
        state = self._fold.state
        if self._began is None or self._hello is None or state.wall is None:
            raise StoryError("nothing is recorded there that could be told")
        began, policy, tiers, counters = self._began
        self._seconds.append(second_of(state))
        if not self._scenes or self._scenes[-1].seq != state.seq:
            self._scenes.append(scene(state, self._fold.clock.now))
        half = MAX_ORDER // 2
        left_out = max(0, len(self._order) - MAX_ORDER)
        order = self._order if not left_out else self._order[:half] + self._order[-half:]
        spans = [span for span in self._tape.spans() if span.last >= self._first and span.first <= last]
        return Story(
            hello=state.hello or self._hello,
            moment=began if self._moment_wall is None else self._moment_wall,
            began=began,
            ended=state.wall,
            runs=self._runs,
            holes=[span.hole for span in spans[1:] if span.hole],
            damage=[f"{damage.size} bytes at {damage.at}: {damage.reason}" for damage in self._tape.damage],
            order=order,
            left_out=left_out,
            victims=sorted(
                self._victims.values(), key=lambda victim: (-victim.times, -(victim.tokens or 0), victim.request)
            ),
            policy_at_start=policy,
            policy_at_end=dict(state.policy),
            seconds=self._seconds,
            scenes=self._scenes,
            tiers_at_start=tiers,
            tiers_at_end=list(state.tiers),
            counters_at_start=counters,
            counters_at_end=dict(state.counters),
            alarms=[alarm_document(check, self._moment_mono) for check in self._alarms.checks],
        )


def _told(entry: LogEntry) -> Told:
    text = event_sentence(entry)
    if isinstance(entry, Marker):
        return Told(entry.wall, entry.iteration, entry.kind, entry.severity, text)
    by = entry.by_id or (f"#{entry.by}" if entry.by is not None else None)
    request = entry.request_id or (f"#{entry.request}" if entry.request is not None else None)
    return Told(entry.wall, entry.iteration, entry.kind, entry.severity, text, request, by, entry.tokens, entry.seconds)


_Number = TypeVar("_Number", int, float)


def _sum(so_far: _Number | None, more: _Number | None) -> _Number | None:
    return so_far if more is None else more if so_far is None else so_far + more


def pairs(victims: list[Victim]) -> Iterator[tuple[str, str, int]]:
    """Who preempted whom how often, the most first."""
    counted = Counter({(by, victim.request): times for victim in victims for by, times in victim.by.items()})
    for (by, victim), times in counted.most_common():
        yield by, victim, times
