"""From a source to the state, and to what the screen looks at: the state itself, a copy held still, or a moment past."""

from collections import deque

from kvtop.alarms import Change, Report, Settings, Watch
from kvtop.record import Place, Tape
from kvtop.sources.base import LinkDown, LinkUp, Recorded, Rewound, Source, Unusable
from kvtop.sources.replay import ReplaySource
from kvtop.state import Changes, EngineState
from kvtop.state.freeze import frozen
from kvtop.state.moment import Moment


class Feed:
    """Drains a source into ``live``, past the alarms' watch. ``shown`` is what views look at; while held it is a copy that
    stands still. ``report``: alarms to show of a ``state`` that is known already."""

    def __init__(
        self,
        source: Source,
        state: EngineState | None = None,
        settings: Settings | None = None,
        report: Report | None = None,
    ) -> None:
        self.source = source
        self.replay = source if isinstance(source, ReplaySource) else None
        """The source where it is a recording: what can be stopped, sped up and gone about in."""
        self.live = state or EngineState()
        self._watch = Watch(settings)
        self._report = report
        self._still_report = Report()
        self._reports: deque[tuple[str | None, int, Report]] = deque(maxlen=KEPT_REPORTS)
        """How alarms stood from which frame of which run on."""
        self.held_since: float | None = None
        self._still: EngineState | None = None
        self._past: Moment | None = None
        self._asked_at = float("-inf")
        self._fps: float | None = None

    @property
    def shown(self) -> EngineState:
        return self.live if self._still is None else self._still

    @property
    def held(self) -> bool:
        return self._still is not None

    @property
    def past(self) -> bool:
        """What is shown is a moment gone by, of an engine that goes on."""
        return self._past is not None

    @property
    def place(self) -> Place | None:
        """Where in what is recorded the shown moment is; None where it is the present."""
        if self.replay is not None:
            return self.replay.place
        return None if self._past is None else self._past.place

    def tape(self) -> Tape | None:
        """What is recorded, up to now, of what the source tells; None where nothing is."""
        tape = self.source.tape()
        if tape is not None:
            tape.refresh()
        return tape

    def time(self, now: float) -> float:
        """What ages and waits of the state go by at ``now`` (viewer's clock): that, or the time of the recording."""
        if self._past is not None:
            return self._past.now
        return now if self.replay is None else self.replay.time

    @property
    def alarms(self) -> Report:
        """What is wrong: now, while the view is held too; or in the moment past that is shown."""
        return self._still_report if self.past else self._report or self._watch.report

    @property
    def shown_alarms(self) -> Report:
        """What was wrong in the state that is shown."""
        return self._still_report if self.held else self.alarms

    def take_alarms(self) -> list[Change]:
        """Alarms that began or ended since the last call."""
        return self._watch.take_changes()

    def _remember(self) -> None:
        """How alarms stand, where it is not as before: for looking back."""
        if self.live.seq is not None and self.replay is None:
            run, seq, report = self.live.run, self.live.seq, self._watch.report
            last = self._reports[-1] if self._reports else None
            if last is None or last[0] != run or last[2].standing != report.standing:
                self._reports.append((run, seq, report))

    def _report_at(self, run: str | None, frame: int) -> Report:
        """How alarms stood then, as the live watch has seen it."""
        known = [report for of, seq, report in self._reports if of == run and seq <= frame]
        return known[-1] if known else Report()

    def drain(self, now: float) -> Changes:
        """Takes over all that came since the last call; ``now``: the viewer's clock."""
        news: list[Changes] = []
        for item in self.source.poll():
            if isinstance(item, LinkUp):
                news.append(self.live.link_up(now))
            elif isinstance(item, LinkDown):
                news.append(self.live.link_down(item.reason, item.retrying, now))
            elif isinstance(item, Unusable):
                news.append(self.live.unusable(item.count, item.note))
            elif isinstance(item, Recorded):
                news.append(self._watch.apply(self.live, item.frame, item.at))
            elif isinstance(item, Rewound):
                news.append(self.live.begin_anew())
                self._watch.begin_anew()
            else:
                news.append(self._watch.apply(self.live, item, now))
        news.append(self._watch.tick(self.live, now if self.replay is None else self.replay.time))
        self._remember()
        if self.live.resync and now - self._asked_at > KEYFRAME_EVERY:
            self._asked_at = now
            self.source.request_keyframe()
        if self.replay is not None and self.live.playback != self.replay.playback:
            self.live.playback = self.replay.playback
            news.append(Changes(link=True))
        if self._still is not None:
            # The one thing that is shown live even then: whether the engine is still there.
            self._still.link, self._still.bye = self.live.link, self.live.bye
        return Changes.together(news)

    def pace(self, fps: float) -> None:
        """Asks for so many frames a second, if it has not yet."""
        if fps != self._fps:
            self._fps = fps
            self.source.pace(fps)

    def hold(self, now: float) -> None:
        """From now on the view stands still; the live state goes on."""
        self._past = None
        self._still, self.held_since = frozen(self.live, self.time(now)), now
        self._still_report = self.alarms

    def look(self, moment: Moment, now: float) -> None:
        """From now on the view shows ``moment``, which is over; the live state goes on."""
        state = moment.state
        state.hold(moment.now)
        state.past = True
        state.link, state.bye = self.live.link, self.live.bye
        self._still, self._past = state, moment
        self._still_report = self._report_at(state.run, moment.place.seq)
        self.held_since = now - _seconds_between(state, self.live) - (self.live.age(now) or 0.0)

    def seek(self, place: Place, now: float) -> None:
        """Stops a replay at ``place``."""
        assert self.replay is not None
        self.replay.pause()
        self.replay.seek(place)
        self.drain(now)

    def to_end(self, now: float) -> None:
        """To the latest moment there is: of a replay its end, else the present."""
        if self.replay is None:
            self.let_go()
        elif (tape := self.tape()) is not None and tape.end is not None:
            self.seek(tape.end, now)

    def let_go(self) -> None:
        self._still = self._past = self.held_since = None


KEPT_REPORTS = 512
"""Times at which the state of an alarm changed that are remembered, for looking back."""

KEYFRAME_EVERY = 2.0
"""Seconds between two requests for a keyframe while frames do not join; a source may ask by itself too."""


def _seconds_between(then: EngineState, now: EngineState) -> float:
    """By the engine's own clocks; 0 where they cannot say."""
    if then.run == now.run and then.mono is not None and now.mono is not None:
        return max(0.0, now.mono - then.mono)
    if then.wall is None or now.wall is None:
        return 0.0
    return max(0.0, now.wall - then.wall)
