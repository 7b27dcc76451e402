"""The history: true by the second, bounded, and blank where nothing was seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.protocol import Counters, Durations, Gap, Gauges, Queue, Status
from kvtop.state import EngineState
from kvtop.state.freeze import frozen
from kvtop.state.history import COLUMNS, KEPT
from tests.views.scene import MONO, NOW, hello, iteration, keyframe

NAN = float("nan")


def watched(**changes: object) -> EngineState:
    state = EngineState()
    state.apply(hello(), NOW)
    state.apply(keyframe(counters=Counters(decode_tokens=0, preemptions=0), **changes), NOW)
    return state


def tell(state: EngineState, seq: int, at: float, tokens: int, **changes: object) -> None:
    """A frame ``at`` seconds after the keyframe, by both clocks."""
    state.apply(iteration(10 + seq, MONO + at, counters=Counters(decode_tokens=tokens), **changes), NOW + at)


def last(state: EngineState, name: str, seconds: int, at: float) -> list[float]:
    end = state.trend_end(NOW + at)
    assert end is not None
    (values,) = state.trends([name], end - seconds, end)
    return [round(value, 3) for value in values.tolist()]


def same(found: list[float], wanted: list[float]) -> None:
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_what_came_in_a_second_is_told_of_that_second() -> None:
    state = watched()
    for step in range(1, 41):
        tell(state, step, step / 10, 3 * step)
    # The first begins with the keyframe: what came before it in that second is unknown.
    same(last(state, "decode_tokens", 5, 4.0), [NAN, NAN, 30, 30, 30])
    same(last(state, "kv_used", 2, 4.0), [11 / 64, 11 / 64])
    same(last(state, "oldest_wait", 1, 4.0), [12.4 + 3.9])


def test_an_iteration_of_many_seconds_is_spread_over_them() -> None:
    state = watched()
    tell(state, 1, 1.0, 0)
    tell(state, 2, 5.0, 400)
    same(last(state, "decode_tokens", 4, 5.0), [100, 100, 100, 100])


def test_what_comes_after_idleness_came_at_its_end() -> None:
    state = watched()
    tell(state, 1, 1.0, 10, status=Status(state="idle"))
    same(last(state, "decode_tokens", 3, 5.0), [0, 0, 0])
    tell(state, 2, 60.5, 50, status=Status(state="running"))
    tell(state, 3, 61.0, 50)
    same(last(state, "decode_tokens", 4, 61.0), [0, 0, 0, 40])


def test_an_idle_engine_that_one_comes_to_has_done_nothing_since_and_what_it_does_not_expose_stays_unknown() -> None:
    state = watched(status=Status(state="idle"))
    # The second in which this viewer came was not seen whole.
    same(last(state, "decode_tokens", 4, 4.0), [NAN, NAN, 0, 0])
    same(last(state, "finished", 2, 4.0), [NAN, NAN])
    same(last(state, "tier_bytes", 2, 4.0), [NAN, NAN])


def test_silence_of_an_engine_that_runs_is_unknown_until_it_speaks_again() -> None:
    state = watched()
    tell(state, 1, 1.0, 10)
    same(last(state, "decode_tokens", 3, 9.0), [NAN, NAN, NAN])
    tell(state, 2, 9.0, 90)
    same(last(state, "decode_tokens", 3, 9.0), [10, 10, 10])


def test_frames_that_were_missed_leave_a_gap() -> None:
    state = watched()
    tell(state, 1, 1.0, 10)
    state.apply(Gap(first=12, last=90), NOW + 30)
    state.apply(
        keyframe(seq=90, mono=MONO + 30, counters=Counters(decode_tokens=1000), gauges=Gauges(kv_usage=0.5)), NOW + 30
    )
    tell(state, 81, 31.0, 1010)
    tell(state, 82, 32.0, 1030)
    same(last(state, "decode_tokens", 4, 32.0), [NAN, NAN, NAN, 20])
    assert last(state, "waiting", 4, 32.0)[2:] == [2, 2]


def test_a_gap_shorter_than_it_shows_is_joined() -> None:
    state = watched()
    tell(state, 1, 1.0, 10)
    state.apply(Gap(first=12, last=20), NOW + 2.5)
    state.apply(keyframe(seq=20, mono=MONO + 2.5, counters=Counters(decode_tokens=40)), NOW + 2.5)
    tell(state, 11, 3.0, 50)
    same(last(state, "decode_tokens", 2, 3.0), [20, 20])


def test_a_clock_that_jumps_neither_tears_nor_lengthens_the_line() -> None:
    state = watched()
    for step in range(1, 6):
        tell(state, step, step, 10 * step)
    # The monotonic clock leaps by a day; the time of day and ours do not.
    for step in range(6, 10):
        frame = iteration(10 + step, MONO + step + 86_400, counters=Counters(decode_tokens=10 * step))
        state.apply(frame.model_copy(update={"wall": frame.wall - 86_400}), NOW + step)
    assert state.jump is not None
    end = state.trend_end(NOW + 9)
    (values,) = state.trends(["decode_tokens"], end - 6, end)
    same(values.tolist(), [10.0] * 6)


def test_a_restart_begins_a_new_history_and_a_total_that_falls_is_no_negative_rate() -> None:
    state = watched()
    for step in range(1, 6):
        tell(state, step, step, 100 * step)
    tell(state, 6, 6.0, 3)
    tell(state, 7, 7.0, 13)
    tell(state, 8, 8.0, 23)
    same(last(state, "decode_tokens", 4, 8.0), [100, NAN, NAN, 10])
    engine = hello().engine.model_copy(update={"run": "r2"})
    state.apply(hello(engine=engine), NOW + 9)
    assert state.trend_end(NOW + 9) is None


def test_held_still_it_stands_still() -> None:
    state = watched()
    for step in range(1, 6):
        tell(state, step, step, 10 * step)
    still = frozen(state, NOW + 5)
    tell(state, 6, 6.0, 600)
    same(last(still, "decode_tokens", 2, 60.0), [10, 10])
    same(last(state, "decode_tokens", 1, 6.0), [550])


def test_time_of_an_iteration_and_the_queue_are_kept_too() -> None:
    state = watched()
    for step in range(1, 5):
        tell(state, step, step, 0, durations=Durations(forward=30.0, schedule=1.0), queue=Queue(order=[], total=step))
    same(last(state, "forward", 2, 4.0), [30, 30])
    same(last(state, "waiting", 3, 4.0), [1, 2, 3])
    same(last(state, "tier_bytes", 2, 4.0), [NAN, NAN])


@given(
    st.lists(
        st.tuples(st.floats(0.001, 4000.0), st.integers(0, 1000), st.sampled_from(["", "idle", "gap"])), max_size=30
    )
)
def test_whatever_comes_all_is_counted_once_and_nothing_grows(frames: list[tuple[float, int, str]]) -> None:
    state = watched()
    at, total, seq, gap = 0.0, 0, 0, False
    for passed, more, what in frames:
        at, total, seq = at + passed, total + more, seq + 1
        if what == "gap":
            gap = True
            state.apply(Gap(first=0, last=0), NOW + at)
            state.apply(
                keyframe(seq=10 + seq, mono=MONO + at, wall=1e9 + at, counters=Counters(decode_tokens=total)), NOW + at
            )
        else:
            status = Status(state=what or "running")
            tell(state, seq, at, total, status=status)
    end = state.trend_end(NOW + at)
    assert end is not None
    (values,) = state.trends(["decode_tokens"], end - KEPT - 100, end)
    known = values[np.isfinite(values)]
    assert (known >= 0).all()
    assert known.sum() <= total * 1.001
    if not gap and at < KEPT and state.jump is None:
        tell(state, seq + 1, at + 1.0, total, status=Status(state="running"))
        (values,) = state.trends(["decode_tokens"], int(MONO), int(MONO + at + 1.0))
        first = values[0]
        assert np.isnan(first)
        assert np.isfinite(values[1:]).all()
    assert state.history._ring.nbytes == len(COLUMNS) * KEPT * 4


@pytest.mark.filterwarnings("error")
def test_what_no_duration_can_be_is_unknown_and_warns_nobody() -> None:
    state = watched()
    for step in range(1, 31):
        tell(state, step, step / 10, step, durations=Durations(forward=1e300 if step == 15 else 2.0))
    same(last(state, "forward", 2, 3.0), [18.0, 20.0])
    assert state.bad_facts == 1
    assert state.bad_note == "forward took 1e+300 ms"


def test_a_name_that_is_none_is_an_error() -> None:
    with pytest.raises(KeyError):
        watched().trends(["kv_useed"], 0, 1)
