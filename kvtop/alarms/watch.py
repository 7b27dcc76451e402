"""The watch: every frame goes through it into the state, and the rules look about once a second of the engine's clock.

The same frames give the same alarms, however often and whenever the screen asks: rules look at the dates of frames. Where no
frame comes because there is nothing to tell (the engine is idle or paused, or nobody can run), what was told last still holds,
and they look at each second that passes. Where one should come and does not, only `stale_data` goes on, and all else stands
still: nothing fires on stale facts.
"""

from typing import Any, NamedTuple

from kvtop.alarms.course import Course
from kvtop.alarms.moment import Moment, Past
from kvtop.alarms.report import Check, Report
from kvtop.alarms.rules import RULES
from kvtop.alarms.rules.stale_data import StaleData
from kvtop.alarms.settings import Settings
from kvtop.alarms.words import span
from kvtop.protocol import AnyFrame, IterationFrame
from kvtop.state import Changes, EngineState, Marker

EVERY_S = 1.0
"""Seconds of the engine's clock between two looks."""

BEHIND_S = 2.0
"""Seconds that the looks stay behind the clock while nothing comes: what is on its way then is not missed."""

LONGEST_STEP_S = 10.0
"""Seconds between two looks that count as observed at most."""

LONGEST_PASS = 1500
"""Looks at one silence at most: after so many all windows and times to hold are over."""

LONGEST_TICK_S = 1.0
"""Seconds of the viewer's clock between two ticks that count at most: who slept himself cannot say that nothing came."""


class Change(NamedTuple):
    """An alarm that ``began``, or that is over: ``check`` is then as it was last. ``mono``: the engine's clock then; ``wall``:
    the same as Unix seconds."""

    check: Check
    began: bool
    mono: float | None = None
    wall: float | None = None


class Watch:
    """Follows one engine, through its restarts.

    Attributes:
        report: What is known now.
        changes: Alarms that began or ended since somebody last took them (`take_changes`).
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._changes: list[Change] = []
        self._begin(None)

    def begin_anew(self) -> None:
        """What comes next does not follow what came before: a recording is read from another place on."""
        self._changes.clear()
        self._begin(None)

    def _begin(self, run: str | None) -> None:
        self._run = run
        self._past = Past()
        self._at: float | None = None
        self._jump: object = None
        self._silent = 0.0
        self._silent_looks = 0
        self._ticked: float | None = None
        kinds = [(kind, self.settings.limits(kind.NAME)) for kind in RULES]
        self._courses: dict[str, Course] = {kind.NAME: Course(kind(limits)) for kind, limits in kinds if limits.on}
        self._report: Report | None = None

    @property
    def report(self) -> Report:
        if self._report is None:
            self._report = Report(tuple(self._check(kind) for kind in RULES))
        return self._report

    def _check(self, kind: Any) -> Check:
        course = self._courses.get(kind.NAME)
        return Check(kind.NAME, kind.TITLE, "off", "switched off") if course is None else course.check

    def take_changes(self) -> list[Change]:
        """What began or ended since the last call."""
        changes, self._changes = self._changes, []
        return changes

    # -- what comes in ------------------------------------------------------------------------------------------

    def apply(self, state: EngineState, frame: AnyFrame, now: float) -> Changes:
        """`EngineState.apply`, and what follows from it. Marks of alarms are in the log, and among the changes."""
        marks = []
        if isinstance(frame, IterationFrame) and self._joins(state, frame):
            marks = self._until(state, frame)
        seq, old = state.seq, state.mono
        changes = state.apply(frame, now)
        if state.run != self._run:
            marks += self._restarted(state)
        jumped = state.jump is not self._jump
        if jumped and state.jump is not None:
            self._jumped(state.jump.mono)
            self._jump = state.jump
        if state.seq is not None and (state.seq, state.mono) != (seq, old):
            self._past.hear(state, changes.events)
            marks += self._frame(state, old, jumped)
            self._silent, self._silent_looks = 0.0, 0
        else:
            self._past.hear(state, changes.events)
        return Changes.together([changes, *marks]) if marks else changes

    def tick(self, state: EngineState, now: float) -> Changes:
        """Time has passed: ``now``, the viewer's clock."""
        passed = 0.0 if self._ticked is None else min(max(0.0, now - self._ticked), LONGEST_TICK_S)
        self._ticked = now
        if state.mono is None or state.seq is None:
            return Changes()
        if self._facts_hold(state):
            mono = state.mono_now(now)
            return Changes.together(self._pass(state, (mono or state.mono) - BEHIND_S))
        age = state.age(now) or 0.0
        self._silent = min(self._silent + passed, age)
        # Where something runs, what is shown is of the past since the last frame; else since the link was lost.
        since = state.mono + (age - self._silent if self._nothing_runs(state) else 0.0)
        return Changes.together(self._silence(state, since, self._silent))

    # -- looking ------------------------------------------------------------------------------------------------

    @staticmethod
    def _joins(state: EngineState, frame: IterationFrame) -> bool:
        known = state.seq is not None and state.mono is not None and not state.resync
        return known and frame.seq - frame.merged == state.seq

    @staticmethod
    def _facts_hold(state: EngineState) -> bool:
        """No frame need come for what was told to be still so."""
        return state.link.up and not state.resync and Watch._nothing_runs(state)

    @staticmethod
    def _nothing_runs(state: EngineState) -> bool:
        """By what was told last; then silence is right."""
        status = state.status.state if state.status is not None else None
        return status in ("idle", "paused") or state.gauges.get("running") == 0

    def _until(self, state: EngineState, frame: IterationFrame) -> list[Changes]:
        """The time between the last frame and ``frame``, which follows it."""
        assert state.mono is not None
        assert state.wall is not None
        # A clock that was set is no time that passed: the shorter of the two.
        passed = min(frame.mono - state.mono, frame.wall - state.wall)
        if self._facts_hold(state):
            return self._pass(state, state.mono + passed)
        if frame.merged > 1:
            return []  # There were others in between.
        return self._silence(state, state.mono, max(self._silent, passed))

    def _pass(self, state: EngineState, until: float) -> list[Changes]:
        """Every second up to ``until``, in which what is known is still so."""
        if self._at is None:
            return []
        marks: list[Changes] = []
        self._at = max(self._at, until - LONGEST_PASS * EVERY_S)
        for _ in range(LONGEST_PASS):  # by number: a clock beyond 2^53 goes on by more than a second or not at all
            if self._at + EVERY_S >= until:
                break
            marks += self._look(state, self._at + EVERY_S)
        return marks

    def _frame(self, state: EngineState, before: float | None, jumped: bool) -> list[Changes]:
        """A frame has been applied; ``before``: the clock of the one before it."""
        assert state.mono is not None
        mono = state.mono
        if state.resync:
            return []
        if self._at is None or mono < self._at:
            self._at = mono  # the first, or a clock that fell: nothing was observed before it
        elif before is not None and mono - before > LONGEST_STEP_S and not jumped:
            self._at = max(self._at, mono - EVERY_S)
        elif mono - self._at < EVERY_S:
            return []
        return self._look(state, mono)

    def _look(self, state: EngineState, mono: float) -> list[Changes]:
        assert self._at is not None
        seconds = min(max(0.0, mono - self._at), LONGEST_STEP_S)
        self._at = mono
        self._past.note(state, mono)
        moment = Moment(state, mono, self._past)
        # The seconds of a silence have been counted one by one.
        counted = {StaleData.NAME: max(0.0, seconds - self._silent_looks)}
        return [
            mark
            for course in self._courses.values()
            for mark in self._step(state, course, moment, counted.get(course.rule.NAME, seconds))
        ]

    def _silence(self, state: EngineState, since: float, seconds: float) -> list[Changes]:
        """Nothing has come since then (engine's clock), for so many seconds. Only that is looked at, each second of it."""
        course = self._courses.get(StaleData.NAME)
        marks: list[Changes] = []
        self._silent_looks = max(self._silent_looks, int(min(seconds, 1e9)) - LONGEST_PASS)
        while course is not None and course.status != "firing" and self._silent_looks + 1 <= seconds:
            self._silent_looks += 1
            moment = Moment(state, since + self._silent_looks, self._past, float(self._silent_looks))
            marks += self._step(state, course, moment, 1.0)
        return marks

    def _step(self, state: EngineState, course: Course, moment: Moment, seconds: float) -> list[Changes]:
        wall = None
        if state.wall is not None and state.mono is not None:
            wall = state.wall + moment.mono - state.mono
        before = course.check
        change = course.step(moment.mono, wall, seconds, course.rule.look(moment))
        self._report = None
        if change is None:
            return []
        began = change == "began"
        self._changes.append(Change(course.check if began else before, began, moment.mono, wall))
        return [state.note(_mark(course, began, wall, state.iteration))]

    # -- what breaks the thread ---------------------------------------------------------------------------------

    def _restarted(self, state: EngineState) -> list[Changes]:
        """Another life of the engine: nothing of the old one is known any more."""
        fired = [course for course in self._courses.values() if course.fires]
        self._begin(state.run)
        marks = []
        for course in fired:
            self._changes.append(Change(course.check, False, course.since, course.wall))
            text = f"over: {course.rule.TITLE}; the engine was restarted"
            started = state.hello.engine.started if state.hello is not None else None
            marks.append(state.note(Marker("alarm", started, None, "info", text)))
        return marks

    def _jumped(self, seconds: float) -> None:
        if not seconds:
            return
        self._past.clear()
        for course in self._courses.values():
            course.move(seconds)
        if self._at is not None:
            self._at += seconds


def _mark(course: Course, began: bool, wall: float | None, iteration: int | None) -> Marker:
    if began:
        assert course.finding is not None
        severity = "error" if course.finding.severity == "critical" else "warn"
        return Marker("alarm", wall, iteration, severity, f"ALARM {course.rule.TITLE}: {course.finding.evidence}")
    lasted = "" if course.before is None else f", after {span(course.before.lasted)}"
    return Marker("alarm", wall, iteration, "info", f"over: {course.rule.TITLE}{lasted}")
