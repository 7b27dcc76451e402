"""Recordings for tests: what the real engine says, written on a clock set by hand."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kvtop.protocol import AnyFrame, IterationFrame, Keyframe, encode
from kvtop.record import FileSink, Sink, Writer
from tests.app.live_engine import LiveEngine

KEYFRAME_EVERY = 25

Told = tuple[bytes, AnyFrame]


class HandClock:
    """Monotonic seconds, set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@cache
def told(frames: int = 100, seed: int = 5, run: str = "run-1") -> tuple[Told, ...]:
    """What an engine says to a viewer that asks for a keyframe every `KEYFRAME_EVERY` frames: each line and its frame."""
    engine = LiveEngine(seed=seed, run=run)
    for _ in range(120):
        engine.step()
    said: list[AnyFrame] = [engine.hello()]
    for number in range(frames):
        if number % KEYFRAME_EVERY == 0:
            said.append(engine.keyframe())
        said.append(engine.step())
    return tuple((encode(frame), frame) for frame in said)


def feed(writer: Writer, clock: HandClock, said: Iterable[Told]) -> None:
    """Gives the writer each line at the time at which its frame is dated."""
    for line, frame in said:
        if isinstance(frame, IterationFrame | Keyframe):
            clock.now = max(clock.now, frame.mono)
        writer.work()
        writer.take(line, frame)


def record(sink: Sink, said: Iterable[Told], clock: HandClock | None = None) -> Writer:
    """Writes it all into ``sink`` and closes that."""
    clock = HandClock() if clock is None else clock
    writer = Writer(sink, clock=clock)
    feed(writer, clock, said)
    writer.close()
    return writer


def recording(path: Path, said: Iterable[Told]) -> Path:
    record(FileSink(path, forced=False), said)
    return path
