"""The header names the engine, says whether one sees it live, and how fast it is, at any width."""

from typing import Any

import pytest

from kvtop.protocol import Bye, Counters, Durations, EngineIdentity, Gap, Gauges, ModelFacts, Status
from kvtop.state import EngineState
from kvtop.views.glyphs import ASCII
from kvtop.views.header import header_rows
from kvtop.views.rows import Role
from tests.views.scene import LATER, MONO, check_rows, gauges_only, hello, iteration, scene


def test_golden_at_80() -> None:
    assert check_rows(header_rows(scene(), LATER, 80), 80, 3).split("\n") == [
        "demo kvtop 0.1.0 · SmolLM2-135M-Instruct · cpu · torch · weights float32    live",
        "max_utilization · fcfs · victim latest · prefix on · running≤16        10.0 it/s",
        "prefill 50.0 decode 20.0 tok/s  hit 30%  ttft 400ms/950ms n=3  tpot 30ms/30ms   ",
    ]


def test_golden_at_200() -> None:
    text = check_rows(header_rows(scene(), LATER, 200), 200, 3)
    for part in (
        "torch attention",
        "KV float32",
        "capacity max_utilization · order fcfs · victim latest · prefix cache on · max running 16 · token budget 256",
        "iteration 12349 10.0/s",
        "prefill 50.0 decode 20.0 tok/s (4s)",
        "hit 30% (4s) 25% (ever)",
        "ttft p50 400ms p95 950ms (60s n=3)",
        "tpot p50 30ms p95 30ms (60s n=1)",
        "preempt 0/min (4s)",
    ):
        assert part in text


def test_a_rate_says_over_how_long_it_is_taken() -> None:
    state = scene()
    for step in range(5, 100):
        counters = Counters(prefill_tokens=10_000 + 50 * step, decode_tokens=5_000 + 20 * step, preemptions=3 + step)
        state.apply(iteration(10 + step, 5000.0 + step, counters=counters), LATER)
        text = check_rows(header_rows(state, LATER, 200), 200, 3)
        assert f"tok/s ({min(5, step)}s)" in text
        assert f"/min ({min(60, step)}s)" in text


def test_what_does_not_add_up_is_said_in_red_at_every_width() -> None:
    state = scene()
    assert "ADDING" not in check_rows(header_rows(state, LATER, 200), 200, 3)
    gauges = Gauges(kv_blocks_total=64, kv_blocks_free=47, kv_blocks_cached=5, kv_blocks_active=9, kv_blocks_shared=2)
    state.apply(iteration(15, MONO + 5, gauges=gauges), LATER)
    row = header_rows(state, LATER, 200)[1]
    assert row.text.startswith(
        "NOT ADDING UP: free + cached + active + shared (+ 0 in other states) = 63, but the pool has 64"
    )
    assert row.roles[0] == Role.BAD
    assert header_rows(state, LATER, 80)[1].text.startswith("NOT ADDING UP")


def test_a_wide_screen_shows_where_an_iteration_goes_to() -> None:
    state = scene()
    state.durations.clear()
    durations = Durations(schedule=1, prepare=2, forward=30, sample=4, transfer_wait=5, publish=6, ledger=7)
    state.apply(iteration(15, MONO + 5, durations=durations), LATER)
    text = header_rows(state, LATER, 300)[2].text
    assert (
        "forward 30ms prepare 2.0ms sample 4.0ms transfer wait 5.0ms schedule 1.0ms publish 6.0ms ledger 7.0ms" in text
    )
    assert "batch " in text


def test_random_weights_are_said_at_every_width() -> None:
    noisy = hello(model=ModelFacts(name="a-model-with-quite-a-long-name-indeed-x", random_weights=True))
    state = scene(noisy)
    for width in (60, 80, 200):
        assert "RANDOM" in header_rows(state, LATER, width)[0].text
    assert "RANDOM WEIGHTS" in header_rows(state, LATER, 80)[0].text


def test_a_notice_gets_its_own_line() -> None:
    rows = header_rows(scene(hello(notice="[bold]no network[/bold]: random weights")), LATER, 80)
    assert check_rows(rows, 80, 4).endswith("! [bold]no network[/bold]: random weights".ljust(80))


def right(state: EngineState, now: float = LATER, width: int = 120, **options: Any) -> str:
    return check_rows(header_rows(state, now, width, **options)[:1], width).rsplit("  ", 1)[-1]


def test_live_goes_stale_and_says_since_when() -> None:
    assert right(scene(), LATER + 1.9) == "live"
    assert right(scene(), LATER + 3.2) == "stale 3.2s"
    assert right(scene(), LATER + 200) == "stale 3m20"


def test_a_lost_connection_says_when_and_why() -> None:
    state = scene()
    state.link_down("connection reset by peer", True, LATER + 1)
    assert right(state, LATER + 13) == "DISCONNECTED 12.0s ago: connection reset by peer"
    assert right(state, LATER + 13, 80).startswith("DISCONNECTED 12.0s ago: connection reset")
    state = scene()
    state.apply(Bye(reason="engine stopped"), LATER)
    state.link_down("end of stream", True, LATER)
    assert right(state, LATER + 2) == "DISCONNECTED 2.0s ago: engine stopped"


def test_an_engine_never_seen_is_not_called_lost() -> None:
    state = EngineState()
    assert right(state, 0.0) == "connecting"
    state.link_down("no such socket", False, 1.0)
    assert right(state, 5.0) == "NOT CONNECTED: no such socket"
    state.link_up(6.0)
    assert right(state, 6.0) == "connected, waiting for the first frame"


@pytest.mark.parametrize(
    ("status", "shown"), [("paused", "PAUSED"), ("draining", "DRAINING: 3 to go"), ("idle", "live, idle")]
)
def test_what_the_engine_is_doing(status: str, shown: str) -> None:
    state = scene()
    detail = "3 to go" if status == "draining" else None
    state.apply(iteration(15, 5005.0, status=Status(state=status, detail=detail)), LATER)
    assert right(state) == shown


def test_the_viewers_own_pause_is_not_the_engines() -> None:
    assert right(scene(), held=2.0).startswith("VIEW PAUSED")


def test_frames_missed_are_being_made_up() -> None:
    state = scene()
    state.apply(Gap(first=15, last=20), LATER)
    assert right(state) == "catching up"


def test_impossible_facts_and_a_broken_ledger_are_loud() -> None:
    state = scene()
    state.apply(
        iteration(15, 5005.0, blocks=[(64, 1, 0, -1, 0, 0, 0, 0)], counters=Counters(ledger_violations=2)), LATER
    )
    text = header_rows(state, LATER, 120)[1].text
    assert text.startswith("LEDGER BROKEN 2 times")
    assert "1 impossible fact ignored" in text


def test_what_a_gauges_only_engine_does_not_tell_is_unknown_not_zero() -> None:
    text = check_rows(header_rows(gauges_only(), LATER, 120), 120)
    assert "policy: not exposed by vllm" in text
    assert "prefill – decode – tok/s" in text
    assert "hit –" in text


def test_no_character_beyond_ascii_where_there_is_nothing_else() -> None:
    engine = EngineIdentity(name="démo", kind="kvtop", version="1", run="r")
    for row in header_rows(scene(hello(engine=engine)), LATER, 100, ASCII):
        assert row.text.isascii()
