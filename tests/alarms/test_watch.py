"""The watch: the same frames give the same alarms; restarts, gaps, clocks and lies neither raise nor fire what is not so."""

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tests.app.live_engine as live_engine
from kvtop.alarms import Settings
from kvtop.alarms.rules import RULES
from kvtop.protocol import (
    AnyFrame,
    Bye,
    Counters,
    Event,
    Gap,
    Gauges,
    Hello,
    IterationFrame,
    Keyframe,
    Queue,
    RequestChange,
    Status,
    TierLevel,
    Verdict,
    merge_frames,
)
from tests.alarms.watching import AHEAD, Watched, of, watched
from tests.app.live_engine import LiveEngine
from tests.app.sources import gauges_only
from tests.state.model import ToyEngine

EAGER = Settings.of(
    {
        "preemption_storm.least": 2,
        "preemption_storm.per_end": 0.2,
        "preemption_storm.for_s": 0,
        "preemption_storm.window_s": 5,
        "preemption_storm.hold_s": 2,
        "stale_data.after_s": 3,
        "hit_collapse.least_tokens": 1,
        "hit_collapse.least_requests": 1,
        "hit_collapse.usual": 0.01,
        "hit_collapse.left": 0.95,
        "hit_collapse.window_s": 5,
        "hit_collapse.before_s": 5,
        "hit_collapse.for_s": 0,
        "hit_collapse.hold_s": 1,
    }
)
"""Everything is told, and over, soon."""


@cache
def story() -> tuple[AnyFrame, ...]:
    """Half a minute of an engine, of them five in which a step hung, five with nothing to do and five paused."""
    engine = LiveEngine(arrivals=0.3)
    frames: list[AnyFrame] = [engine.hello(), engine.keyframe()]
    frames += [engine.step() for _ in range(200)]
    engine.clock.now += 5.0
    frames += [engine.step() for _ in range(60)]
    engine.pause()
    frames.append(engine.step())
    engine.clock.now += 5.0
    engine.scheduler.resume()
    frames += [engine.step() for _ in range(40)]
    engine.go_idle()
    frames += [engine.step() for _ in range(3)]
    engine.clock.now += 5.0
    frames += [engine.step() for _ in range(3)]
    return tuple(frames)


def outcome(seen: Watched) -> list[Any]:
    return [
        *(
            (change.check.name, change.began, round(change.check.since or 0.0, 6), change.check.text)
            for change in seen.changes
        ),
        *seen.marks(),
    ]


@cache
def without_ticks() -> list[Any]:
    return outcome(of(story(), EAGER))


def test_the_story_has_alarms() -> None:
    told = of(story(), EAGER).told
    assert ("stale_data", True) in told
    assert ("stale_data", False) in told
    assert ("preemption_storm", True) in told


@given(ticks=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=40), late=st.floats(0.0, 1.5))
@settings(max_examples=8)
def test_the_same_frames_give_the_same_alarms_however_often_the_screen_asks(ticks: list[float], late: float) -> None:
    seen = Watched(EAGER)
    number = 0
    for frame in story():
        if isinstance(frame, IterationFrame | Keyframe):
            while (
                seen.state.mono is not None
                and (next_tick := seen.now + ticks[number % len(ticks)]) < frame.mono + AHEAD
            ):
                seen.now = next_tick
                number += 1
                seen.watch.tick(seen.state, seen.now)
                seen.changes += seen.watch.take_changes()
            seen.now = max(seen.now, frame.mono + AHEAD + late)
        seen.watch.apply(seen.state, frame, seen.now)
        seen.changes += seen.watch.take_changes()
    assert outcome(seen) == without_ticks()


@cache
def storm() -> tuple[AnyFrame, ...]:
    engine = LiveEngine(blocks=64, arrivals=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_engine, "CLASSES", (("L", 16, 200),))
        for _ in range(40):
            engine.arrive()
    return (engine.hello(), engine.keyframe(), *(engine.step() for _ in range(400)))


@pytest.mark.parametrize("together", [1, 3, 10, 35])
def test_merged_frames_begin_the_same_alarms(together: int) -> None:
    hello, keyframe, *frames = storm()
    runs = [frames[at : at + together] for at in range(0, len(frames), together)]
    merged = [merge_frames([frame for frame in run if isinstance(frame, IterationFrame)]) for run in runs]
    assert of([hello, keyframe, *merged]).told == [("preemption_storm", True)]


def test_what_is_on_its_way_is_waited_for() -> None:
    """Nobody runs, so silence is right and time passes for what was told; but a frame that ends it may come late."""
    seen = Watched(Settings.of({"never_fits.for_s": 2}))
    toy = ToyEngine(8, 1)
    verdict = Verdict(request=1, code="never_fits")
    quiet = toy.keyframe().model_copy(update={"gauges": Gauges(running=0, waiting=1), "verdict": verdict})
    seen.hear(toy.hello(), quiet)
    seen.wait(2.7)
    late = IterationFrame(seq=quiet.seq + 1, iteration=1, wall=quiet.wall + 1.5, mono=quiet.mono + 1.5)
    seen.watch.apply(seen.state, late, seen.now)
    seen.wait(20.0)
    assert seen.changes == []
    seen = Watched(Settings.of({"never_fits.for_s": 2}))
    seen.hear(toy.hello(), quiet)
    seen.wait(20.0)
    assert seen.told == [("never_fits", True)]


def test_a_merged_frame_over_a_long_time_is_no_silence() -> None:
    """As it comes to a viewer that was slow."""
    engine = LiveEngine()
    seen = watched(engine, iterations=100)
    merged = merge_frames([engine.step() for _ in range(400)])
    seen.hear(merged, engine.step())
    assert seen.told == []


def test_a_restart_ends_all_alarms() -> None:
    engine = LiveEngine(arrivals=0.3)
    seen = watched(engine, EAGER, iterations=100)
    seen.wait(5.0)
    assert seen.firing[0] == "stale_data"
    fired = set(seen.firing)
    again = LiveEngine(seed=99, run="run-2")
    seen.hear(Bye(reason="shutting down"), again.hello(), again.keyframe(), again.step())
    assert seen.firing == []
    assert {name for name, began in seen.told[-len(fired) :] if not began} == fired
    assert "over: stale data; the engine was restarted" in seen.marks()


def test_nothing_but_stale_data_begins_while_the_connection_is_lost() -> None:
    seen = watched(LiveEngine(arrivals=0.3), iterations=60)
    seen.state.link_down("gone", True, seen.now)
    seen.wait(400.0, step=1.0)
    assert seen.told == [("stale_data", True)]
    assert {check.status for check in seen.watch.report.checks} <= {"fine", "firing", "unchecked"}


def test_a_gap_and_frames_that_do_not_join_begin_none() -> None:
    engine = LiveEngine()
    seen = watched(engine, iterations=100)
    for _ in range(400):
        engine.step()
    seen.hear(Gap(first=101, last=500), engine.step(), engine.keyframe())
    seen.follow(engine, 40)
    assert seen.told == []


@pytest.mark.parametrize("jump", [-3600.0, 3600.0, -5.0, 5.0])
def test_a_clock_that_jumps_begins_none_and_ends_none(jump: float) -> None:
    engine = LiveEngine()
    seen = watched(engine, EAGER, iterations=200)
    before = list(seen.told)
    frames = [engine.step() for _ in range(20)]
    now = seen.now
    for frame in frames:
        now += 0.05
        # Of the monotonic clock alone: the wall clock goes on.
        seen.watch.apply(seen.state, frame.model_copy(update={"mono": frame.mono + jump}), now)
    seen.changes += seen.watch.take_changes()
    assert seen.told == before


def test_who_slept_himself_cannot_say_that_nothing_came() -> None:
    seen = watched(LiveEngine(), iterations=100)
    seen.wait(1.0)
    seen.now += 600.0  # suspended with ctrl+z
    seen.watch.tick(seen.state, seen.now)
    assert seen.watch.take_changes() == []
    seen.wait(11.0)
    assert seen.told == [("stale_data", True)]


def test_what_is_not_exposed_is_said_to_be_so() -> None:
    seen = of(gauges_only())
    said = {check.name: check.text for check in seen.watch.report.checks if check.status == "unchecked"}
    assert set(said) == {
        "no_progress", "ledger_violation", "orphan_blocks", "never_fits", "preemption_storm", "tier_thrash", "hit_collapse",
    }  # fmt: skip
    assert all("vllm" in why for why in said.values())
    seen.wait(60.0)
    assert seen.told == [("stale_data", True)]


def test_before_an_engine_was_heard_nothing_is_checked_and_nothing_fires() -> None:
    seen = Watched()
    seen.wait(30.0)
    assert seen.told == []
    assert {check.status for check in seen.watch.report.checks} == {"unchecked"}


def test_an_alarm_that_is_off_is_not_looked_at() -> None:
    seen = watched(LiveEngine(), Settings.of({"stale_data": "off"}), iterations=20)
    seen.wait(60.0)
    assert seen.told == []
    assert (seen.check("stale_data").status, len(seen.watch.report.checks)) == ("off", len(RULES))


numbers = st.integers(0, 1 << 60)
finite = st.floats(allow_nan=False, allow_infinity=False)
levels = st.builds(
    TierLevel,
    tier=st.sampled_from(("device", "host", "disk", "")),
    blocks_total=st.none() | numbers,
    bytes_in=st.none() | numbers,
    bytes_out=st.none() | numbers,
    stalls=st.none() | numbers,
    stall_ms=st.none() | st.floats(0, 1e18),
)
events = st.builds(
    Event,
    id=st.integers(0, 50),
    kind=st.sampled_from(("preempt", "swap_out", "ledger", "watchdog", "prefix_reset", "fault")),
    iteration=st.just(1),
    wall=finite,
    request=st.none() | st.integers(-5, 9),
    request_id=st.none() | st.text(max_size=5),
    by=st.none() | st.integers(-5, 9),
    detail=st.none() | st.text(max_size=30) | st.just("block 99999999 is lost"),
)
verdicts = st.builds(
    Verdict,
    request=st.integers(-3, 9),
    code=st.sampled_from(("never_fits", "needs_blocks", "odd")),
    rule=st.none() | st.text(max_size=9),
    need_blocks=st.none() | st.integers(-9, 1 << 60),
)
counters = st.fixed_dictionaries({}, optional=dict.fromkeys(Counters.model_fields, numbers)).map(
    lambda f: Counters(**f)
)
gauges = st.fixed_dictionaries({}, optional={name: numbers for name in Gauges.model_fields if name != "kv_usage"}).map(
    lambda f: Gauges(**f)
)
requests = st.builds(
    RequestChange,
    num=st.integers(0, 9),
    state=st.sampled_from(("waiting", "decode", "finished", "odd")),
    prompt_tokens=st.none() | numbers,
    cached_tokens=st.none() | st.integers(0, 2),
)
facts = st.fixed_dictionaries(
    {"mono": finite | st.floats(0, 1e4) | st.just(1e17), "wall": finite | st.floats(0, 1e4)},
    optional={
        "counters": counters,
        "gauges": gauges,
        "verdict": verdicts,
        "events": st.lists(events, max_size=4),
        "tiers": st.lists(levels, max_size=3),
        "requests": st.lists(requests, max_size=4),
        "queue": st.builds(Queue, order=st.lists(st.integers(0, 9), max_size=3), total=st.integers(0, 9)),
        "status": st.builds(
            Status,
            state=st.sampled_from(("running", "idle", "paused", "odd")),
            warning=st.none() | st.text(max_size=9),
            warning_since=st.none() | finite,
        ),
        "blocks": st.lists(
            st.tuples(
                st.integers(0, 9), st.integers(1, 3), st.integers(0, 7), st.integers(-1, 20), *[st.integers(0, 3)] * 2,
                *[st.just(0)] * 2,
            ),
            max_size=4,
        ),
    },
)  # fmt: skip


@given(steps=st.lists(st.tuples(facts, st.floats(0.0, 30.0)), max_size=8), exposed=st.booleans())
@settings(max_examples=15)
def test_no_rule_raises_for_whatever_an_engine_says(steps: list[tuple[dict[str, Any], float]], exposed: bool) -> None:
    seen = Watched(EAGER)
    toy = ToyEngine(8, 1)
    keyframe = toy.keyframe()
    said: list[AnyFrame] = [toy.hello(), keyframe] if exposed else list(gauges_only())
    for frame in said:
        seen.watch.apply(seen.state, frame, 0.0)
    seq = seen.state.seq or 0
    for number, (fields, later) in enumerate(steps, 1):
        frame = IterationFrame(seq=seq + number, iteration=number, **fields)
        seen.watch.apply(seen.state, frame, seen.now)
        seen.now += later
        seen.watch.tick(seen.state, seen.now)
        assert len(seen.watch.report.checks) == len(RULES)


def test_hello_alone_is_no_news() -> None:
    seen = Watched()
    hello, _ = gauges_only()
    assert isinstance(hello, Hello)
    seen.hear(hello)
    assert seen.told == []
