"""Sources for tests of the screen: fed by hand, from the real engine or from what one was recorded saying."""

from collections.abc import Callable
from typing import Protocol

from kvtop.protocol import (
    AnyFrame,
    EngineIdentity,
    Gauges,
    Hello,
    IterationFrame,
    Keyframe,
    Message,
    ModelFacts,
    Status,
    encode,
)
from kvtop.record import Tape
from kvtop.record.ring import in_memory
from kvtop.sources.base import Item, LinkDown, LinkUp
from kvtop.sources.history import History


class Teller(Protocol):
    """What frames come from: `tests.app.live_engine.LiveEngine`, or `tests.recording.RecordedEngine`."""

    def hello(self) -> Hello: ...

    def keyframe(self) -> Keyframe: ...

    def step(self) -> IterationFrame: ...


class HandFedSource:
    """A source whose items a test puts in; with ``engine`` and ``live``, every poll also runs one iteration."""

    title = "a test"

    def __init__(self, engine: Teller | None = None, live: bool = False) -> None:
        self.engine, self.live = engine, live
        self.items: list[Item] = []
        self.started = self.closed = False
        self.keyframes_asked = 0
        self.paces: list[float] = []
        self.history: History | None = None
        if engine is not None:
            self.items += [LinkUp(), engine.hello(), engine.keyframe()]

    def start(self) -> None:
        self.started = True

    def put(self, *items: AnyFrame | LinkUp | LinkDown) -> None:
        self.items += items

    def run(self, iterations: int) -> None:
        """Queues the frames of so many iterations."""
        assert self.engine is not None
        self.items += [self.engine.step() for _ in range(iterations)]

    def poll(self) -> list[Item]:
        if self.live and self.engine is not None and not self.items:
            self.items.append(self.engine.step())
        items, self.items = self.items, []
        if self.history is not None:
            for item in items:
                if isinstance(item, Message):
                    self.history.take(encode(item), item)  # type: ignore[arg-type]
        return items

    def record(self, clock: Callable[[], float]) -> None:
        """What is polled from now on can be looked back on."""
        self.history = History(keep=in_memory, clock=clock)

    def pace(self, fps: float) -> None:
        self.paces.append(fps)

    def tape(self) -> Tape | None:
        return None if self.history is None else self.history.tape()

    def request_keyframe(self) -> None:
        self.keyframes_asked += 1

    def close(self) -> None:
        self.closed = True


def gauges_only(name: str = "outside") -> tuple[Hello, Keyframe]:
    """An engine seen from outside: levels, no blocks, no requests."""
    hello = Hello(
        engine=EngineIdentity(name=name, kind="vllm", version="0.11", run="r1"),
        model=ModelFacts(name="some-model"),
        capabilities=[],
    )
    frame = Keyframe(
        seq=0,
        iteration=0,
        wall=1_790_000_000.0,
        mono=5.0,
        status=Status(state="running"),
        gauges=Gauges(kv_usage=0.63, running=5, waiting=2),
    )
    return hello, frame
