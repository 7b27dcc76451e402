"""Who gets frames and keyframes while viewers come and go, on a thread of their own, in the middle of a turn."""

import itertools
import random
import threading
from collections.abc import Iterator

import pytest

from engine.memory import column_copy
from engine.serving import broadcast
from engine.serving.broadcast import Broadcast
from kvtop.protocol import Event, IterationFrame, Keyframe
from kvtop.publish import EncodedKeyframe
from kvtop.publish.ring import Ring
from tests.engine.fake_model import make_engine, request


class Door:
    """Stands for the publisher. ``looks``: what each look at it finds; after those somebody is always there."""

    def __init__(self, looks: Iterator[bool]) -> None:
        self._looks = looks
        self.frames: list[int] = []
        self.passed_over: list[int] = []
        self.keyframes: list[int] = []

    recorded = False

    @property
    def watched(self) -> bool:
        return next(self._looks, True)

    def keyframe_due(self) -> bool:
        return not self.keyframes or max(self.passed_over, default=0) >= self.keyframes[-1]

    def publish(self, frame: IterationFrame) -> None:
        self.frames.append(frame.seq)

    def pass_over(self, seq: int, events: list[Event]) -> None:
        self.passed_over.append(seq)

    def keyframe_coming(self, seq: int) -> None: ...

    def publish_keyframe(self, keyframe: Keyframe | EncodedKeyframe) -> None:
        self.keyframes.append(keyframe.seq)


@pytest.mark.parametrize("leaves", range(2, 12))
def test_whoever_comes_after_one_who_left_in_the_middle_of_a_turn_gets_a_keyframe(
    leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_copy, "PIECE", 20)
    monkeypatch.setattr(broadcast, "GATHER_S", 0.0)
    engine, telemetry = make_engine()
    door = Door(iter([False, True] + [True] * leaves + [False, False]))
    spoken = Broadcast(telemetry, door)  # type: ignore[arg-type]
    engine.scheduler.add(request(0, [1, 2, 3], max_tokens=100), engine.clock())
    for _ in range(60):
        spoken.tell(engine.step())
        for encoder in (thread for thread in threading.enumerate() if thread.name == "kvtop-keyframe"):
            encoder.join(30.0)
    assert not door.keyframe_due(), "it waits for ever"
    assert door.frames[-1] == telemetry.seq
    spoken.close()


class Recorded(Door):
    """Only a flight recorder listens, and wants keyframes at random."""

    recorded = True

    def __init__(self, chance: random.Random) -> None:
        super().__init__(itertools.repeat(False))
        self._chance, self.ring = chance, Ring(512)

    def keyframe_due(self) -> bool:
        return self._chance.random() < 0.1

    def publish(self, frame: IterationFrame) -> None:
        self.ring.append(frame)
        super().publish(frame)

    def publish_keyframe(self, keyframe: Keyframe | EncodedKeyframe) -> None:
        self.ring.hold(keyframe)
        super().publish_keyframe(keyframe)


@pytest.mark.parametrize("seed", range(6))
def test_keyframes_for_the_recorder_come_between_frames_of_many_iterations(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_copy, "PIECE", 20)
    monkeypatch.setattr(broadcast, "GATHER_S", 0.0 if seed % 2 else 1.0)
    engine, telemetry = make_engine()
    chance = random.Random(seed)
    door = Recorded(chance)
    spoken = Broadcast(telemetry, door, clock=lambda: engine.iteration * 0.05)  # type: ignore[arg-type]
    spoken.open()
    engine.scheduler.add(request(0, [1, 2, 3], max_tokens=100), engine.clock())
    for _ in range(90):
        spoken.tell(engine.step() if chance.random() < 0.8 else None)
        for encoder in (thread for thread in threading.enumerate() if thread.name == "kvtop-keyframe"):
            encoder.join(30.0)
    assert len(door.keyframes) > 3
    assert set(door.keyframes[1:]) <= set(door.frames), "each is as of a frame that was told"
    assert len(door.frames) < 60
    assert door.passed_over == []
