"""Blocks or compute: one line that says what holds the engine back, and never guesses."""

from typing import Any

import pytest

from kvtop.protocol import Batch, Durations, Gauges, Queue, Status, Verdict
from kvtop.state import EngineState
from kvtop.views.limit import limit, work_rows
from tests.views.scene import LATER, MONO, check_rows, gauges_only, iteration, scene


def said(width: str = "long", **facts: Any) -> str:
    found = limit(told(**facts))
    assert found is not None
    return found.forms()[0 if width == "long" else -1]


def told(**facts: Any) -> EngineState:
    state = scene()
    batch = Batch(prefill_tokens=480, decode_tokens=32, prefill_requests=1, decode_requests=4, token_budget=512)
    frame = {
        "batch": batch,
        "durations": Durations(schedule=1, prepare=1, forward=96, sample=2),
        "verdict": None,
        "queue": Queue(order=[], total=0),
        **facts,
    }
    state.durations.clear()
    state.apply(iteration(15, MONO + 5, **frame), LATER)
    return state


@pytest.mark.parametrize(
    ("verdict", "long", "short"),
    [
        (
            Verdict(request=4, code="needs_blocks", need_blocks=12, available_blocks=3, watermark_blocks=2),
            "limit: KV blocks (head needs 12, 3 available, watermark 2)",
            "limit: KV blocks",
        ),
        (Verdict(request=4, code="after_preemption"), "limit: KV blocks (just preempted)", "limit: KV blocks"),
        (
            Verdict(request=4, code="token_budget", limit=512),
            "limit: compute (batch 512/512 tokens, 96% forward)",
            "limit: compute",
        ),
        (Verdict(request=4, code="max_running", limit=16), "limit: max running (16 run)", "limit: max running"),
        (Verdict(request=4, code="shard_moving"), "limit: shard moving", "limit: shard moving"),
    ],
)
def test_a_verdict_says_it(verdict: Verdict, long: str, short: str) -> None:
    assert said(verdict=verdict) == long
    assert said("short", verdict=verdict) == short


def test_where_nothing_waits_it_is_what_time_goes_to() -> None:
    assert said() == "limit: compute (nothing waits, batch 512/512 tokens, 96% forward)"
    slow = Durations(forward=10, transfer_wait=90)
    assert said("short", durations=slow) == "limit: transfers between tiers"
    assert said("short", durations=Durations(schedule=90, forward=10)) == "limit: scheduling"


def test_tokens_are_those_of_one_iteration() -> None:
    state = scene()
    assert state.iteration is not None
    batch = Batch(prefill_tokens=100, decode_tokens=20, prefill_requests=1, decode_requests=4)
    changes = {"batch": batch, "durations": Durations(forward=10), "verdict": None, "queue": Queue(order=[], total=0)}
    state.apply(iteration(15, MONO + 5, **{"iteration": state.iteration + 3, **changes}), LATER)
    found = limit(state)
    assert found is not None
    assert "batch 40 tokens" in found.why


def test_one_row_tells_what_an_iteration_holds_and_where_its_time_goes() -> None:
    state = told(durations=Durations(schedule=1, prepare=2, forward=90, sample=4, transfer_wait=3))
    wide = check_rows(work_rows(state, 120), 120, 1)
    assert wide.startswith("batch 512/512 tokens · forward 90ms · prepare 2.0ms · sample 4.0ms · transfer wait 3.0ms")
    assert check_rows(work_rows(state, 40), 40, 1).rstrip() == "batch 512/512 tokens · forward 90ms"
    assert work_rows(gauges_only(), 80) == []


def test_an_idle_or_paused_engine_is_held_back_by_nothing_else() -> None:
    assert said(gauges=Gauges(running=0, waiting=0)) == "limit: none, idle"
    assert said(status=Status(state="paused")) == "limit: paused"


def test_what_is_not_exposed_is_not_guessed() -> None:
    found = limit(gauges_only())
    assert found is not None
    assert found.word == "not exposed"
    assert limit(EngineState()) is None
