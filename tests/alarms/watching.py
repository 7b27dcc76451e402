"""An engine's frames through the watch, on two clocks set by hand."""

from collections.abc import Iterable

from kvtop.alarms import Change, Check, Settings, Watch
from kvtop.protocol import AnyFrame, IterationFrame, Keyframe
from kvtop.state import EngineState, Marker
from tests.app.sources import Teller

AHEAD = 77.0
"""By how much the viewer's clock is ahead of the engine's."""


class Watched:
    """``now`` is the viewer's clock: each frame comes as it was sent."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.state, self.watch = EngineState(), Watch(settings)
        self.now = 0.0
        self.changes: list[Change] = []
        self.state.link_up(self.now)

    def hear(self, *frames: AnyFrame) -> None:
        for frame in frames:
            if isinstance(frame, IterationFrame | Keyframe):
                self.now = frame.mono + AHEAD
            self.watch.apply(self.state, frame, self.now)
            self.changes += self.watch.take_changes()

    def wait(self, seconds: float, step: float = 0.1) -> None:
        """Nothing comes for so long, while the screen ticks."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + step)
            self.watch.tick(self.state, self.now)
            self.changes += self.watch.take_changes()

    def follow(self, engine: Teller, iterations: int) -> None:
        for _ in range(iterations):
            self.hear(engine.step())

    def check(self, name: str) -> Check:
        return next(check for check in self.watch.report.checks if check.name == name)

    @property
    def told(self) -> list[tuple[str, bool]]:
        """Which alarms began (True) and ended, in order."""
        return [(change.check.name, change.began) for change in self.changes]

    @property
    def firing(self) -> list[str]:
        return [check.name for check in self.watch.report.firing]

    def marks(self) -> list[str]:
        return [entry.text for entry in self.state.events if isinstance(entry, Marker) and entry.kind == "alarm"]


def watched(engine: Teller, settings: Settings | None = None, iterations: int = 0) -> Watched:
    """What there is to see of ``engine`` after so many iterations."""
    seen = Watched(settings)
    seen.hear(engine.hello(), engine.keyframe())
    seen.follow(engine, iterations)
    return seen


def of(frames: Iterable[AnyFrame], settings: Settings | None = None) -> Watched:
    seen = Watched(settings)
    seen.hear(*frames)
    return seen
