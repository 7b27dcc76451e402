"""A clock of the engine that is set, or that stood still with its host, is told, and makes no wait of hours."""

import pytest

from kvtop.protocol import Counters, IterationFrame, Keyframe, RequestChange, Status
from kvtop.state import EngineState, Marker
from kvtop.views.header import header_rows
from tests.state.model import ToyEngine

HOURS = 3 * 3600.0
WALL = 1.79e9


def keyframe(seq: int = 5, mono: float = 50_000.0, wall: float = WALL, since: float = 49_996.0) -> Keyframe:
    waits = RequestChange(num=1, id="a", state="waiting", phase_since=since)
    return Keyframe(
        seq=seq, iteration=seq, wall=wall, mono=mono, status=Status(state="running", warning="x", warning_since=since),
        requests=[waits], counters=Counters(decode_tokens=10 * seq), blocks=[(0, 8, 1, -1, 0, 16, 0, 0)],
        ages=[(0, 8, mono - since)],
    )  # fmt: skip


def frame(seq: int, mono: float, wall: float) -> IterationFrame:
    return IterationFrame(seq=seq, iteration=seq, wall=wall, mono=mono, counters=Counters(decode_tokens=10 * seq))


def watched(mono: float = 0.0, wall: float = 0.0) -> EngineState:
    """A viewer of an engine whose clocks jump so far between two of its frames, a second apart."""
    state = EngineState()
    state.apply(ToyEngine(8, 1).hello(), 99.0)
    state.apply(keyframe(), 100.0)
    for n in (1, 2):
        state.apply(frame(5 + n, 50_000.0 + n, WALL + n), 100.0 + n)
    state.apply(frame(8, 50_003.0 + mono, WALL + 3 + wall), 103.0)
    return state


def marks(state: EngineState) -> list[str]:
    return [entry.text for entry in state.events if isinstance(entry, Marker)]


@pytest.mark.parametrize("mono", [HOURS, -HOURS])
def test_waits_go_on_over_a_jump_of_the_clock_that_dates_them(mono: float) -> None:
    """A wait of four seconds was shown as one of three hours; or, the other way, as none for three hours."""
    state = watched(mono=mono)
    sign = "+" if mono > 0 else "-"
    assert marks(state) == [
        f"the engine's monotonic clock jumped {sign}3.0 h: rates and latencies begin anew, waits go on as they were"
    ]
    row = state.request(1)
    assert row is not None
    assert state.blocks is not None
    for now in (103.0, 110.0):
        at = state.mono_now(now)
        assert at is not None
        assert row.queue_time(at) == pytest.approx(now - 96.0)
        assert at - state.blocks.touched[0] == pytest.approx(now - 96.0)
    assert state.requests is not None
    assert state.requests.longest_wait(state.mono_now(103.0) or 0.0) == pytest.approx(7.0)
    assert "STUCK for 7.0s" in header_rows(state, 103.0, 100)[3].text


@pytest.mark.parametrize("mono", [HOURS, -HOURS])
def test_rates_begin_anew_with_the_clock(mono: float) -> None:
    """Ten tokens a second were shown as none for the minute after."""
    state = watched(mono=mono)
    assert state.rates.per_second("decode_tokens", state.mono_now(103.0)) is None
    for n in range(1, 5):
        state.apply(frame(8 + n, 50_003.0 + mono + n, WALL + 3 + n), 103.0 + n)
    assert state.rates.per_second("decode_tokens", state.mono_now(107.0)) == pytest.approx(10.0)
    assert len(marks(state)) == 1


def test_dates_from_before_the_jump_that_an_engine_repeats_move_too() -> None:
    state = watched(mono=HOURS)
    state.apply(keyframe(9, 50_004.0 + HOURS, WALL + 4), 104.0)
    row, at = state.request(1), state.mono_now(104.0)
    assert row is not None
    assert at is not None
    assert row.queue_time(at) == pytest.approx(8.0)
    assert state.blocks is not None
    assert at - state.blocks.touched[0] == pytest.approx(8.0)
    state.apply(keyframe(10, 50_005.0 + HOURS, WALL + 5, since=50_004.5 + HOURS), 105.0)
    row, at = state.request(1), state.mono_now(105.0)
    assert row is not None
    assert row.queue_time(at) == pytest.approx(0.5)


@pytest.mark.parametrize(("wall", "shown"), [(HOURS, "+3.0 h"), (-HOURS, "-3.0 h"), (-400 * 86400.0, "-400.0 days")])
def test_a_time_of_day_that_is_set_is_told_and_changes_no_wait(wall: float, shown: str) -> None:
    state = watched(wall=wall)
    assert marks(state) == [
        f"the engine's clock jumped {shown}: it was set, or its host slept; waits and rates go by another clock"
    ]
    assert state.rates.per_second("decode_tokens", state.mono_now(103.0)) == pytest.approx(10.0)
    row = state.request(1)
    assert row is not None
    assert row.queue_time(state.mono_now(103.0)) == pytest.approx(7.0)
    assert f"CLOCK JUMPED {shown}" in header_rows(state, 104.0, 80)[1].text
    assert "CLOCK" not in header_rows(state, 200.0, 80)[1].text


def test_both_falling_together_are_told_too() -> None:
    assert "jumped -3.0 h" in marks(watched(mono=-HOURS, wall=-HOURS))[0]


@pytest.mark.parametrize(("passed", "now"), [(HOURS, HOURS), (HOURS, 0.01), (0.01, HOURS), (1.5, 0.0)])
def test_a_silent_engine_or_a_viewer_that_was_stopped_is_no_jump(passed: float, now: float) -> None:
    state = watched()
    state.apply(frame(9, 50_003.0 + passed, WALL + 3 + 1.0003 * passed), 103.0 + now)
    assert marks(state) == []
