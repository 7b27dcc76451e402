"""What goes out on the wire is what is in the engine: frames add up to keyframes, events name their cause."""

import random

import pytest

from engine.core import Engine
from engine.serving.request_facts import KEPT_FINISHED
from engine.serving.telemetry import Telemetry
from kvtop.protocol import Event, IterationFrame, decode_frame, encode
from kvtop.state import EngineState
from tests.engine.fake_model import Clock, make_engine, request


def _turn(engine: Engine, telemetry: Telemetry) -> IterationFrame | None:
    assert isinstance(engine.clock, Clock)
    engine.clock.now += 0.05
    step = engine.step()
    if step is None and not telemetry.has_news:
        return None
    frame = telemetry.frame(step)
    # Through the wire and back: what a viewer validates is what the engine built without validation.
    decoded = decode_frame(encode(frame))
    assert isinstance(decoded, IterationFrame)
    return decoded


def _seen(state: EngineState) -> dict[str, object]:
    assert state.blocks is not None
    assert state.requests is not None
    blocks = state.blocks
    return {
        "states": blocks.state.tolist(),
        "owners": blocks.owner.tolist(),
        "refs": blocks.refs.tolist(),
        "fill": blocks.fill.tolist(),
        "requests": {
            num: (
                row.state,
                row.computed_tokens,
                row.output_tokens,
                list(row.table),
                row.preemptions,
                row.finish_reason,
            )
            for num, row in state.requests.items()
        },
        "gauges": state.gauges,
        "counters": state.counters,
        "policy": state.policy,
        "queue": state.queue,
    }


@pytest.mark.parametrize("seed", range(4))
def test_frames_from_the_start_add_up_to_the_keyframe_at_any_time(seed: int) -> None:
    rng = random.Random(seed)
    compaction = "continuous" if seed % 2 else "off"
    engine, telemetry = make_engine(blocks=24, max_running=6, token_budget=16, compaction=compaction)
    follower = EngineState()
    follower.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
    prefix = [rng.randrange(1000) for _ in range(12)]
    for turn in range(150):
        if rng.random() < 0.4:
            head = prefix[: rng.choice([0, 4, 8, 12])]
            new = request(turn, head + [rng.randrange(1000) for _ in range(rng.randrange(1, 20))], rng.randrange(1, 16))
            engine.scheduler.add(new, engine.clock())
            telemetry.touch(new)
        if (frame := _turn(engine, telemetry)) is not None:
            follower.apply(frame, 0.0)
        if turn % 10 == 9:
            fresh = EngineState()
            fresh.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
            assert _seen(fresh) == _seen(follower)
    assert engine.scheduler.totals.preemptions > 0, "the scenario must be crowded enough to mean something"


def test_frames_are_numbered_without_holes_and_the_keyframe_names_the_last() -> None:
    engine, telemetry = make_engine()
    engine.scheduler.add(request(0, [1, 2, 3], 6), engine.clock())
    numbers = [frame.seq for _ in range(4) if (frame := _turn(engine, telemetry)) is not None]
    assert numbers == [1, 2, 3, 4]
    assert telemetry.keyframe().seq == 4


def test_a_preemption_event_names_victim_cause_and_cost() -> None:
    engine, telemetry = make_engine(blocks=8, block_size=4, watermark=0.0)
    for num in range(2):
        engine.scheduler.add(request(num, [num * 50 + i for i in range(12)], 16), engine.clock())
    events: list[Event] = []
    for _ in range(20):
        if (frame := _turn(engine, telemetry)) is not None:
            events += frame.events
    preempt = next(e for e in events if e.kind == "preempt")
    assert preempt.request_id == "r-0001"
    assert preempt.by_id == "r-0000"
    assert preempt.tokens is not None
    assert preempt.tokens >= 12
    assert preempt.blocks == -(-preempt.tokens // 4)
    assert preempt.free_blocks == 0
    assert preempt.need_blocks == 1
    assert preempt.seconds == pytest.approx(0.05 * (preempt.iteration - 1), abs=0.06)
    assert [e.id for e in events] == list(range(len(events)))


def test_only_what_changed_travels() -> None:
    engine, telemetry = make_engine()
    engine.scheduler.add(request(0, list(range(6)), 20), engine.clock())
    first = _turn(engine, telemetry)
    second = _turn(engine, telemetry)
    assert first is not None
    assert second is not None
    assert first.requests[0].id == "r-0000"
    change = second.requests[0]
    assert change.id is None
    assert change.prompt_tokens is None
    assert change.output_tokens == 2
    assert first.policy is not None
    assert second.policy is None
    assert len(encode(second)) < 1200


def test_old_finished_requests_are_forgotten_and_said_so() -> None:
    engine, telemetry = make_engine(blocks=64)
    forgotten: list[int] = []
    for num in range(KEPT_FINISHED + 5):
        new = request(num, [num, 1], 1)
        engine.scheduler.add(new, engine.clock())
        while (frame := _turn(engine, telemetry)) is not None:
            forgotten += frame.forgotten
    assert forgotten == list(range(5))
    assert len(telemetry.keyframe().requests or []) == KEPT_FINISHED


def test_text_stays_home_unless_asked_for() -> None:
    engine, telemetry = make_engine()
    engine.scheduler.add(request(0, [1, 2, 3], 4), engine.clock())
    frame = _turn(engine, telemetry)
    assert frame is not None
    assert frame.requests[0].prompt_text is None
    open_telemetry = Telemetry(
        engine,
        bytes_per_token=8,
        attention_mode="none",
        token_bytes=lambda token: f"<{token}>".encode(),
    )
    assert (open_telemetry.keyframe().requests or [])[0].prompt_text == "<1><2><3>"


def test_a_ledger_violation_is_an_event_and_a_count() -> None:
    engine, telemetry = make_engine()
    engine.scheduler.add(request(0, list(range(9)), 20), engine.clock())
    _turn(engine, telemetry)
    telemetry.ledger(engine.scheduler.ledger_violations())
    engine.scheduler.pool.refs[engine.scheduler.running[0].block_table[0]] += 1
    telemetry.ledger(engine.scheduler.ledger_violations())
    frame = telemetry.frame(None)
    assert frame.counters is not None
    assert (frame.counters.ledger_checks, frame.counters.ledger_violations) >= (2, 1)
    assert any(e.kind == "ledger" and e.severity == "error" and e.detail for e in frame.events)


def test_an_admission_tells_the_blocks_it_began_with_also_when_the_request_ended_in_the_same_step() -> None:
    engine, telemetry = make_engine()
    engine.scheduler.add(request(0, [1, 2, 3, 4, 5], 1), engine.clock())
    frame = _turn(engine, telemetry)
    assert frame is not None
    told = {event.kind: event for event in frame.events}
    assert set(told) == {"admit", "finish"}
    assert told["admit"].blocks == 2
