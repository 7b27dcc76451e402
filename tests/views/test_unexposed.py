"""What an engine does not expose is shown as not known: no count of none, no iteration 0, no part that took no time."""

import pytest

from kvtop.protocol import Counters, Durations, Event, Gauges
from kvtop.snapshot.document import snapshot_document
from kvtop.state import EngineState
from kvtop.views.capacity import capacity_rows
from kvtop.views.events import event_rows
from kvtop.views.header import header_rows
from tests.views.scene import LATER, MONO, WALL, check_rows, gauges_only, iteration, scene


def fed(state: EngineState, frames: int) -> EngineState:
    """The engine of `gauges_only` after frames of news, which all have iteration 0."""
    for number in range(frames):
        told = {"iteration": 0, "gauges": Gauges(kv_usage=0.5)}
        state.apply(iteration(2 + number, MONO + 1 + number, **told), LATER + number)
    return state


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_number_of_requests_and_no_iteration_where_the_engine_exposes_neither(width: int) -> None:
    text = check_rows(header_rows(fed(gauges_only(), 3), LATER + 3, width), width)
    assert "n=0" not in text
    assert "iteration" not in text
    assert "it/s" not in text
    assert "it 0" not in text
    assert "forward" not in text


def test_none_of_them_where_it_does_is_said() -> None:
    quiet = scene(requests=[])
    assert "ttft – (60s n=0)" in check_rows(header_rows(quiet, LATER, 200), 200)


def test_events_without_an_iteration_name_none() -> None:
    state = gauges_only()
    state.apply(iteration(2, MONO + 1, iteration=0, events=[Event(id=0, kind="notice", iteration=0, wall=WALL)]), LATER)
    assert "i0" not in check_rows(event_rows(state, 120, 3), 120)


def test_the_snapshot_has_null_for_them() -> None:
    document = snapshot_document(fed(gauges_only(), 3), WALL, LATER + 3)
    assert document["iteration"] is None
    assert document["iteration_ms"] is None
    assert [document["latencies"][name]["n"] for name in ("ttft", "tpot")] == [None, None]


def test_news_from_between_two_iterations_does_not_dilute_what_an_iteration_takes() -> None:
    state = scene()
    before = state.iteration or 0
    for number, done in enumerate((1, 0, 0, 0, 1)):
        before += done
        durations = Durations(schedule=2.0 * done, forward=10.0 * done, publish=1.0)
        counters = Counters(iterations=before)
        frame = iteration(15 + number, MONO + 5 + number, iteration=before, durations=durations, counters=counters)
        state.apply(frame, LATER)
    found = snapshot_document(state, WALL, LATER)["iteration_ms"]
    assert found["iterations"] == 4 + 2
    assert found["forward_ms"] == pytest.approx(20.0 / 6)


def test_used_is_what_block_tables_name_everywhere_and_what_else_nobody_can_have_is_beside_it() -> None:
    """The wire, the snapshot, `kvtop ls` and the screen: one number of one name."""
    runs = [
        (0, 30, 2, 1, 1, 16, 0, 0),
        (30, 20, 6, -1, 0, 16, 0, 0),
        (50, 8, 5, -1, 0, 0, 0, 0),
        (58, 6, 0, -1, 0, 0, 0, 0),
    ]
    gauges = Gauges(
        kv_blocks_total=64, kv_blocks_free=6, kv_blocks_cached=0, kv_blocks_active=30, kv_blocks_shared=0,
        kv_blocks_pinned=20, kv_blocks_transfer=8, kv_bytes_used=30 * 16 * 23040,
    )  # fmt: skip
    for state in (scene(blocks=runs, requests=[], gauges=gauges), scene(blocks=None, requests=None, gauges=gauges)):
        text = check_rows(capacity_rows(state, 120), 120)
        assert "KV used 30/64 47%" in text
        assert "pinned 20" in text
        assert "transfer 8" in text
        document = snapshot_document(state, WALL, LATER)
        assert document["kv_bytes_used"] / document["kv_capacity_bytes"] == pytest.approx(30 / 64)
