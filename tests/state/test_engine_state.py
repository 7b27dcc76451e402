"""What a viewer keeps of the frames, and how it counts time."""

import pytest

from kvtop.protocol import (
    Batch,
    Bye,
    Counters,
    Event,
    Fault,
    Gap,
    Gauges,
    IterationFrame,
    Keyframe,
    Reply,
    RequestChange,
    Status,
    Verdict,
)
from kvtop.state import Changes, EngineState, Marker
from tests.state.model import ToyEngine


def keyframe(**changes: object) -> Keyframe:
    facts: dict[str, object] = {"seq": 5, "iteration": 50, "wall": 1e9, "mono": 10.0, "status": Status(state="running")}
    return Keyframe.model_validate(facts | changes)


def frame(seq: int = 6, **changes: object) -> IterationFrame:
    facts: dict[str, object] = {"seq": seq, "iteration": 45 + seq, "wall": 1e9, "mono": 4.0 + seq}
    return IterationFrame.model_validate(facts | changes)


def event(id: int, kind: str = "notice") -> Event:
    return Event(id=id, kind=kind, iteration=id, wall=1e9)


@pytest.fixture
def state() -> EngineState:
    state = EngineState()
    state.apply(ToyEngine(8, 1).hello(), 0.0)
    return state


def ids(state: EngineState) -> list[int | str]:
    return [entry.kind if isinstance(entry, Marker) else entry.id for entry in state.events]


def test_before_the_first_keyframe_changes_are_not_shown_but_events_are(state: EngineState) -> None:
    changes = state.apply(frame(blocks=[(0, 1, 2, 0, 1, 1, 0, 0)], events=[event(1)]), 0.0)
    assert state.blocks is None
    assert state.seq is None
    assert changes.events == [event(1)]
    assert not changes.numbers


def test_absent_means_unchanged_in_an_iteration_and_not_exposed_in_a_keyframe(state: EngineState) -> None:
    gauges, counters = Gauges(running=3, waiting=1), Counters(evictions=2)
    state.apply(keyframe(gauges=gauges, counters=counters, policy={"capacity": "a"}), 0.0)
    state.apply(frame(gauges=Gauges(running=4)), 0.0)
    assert state.gauges == {"running": 4, "waiting": 1}
    assert state.policy == {"capacity": "a"}
    state.apply(keyframe(seq=6, gauges=Gauges(running=0)), 0.0)
    assert state.gauges == {"running": 0}
    assert state.counters.get("evictions") is None
    assert state.requests is None
    assert state.counts() is None


def test_a_verdict_holds_for_its_own_frame_only(state: EngineState) -> None:
    state.apply(keyframe(verdict=Verdict(request=1, code="paused")), 0.0)
    assert state.verdict is not None
    state.apply(frame(), 0.0)
    assert state.verdict is None


def test_an_event_is_kept_once_however_often_it_is_told(state: EngineState) -> None:
    state.apply(keyframe(events=[event(3), event(4)]), 0.0)
    state.apply(frame(events=[event(5)]), 0.0)
    again = state.apply(keyframe(seq=6, events=[event(3), event(4), event(5)]), 0.0)
    assert ids(state) == [3, 4, 5]
    assert again.events == []


def test_a_hole_in_the_numbers_of_events_is_shown(state: EngineState) -> None:
    state.apply(keyframe(events=[event(3)]), 0.0)
    state.apply(frame(events=[event(7)]), 0.0)
    assert ids(state) == [3, "gap", 7]
    assert list(state.events)[1].text == "3 events were never received"  # type: ignore[union-attr]


def test_a_gap_brings_its_events_and_waits_for_a_keyframe(state: EngineState) -> None:
    toy = ToyEngine(8, 1)
    state.apply(toy.keyframe(), 0.0)
    changes = state.apply(Gap(first=1, last=20, events=[event(0)], events_lost=0), 0.0)
    assert state.resync
    assert [getattr(e, "kind", None) for e in changes.events] == ["notice", "gap"]
    assert "20 frames not shown" in changes.events[1].text  # type: ignore[union-attr]
    assert "no event lost" in changes.events[1].text  # type: ignore[union-attr]
    state.apply(frame(seq=21, blocks=[(0, 1, 2, 0, 1, 1, 0, 0)]), 0.0)
    assert state.counts() == dict.fromkeys(state.state_names(), 0) | {"free": 8}
    state.apply(toy.keyframe(), 0.0)
    assert not state.resync


def test_a_missing_frame_is_noticed(state: EngineState) -> None:
    state.apply(keyframe(), 0.0)
    state.apply(frame(seq=8), 0.0)
    assert state.resync
    assert state.bad_note == "frames 6 to 7 never came"
    state.apply(keyframe(seq=8), 0.0)
    state.apply(frame(seq=10, merged=2), 0.0)
    assert state.seq == 10
    assert not state.resync


def test_a_frame_told_twice_changes_nothing(state: EngineState) -> None:
    state.apply(keyframe(), 0.0)
    batch = Batch(prefill_requests=1, decode_requests=2)
    state.apply(frame(batch=batch), 0.0)
    assert not state.apply(frame(batch=batch), 0.0)
    assert list(state.batches) == [3]


def test_a_restart_of_the_engine_empties_everything_and_says_so(state: EngineState) -> None:
    toy = ToyEngine(8, 1)
    state.apply(toy.keyframe(), 0.0)
    changes = state.apply(toy.hello(run="two"), 1.0)
    assert changes.full
    assert (state.seq, state.blocks, state.requests) == (None, None, None)
    assert ids(state) == ["restart"]


def test_a_reconnect_to_the_same_run_keeps_what_is_known(state: EngineState) -> None:
    toy = ToyEngine(8, 1)
    state.apply(toy.keyframe(), 0.0)
    state.link_down("connection reset", True, 1.0)
    state.apply(toy.hello(), 2.0)
    assert state.blocks is not None
    assert state.resync


def test_age_and_time_go_on_while_connected_and_stand_still_when_not(state: EngineState) -> None:
    state.apply(keyframe(mono=10.0), 100.0)
    assert (state.age(103.0), state.mono_now(103.0)) == (3.0, 13.0)
    state.link_down("engine died", True, 104.0)
    assert (state.age(110.0), state.mono_now(110.0)) == (10.0, 14.0)
    assert state.link.reason == "engine died"
    assert state.link.since == 104.0
    state.link_down("no such file", True, 106.0)
    assert (state.link.since, state.link.reason) == (104.0, "no such file")
    assert ids(state) == ["link"]
    state.link_up(120.0)
    assert state.link.up


def test_the_viewers_clock_going_back_makes_nothing_younger_than_now(state: EngineState) -> None:
    state.apply(keyframe(mono=10.0), 100.0)
    assert (state.age(90.0), state.mono_now(90.0)) == (0.0, 10.0)


def test_latencies_come_from_requests_and_each_once(state: EngineState) -> None:
    done = {"num": 1, "state": "finished", "phase_since": 9.0, "decode_s": 2.0, "ttft_s": 0.5, "tpot_s": 0.02}
    state.apply(keyframe(requests=[RequestChange.model_validate(done)]), 0.0)
    state.apply(frame(requests=[RequestChange(num=2, state="decode", ttft_s=0.7)]), 0.0)
    state.apply(frame(seq=7, requests=[RequestChange(num=2, output_tokens=2)]), 0.0)
    ttft, tpot = state.ttft.summary(11.0), state.tpot.summary(11.0)
    assert ttft is not None
    assert tpot is not None
    assert (ttft.n, ttft.p95, tpot.n, tpot.p50) == (2, 0.7, 1, 0.02)
    again = [RequestChange.model_validate(done), RequestChange(num=2, state="decode", ttft_s=0.7, phase_since=10.0)]
    state.apply(keyframe(seq=7, mono=11.0, requests=again), 0.0)
    assert state.ttft.summary(11.0) == ttft


def test_an_engine_clock_going_back_starts_rates_and_latencies_anew(state: EngineState) -> None:
    state.apply(keyframe(mono=1000.0, counters=Counters(decode_tokens=100)), 0.0)
    state.ttft.add(1000.0, 1.0)
    state.apply(keyframe(seq=6, mono=5.0, counters=Counters(decode_tokens=200)), 0.0)
    assert state.rates.per_second("decode_tokens", 5.0) is None
    assert state.ttft.summary(5.0) is None


def test_faults_and_byes_are_kept_and_replies_are_not_the_states_business(state: EngineState) -> None:
    fault = Fault(code="busy", message="too many viewers")
    state.apply(fault, 0.0)
    state.apply(Bye(reason="stopped by its operator"), 0.0)
    assert state.fault == fault
    assert state.bye == "stopped by its operator"
    assert not state.apply(Reply(id="x", ok=True), 0.0)


def test_changes_merge(state: EngineState) -> None:
    toy = ToyEngine(8, 3)
    state.apply(toy.keyframe(), 0.0)
    parts = []
    seen: set[int] = set()
    for _ in range(20):
        changes = state.apply(toy.step(), 0.0)
        seen |= set(changes.blocks.tolist())
        parts.append(changes)
    merged = Changes.together([Changes(), *parts])
    assert set(merged.blocks.tolist()) == seen
    assert list(merged.blocks) == sorted(seen)
    assert merged
    assert not Changes()
