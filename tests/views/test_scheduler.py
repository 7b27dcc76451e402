"""The scheduler's panel: batches against the budget, time, refusals and who is preempted again and again."""

import pytest

from kvtop.protocol import Batch, Counters, Durations, Event, Gauges, Status, Verdict
from kvtop.state import EngineState
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.plot import stacked_rows
from kvtop.views.refused import refusals
from kvtop.views.scheduler import loops, scheduler_rows, scheduler_title
from tests.views.scene import MONO, NOW, WALL, check_rows, gauges_only, iteration, scene

BLOCKED = Verdict(request=4, code="needs_blocks", rule="capacity=guaranteed_no_evict")
FULL = Verdict(request=5, code="max_running", rule="max_running=16")


def ran(seconds: int = 60) -> EngineState:
    """A minute of two iterations a second: the head is refused for blocks, at last because as many run as may."""
    state = scene(verdict=None)
    for step in range(10, 10 + 2 * seconds):
        at = (step - 10) / 2 + 5
        events = []
        if step % 20 == 0:
            events = [
                Event(id=step, kind="preempt", iteration=step, wall=WALL + at, request=5, request_id="A-0005", by=3),
                Event(id=step + 1, kind="preempt", iteration=step, wall=WALL + at, request=step + 100),
            ]
        state.apply(
            iteration(
                15 + step - 10,
                MONO + at,
                iteration=12_340 + step,
                batch=Batch(prefill_tokens=64, decode_tokens=32, token_budget=128),
                durations=Durations(forward=90.0, schedule=5.0, sample=5.0),
                verdict=BLOCKED if at < 55 else FULL,
                counters=Counters(admissions=step, finished=step, preemptions=3),
                events=events,
            ),
            NOW + at,
        )
    return state


@pytest.mark.parametrize("size", [(60, 9), (80, 22), (120, 37), (200, 48), (80, 1), (80, 2)])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_it_fits_every_size(size: tuple[int, int], glyphs: object) -> None:
    for state in (ran(5), gauges_only(), EngineState(), scene(batch=None)):
        text = check_rows(scheduler_rows(state, *size, NOW + 20, glyphs), *size)  # type: ignore[arg-type]
        assert glyphs is UNICODE or text.isascii()


def test_batches_stand_against_their_budget() -> None:
    state = ran()
    rows = check_rows(scheduler_rows(state, 80, 22, NOW + 64.5), 80, 22).split("\n")
    assert "mean 96 tokens, 75% of the budget" in rows[0]
    assert rows[1].startswith("128 ")
    column = [row[-1] for row in rows[1:16]]
    assert column.count("█") == 4, "a quarter of 15 rows decode"
    assert column.count("▓") == 7, "twice as many prefill"
    assert scheduler_title(state) == "scheduler: batch 96 of 128 tokens, prefill 64 decode 32"


def test_merged_iterations_are_a_mean() -> None:
    state = ran(5)
    batch = Batch(prefill_tokens=40, decode_tokens=80, token_budget=128)
    state.apply(iteration(35, MONO + 20, merged=11, iteration=12_371, batch=batch), NOW + 20)
    assert scheduler_title(state) == "scheduler: batch 10 of 128 tokens, prefill 3 decode 7"


def test_time_refusals_and_flow_of_the_last_minute() -> None:
    state = ran()
    text = check_rows(scheduler_rows(state, 120, 22, NOW + 64.5), 120)
    assert "time     forward 90% 90ms · schedule 5% 5.0ms · sample 5% 5.0ms" in text
    found = {one.code: one for one in refusals(state, NOW + 64.5)}
    assert found["needs_blocks"].seconds == pytest.approx(50, abs=1)
    assert found["max_running"].seconds == pytest.approx(10, abs=1)
    assert found["needs_blocks"].heads == 1
    assert (
        "refused  needs blocks 50.5s, 1 request (capacity=guaranteed_no_evict) · max running 10.0s, 1 request" in text
    )
    assert "admitted 120/min" in text
    assert "oldest 1m17 so far" in text, "what waits now, until now"
    # A minute later nobody has been refused in the minute that is meant.
    quiet = scheduler_rows(state, 120, 22, NOW + 64.5 + 61)
    assert "nobody in the last 60 s" in check_rows(quiet, 120)


def test_a_paused_engine_refuses_as_long_as_it_is_silent() -> None:
    state = ran(5)
    paused = Verdict(request=4, code="paused")
    state.apply(iteration(25, MONO + 10, status=Status(state="paused"), verdict=paused), NOW + 10)
    (one, *_) = refusals(state, NOW + 50)
    assert (one.code, round(one.seconds)) == ("paused", 40)


def test_who_is_preempted_again_and_again_is_named() -> None:
    state = ran()
    assert [(loop.name, loop.times) for loop in loops(state, NOW + 64.5)] == [("A-0005", 6)]
    assert "A-0005 6x" in check_rows(scheduler_rows(state, 80, 22, NOW + 64.5), 80)
    assert loops(state, NOW + 200) == []


def test_what_is_not_exposed_is_said_and_no_zero() -> None:
    text = check_rows(scheduler_rows(gauges_only(), 100, 22, NOW + 1), 100, 22)
    assert "batches: not exposed by vllm" in text
    assert "times: not exposed by vllm" in text
    assert "blocks: not exposed by vllm" in text
    assert "events: not exposed by vllm" in text
    assert "admitted –/min" in text


def test_promised_beyond_the_pool_stands_out() -> None:
    gauges = Gauges(kv_blocks_total=64, kv_blocks_active=60, kv_blocks_shared=0, kv_blocks_reserved=16)
    text = check_rows(scheduler_rows(scene(gauges=gauges), 100, 22, NOW + 4), 100)
    assert "used 60 of 64 blocks · reserved 16 more · together 119% of the pool" in text


def test_hostile_names_stay_cells_and_kinds_are_bounded() -> None:
    state = scene()
    for step in range(2000):
        verdict = Verdict(request=step, code=f"\x1b[31mno{step}"[:64], rule="\u202e" * 100)
        state.apply(iteration(15 + step, MONO + 5 + step / 100, verdict=verdict), NOW + 5 + step / 100)
    check_rows(scheduler_rows(state, 80, 22, NOW + 25), 80, 22)
    assert len(refusals(state, NOW + 25)) <= 16 * 61


def test_a_column_above_the_top_is_cut_and_nothing_is_a_step() -> None:
    rows = stacked_rows(
        [None, (0.0, 0.0), (50.0, 100.0)], 100.0, 8, 4, glyphs=("#", "+"), roles=(1, 2), eighths="._-=#", axis=["9 "]
    )
    assert [row.text for row in rows] == ["9      +", "       +", "       #", "      .#"]
