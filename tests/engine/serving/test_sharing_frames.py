"""What a viewer sees of several samples of one prompt and of copied blocks."""

import random

import pytest

from engine.core import Engine
from engine.scheduling.forking import add_samples
from engine.serving.telemetry import Telemetry
from kvtop.protocol import Event, decode_frame, encode
from kvtop.state import EngineState
from tests.engine.fake_model import make_engine, request
from tests.engine.serving.test_telemetry import _seen, _turn


def _turns(engine: Engine, telemetry: Telemetry, count: int) -> list[Event]:
    return [event for _ in range(count) if (frame := _turn(engine, telemetry)) is not None for event in frame.events]


def test_samples_name_their_group_and_a_copy_is_an_event() -> None:
    engine, telemetry = make_engine()
    first = request(3, list(range(6)), 6)
    add_samples(first, [4, 5])
    engine.scheduler.add(first, engine.clock())
    frame = _turn(engine, telemetry)
    assert frame is not None
    seen = {change.num: change for change in frame.requests}
    assert set(seen) == {3, 4, 5}
    assert {(change.group, change.siblings) for change in seen.values()} == {(3, 3)}
    assert seen[3].table == seen[4].table == seen[5].table
    copies = [event for event in _turns(engine, telemetry, 1) if event.kind == "copy"]
    assert [(copy.request, copy.blocks, copy.tokens) for copy in copies] == [(3, 1, 2), (4, 1, 2)]
    assert copies[0].cause == "about to write a block that others hold"
    assert copies[0].detail is not None
    assert copies[0].detail.startswith("block ")


@pytest.mark.parametrize("seed", range(3))
def test_frames_add_up_while_samples_fork_and_blocks_are_copied(seed: int) -> None:
    rng = random.Random(seed)
    engine, telemetry = make_engine(blocks=24, max_running=6, token_budget=16, partial_reuse="copy")
    follower = EngineState()
    follower.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
    prefix = [rng.randrange(1000) for _ in range(12)]
    copied = 0
    for turn in range(120):
        if rng.random() < 0.3:
            head = prefix[: rng.choice([0, 6, 8, 11])]
            new = request(
                10 * turn, head + [rng.randrange(1000) for _ in range(rng.randrange(1, 20))], rng.randrange(1, 16)
            )
            add_samples(new, [10 * turn + place for place in range(1, rng.choice([1, 2, 3]))])
            engine.scheduler.add(new, engine.clock())
            telemetry.touch(new)
        if (frame := _turn(engine, telemetry)) is not None:
            follower.apply(frame, 0.0)
            copied += sum(event.kind == "copy" for event in frame.events)
        fresh = EngineState()
        fresh.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
        assert _seen(fresh) == _seen(follower)
    assert copied > 5
