"""A request's lifeline says what it did when, or that it is not known; it never makes anything up."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import Gap, RequestChange
from kvtop.state import EngineState, RequestTable
from kvtop.state.freeze import frozen
from kvtop.state.lifeline import KEPT_S, RUNS, Phase, Run, runs
from tests.views.scene import MONO, NOW, hello, iteration, keyframe

NEXT = {
    "waiting": ("prefill", "loading", "finished"),
    "loading": ("prefill",),
    "prefill": ("decode", "preempted"),
    "decode": ("preempted", "swapped", "finished"),
    "preempted": ("prefill", "loading"),
    "swapped": ("loading", "decode"),
}
OF = {"prefill": "prefill_s", "decode": "decode_s"}
PHASES = {
    "waiting": Phase.QUEUED, "preempted": Phase.PREEMPTED, "swapped": Phase.SWAPPED, "loading": Phase.LOADING,
    "prefill": Phase.PREFILL, "decode": Phase.DECODE, "finished": Phase.ENDED,
}  # fmt: skip


class Truth:
    """A request as its engine knows it: each of its phases, and the times of those that ended."""

    def __init__(self, now: float) -> None:
        self.phases = [("waiting", now)]
        self.times = {"queue_s": 0.0, "prefill_s": 0.0, "decode_s": 0.0}
        self.preemptions = 0

    def enter(self, state: str, now: float) -> None:
        last, since = self.phases[-1]
        self.times[OF.get(last, "queue_s")] += now - since
        self.preemptions += state in ("preempted", "swapped")
        self.phases.append((state, now))

    def told(self, sums: bool) -> RequestChange:
        state, since = self.phases[-1]
        more: dict[str, Any] = {**self.times, "preemptions": self.preemptions} if sums else {}
        return RequestChange(num=1, state=state, phase_since=since, **more)

    def at(self, moment: float) -> str | None:
        return next((state for state, since in reversed(self.phases) if since <= moment), None)


def phase_at(known: list[Run], moment: float) -> Phase | None:
    return next((run.phase for run in reversed(known) if run.since <= moment), None)


frames = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2)), max_size=4), st.booleans()), max_size=25
)
"""Of each frame: the transitions since the one before (quarters of a second later, and which), and whether it tells all anew."""


@settings(max_examples=150, deadline=None)
@given(frames=frames, sums=st.booleans(), first=st.integers(0, 3))
def test_what_it_says_is_what_happened_or_unknown(frames: list[Any], sums: bool, first: int) -> None:
    truth, table, now = Truth(100.0), RequestTable(), 100.0
    missed = not sums and first > 0
    seen: float | None = None
    for number, (steps, anew) in enumerate(frames):
        changed = 0
        for quarters, way in steps:
            now += quarters / 4
            following = NEXT.get(truth.phases[-1][0])
            if following is not None:
                truth.enter(following[way % len(following)], now)
                changed += 1
        now += 0.25
        if number < first:
            continue
        missed = missed or (changed > 1 and not sums)
        if anew:
            former, table = table, RequestTable()
            table.former = former
        table.seen, table.at = seen, now
        if changed or anew or seen is None:
            table.apply(truth.told(sums), None, lambda _: None)
        seen = now
        life = table[1].life
        assert len(life) <= 9 * RUNS
        known = list(runs(life))
        assert all(a.since < b.since and a.phase != b.phase for a, b in pairwise(known))
        for quarter in range(int(4 * max(100.0, now - KEPT_S)), int(4 * now)):
            moment = quarter / 4 + 0.125
            phase, was = phase_at(known, moment), truth.at(moment)
            if phase in (Phase.UNKNOWN, Phase.FOLDED):
                continue
            queued = {Phase.QUEUED, Phase.PREEMPTED, Phase.SWAPPED, Phase.LOADING}
            if phase in queued and was is not None and PHASES[was] in queued:
                continue  # of kinds of waiting between two frames the times know the sum alone
            assert phase == (None if was is None else PHASES[was]), (moment, known, truth.phases)
        if not missed and number == len(frames) - 1 and truth.preemptions == 0 and sums:
            assert Phase.UNKNOWN not in {run.phase for run in known}


def test_of_many_runs_the_older_are_told_as_one() -> None:
    truth, table = Truth(0.0), RequestTable()
    for step in range(200):
        truth.enter("prefill" if step % 2 else "preempted", float(step + 1))
        table.seen, table.at = float(step), step + 1.0
        table.apply(truth.told(True), None, lambda _: None)
    known = list(runs(table[1].life))
    assert len(known) == RUNS
    assert known[0] == (Phase.FOLDED, 0.0)
    assert known[-1] == (Phase.PREFILL, 200.0)
    table.seen, table.at = 200.0, 200.0 + 2 * KEPT_S
    truth.enter("decode", 200.0 + 2 * KEPT_S)
    table.apply(truth.told(True), None, lambda _: None)
    assert list(runs(table[1].life)) == [(Phase.PREFILL, 200.0), (Phase.DECODE, 200.0 + 2 * KEPT_S)]


def told(state: EngineState, num: int = 1) -> list[tuple[str, float]]:
    row = state.request(num)
    assert row is not None
    return [(run.phase.name, run.since - MONO) for run in runs(row.life)]


def begun(**facts: Any) -> EngineState:
    state = EngineState()
    state.apply(hello(), NOW)
    first = {"num": 1, "state": "decode", "phase_since": MONO - 2.5, "queue_s": 1.0, "prefill_s": 0.5, "decode_s": 0.0}
    state.apply(keyframe(requests=[RequestChange.model_validate(first | {"preemptions": 0} | facts)]), NOW)
    return state


BEGUN = [("QUEUED", -4.0), ("PREFILL", -3.0), ("DECODE", -2.5)]


def test_a_viewer_that_comes_later_knows_the_life_of_who_was_never_preempted() -> None:
    assert told(begun()) == BEGUN
    assert told(begun(preemptions=1)) == [("UNKNOWN", -4.0), ("DECODE", -2.5)]
    assert told(begun(queue_s=None, prefill_s=None, decode_s=None)) == [("UNKNOWN", -2.5 - KEPT_S), ("DECODE", -2.5)]


def test_after_a_gap_the_times_tell_what_was_missed_or_it_is_unknown() -> None:
    state = begun()
    state.apply(iteration(11, MONO + 1), NOW + 1)
    state.apply(Gap(first=12, last=20), NOW + 2)
    # Preempted 3 s after it began to decode and waiting ever since: the times say so.
    change = RequestChange(
        num=1, state="preempted", phase_since=MONO + 3, queue_s=1, prefill_s=0.5, decode_s=5.5, preemptions=1
    )
    state.apply(keyframe(seq=21, mono=MONO + 9, requests=[change]), NOW + 9)
    assert told(state) == [*BEGUN, ("PREEMPTED", 3.0)]
    # Preempted once more in the next gap: in which order it ran and waited, nobody knows.
    state.apply(Gap(first=22, last=30), NOW + 10)
    change = RequestChange(
        num=1, state="preempted", phase_since=MONO + 18, queue_s=9, prefill_s=2.5, decode_s=10.5, preemptions=3
    )
    state.apply(keyframe(seq=31, mono=MONO + 20, requests=[change]), NOW + 20)
    assert told(state) == [*BEGUN, ("PREEMPTED", 3.0), ("UNKNOWN", 9.0), ("PREEMPTED", 18.0)]


def test_times_that_do_not_add_up_tell_nothing() -> None:
    state = begun()
    change = RequestChange(num=1, state="finished", phase_since=MONO + 7, queue_s=1, prefill_s=0.5, decode_s=2.0)
    state.apply(iteration(11, MONO + 8, merged=1, requests=[change]), NOW + 8)
    assert told(state) == [*BEGUN, ("UNKNOWN", 0.0), ("ENDED", 7.0)]


def test_the_lifeline_moves_with_a_clock_that_jumps_and_ends_with_a_run() -> None:
    state = begun()
    held = frozen(state, NOW)
    state.apply(iteration(11, MONO + 1), NOW + 1)
    state.apply(iteration(12, MONO + 5000, wall=iteration(12, MONO + 2).wall), NOW + 2)
    assert state.jump is not None
    assert [(name, round(since - state.jump.mono, 6)) for name, since in told(state)] == BEGUN
    row, mono = state.request(1), state.mono_now(NOW + 2)
    assert row is not None
    assert row.decode_time(mono) == 4.5
    change = RequestChange(num=1, state="finished", phase_since=MONO + 5001, decode_s=5.5)
    state.apply(iteration(13, MONO + 5001, requests=[change]), NOW + 3)
    assert [name for name, _ in told(state)] == ["QUEUED", "PREFILL", "DECODE", "ENDED"]
    assert told(held) == BEGUN
    state.apply(hello(engine=hello().engine.model_copy(update={"run": "r2"})), NOW + 4)
    state.apply(keyframe(requests=[RequestChange(num=1, state="waiting", phase_since=MONO)]), NOW + 4)
    assert [name for name, _ in told(state)] == ["UNKNOWN", "QUEUED"]


def test_a_state_whose_beginning_is_not_told_begins_with_the_frame() -> None:
    state = begun()
    state.apply(iteration(11, MONO + 1, requests=[RequestChange(num=1, state="resting")]), NOW + 1)
    state.apply(iteration(12, MONO + 2, requests=[RequestChange(num=1, state="waiting")]), NOW + 2)
    assert told(state) == [*BEGUN, ("UNKNOWN", 0.0), ("QUEUED", 2.0)]
