"""A lying engine is told apart, counted, and can neither crash a viewer nor fill its memory."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import (
    BLOCK_STATES,
    Event,
    Gauges,
    IterationFrame,
    Keyframe,
    PoolFacts,
    Queue,
    RequestChange,
    Status,
)
from kvtop.state import MAX_BLOCKS, EngineState
from kvtop.state.engine_state import MAX_EVENTS, MAX_QUEUE
from kvtop.state.ledger import check
from kvtop.state.request_row import MAX_TEXT
from tests.state.model import ToyEngine


@pytest.fixture
def state() -> EngineState:
    return fresh()


def fresh() -> EngineState:
    state = EngineState()
    toy = ToyEngine(8, 1)
    state.apply(toy.hello(), 0.0)
    state.apply(toy.keyframe(), 0.0)
    return state


def frame(**facts: Any) -> IterationFrame:
    return IterationFrame.model_validate({"seq": 1, "iteration": 1, "wall": 0.0, "mono": 60.0} | facts)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        ((8, 1, 2, 0, 1, 1, 0, 0), "1 block runs outside the pool of 8 blocks"),
        ((-1, 1, 2, 0, 1, 1, 0, 0), "outside the pool"),
        ((4, 5, 2, 0, 1, 1, 0, 0), "outside the pool"),
        ((4, 2**62, 2, 0, 1, 1, 0, 0), "outside the pool"),
        ((0, 0, 2, 0, 1, 1, 0, 0), "outside the pool"),
        ((0, 1, len(BLOCK_STATES), 0, 1, 1, 0, 0), "out of range"),
        ((0, 1, -1, 0, 1, 1, 0, 0), "out of range"),
        ((0, 1, 2, -2, 1, 1, 0, 0), "out of range"),
        ((0, 1, 2, 0, -1, 1, 0, 0), "out of range"),
        ((0, 1, 2, 0, 1, -1, 0, 0), "out of range"),
        ((0, 1, 2, 0, 1, 1, 256, 0), "out of range"),
        ((0, 10**30, 2, 0, 1, 1, 0, 0), "beyond 32 bits"),
    ],
)
def test_a_run_that_cannot_be_true_is_left_out(state: EngineState, run: tuple[int, ...], says: str) -> None:
    changes = state.apply(frame(blocks=[run, (7, 1, 2, 0, 1, 1, 0, 0)]), 0.0)
    assert changes.blocks.tolist() == [7]
    assert state.bad_facts == 1
    assert says in (state.bad_note or "")
    counts = state.counts()
    assert counts is not None
    assert (counts["free"], counts["active"]) == (7, 1)


def test_runs_that_cover_the_pool_over_and_over_cost_no_more_than_some_of_it(state: EngineState) -> None:
    blocks = state.blocks
    assert blocks is not None
    written = []
    real = blocks._write
    blocks._write = lambda table, mono: (written.append(int(table[:, 1].sum())), real(table, mono))[1]  # type: ignore[method-assign]
    state.apply(frame(blocks=[(0, 8, 2, 0, 1, 1, 0, 0)] * 300_000), 0.0)
    assert sum(written) < 3_000_000
    assert "cover the pool more than" in (state.bad_note or "")


def test_the_last_of_several_runs_over_a_block_counts(state: EngineState) -> None:
    state.apply(frame(blocks=[(0, 8, 2, 0, 1, 1, 0, 0), (3, 2, 1, -1, 0, 9, 0, 0), (4, 1, 3, 1, 2, 5, 0, 0)]), 0.0)
    assert state.blocks is not None
    assert state.blocks.state.tolist() == [2, 2, 2, 1, 3, 2, 2, 2]
    assert state.blocks.fill.tolist() == [1, 1, 1, 9, 5, 1, 1, 1]


def test_a_pool_too_large_for_memory_is_cut(state: EngineState) -> None:
    hello = ToyEngine(8, 1).hello()
    geometry = hello.geometry.model_copy(update={"pools": [PoolFacts(tier="device", blocks=10**15)]})
    state = EngineState()
    state.apply(hello.model_copy(update={"geometry": geometry}), 0.0)
    assert state._pool_size(ToyEngine(8, 1).keyframe()) == MAX_BLOCKS
    assert "this viewer keeps" in (state.bad_note or "")


@pytest.mark.parametrize(
    "change",
    [
        {"table_at": 3, "table": [1]},
        {"table_at": 0, "table": [8]},
        {"table_at": 0, "table": [-2]},
        {"table_at": 0, "table": [10**40]},
        {"table_at": 0, "table": [1, 2, 3, 4, 5, 6, 7, 0, 1]},
        {"prompt_tokens": 10**40},
    ],
)
def test_a_request_that_cannot_be_true_keeps_what_is_known(state: EngineState, change: dict[str, Any]) -> None:
    state.apply(frame(requests=[RequestChange(num=1, id="A", table_at=0, table=[5])]), 0.0)
    state.apply(frame(seq=2, requests=[RequestChange.model_validate({"num": 1, "output_tokens": 4} | change)]), 0.0)
    assert state.requests is not None
    row = state.requests[1]
    assert (row.table, row.prompt_tokens, row.output_tokens) == ([5], None, 4)
    assert state.bad_facts == 1
    assert "request 1" in (state.bad_note or "")


def test_levels_that_cannot_be_true_are_unknown_rather_than_wrong(state: EngineState) -> None:
    state.apply(frame(gauges=Gauges(running=-3, waiting=10**300, kv_blocks_free=8)), 0.0)
    assert state.gauges.get("running") is None
    assert state.gauges.get("waiting") is None
    assert state.gauges["kv_blocks_free"] == 8
    assert state.bad_facts == 2


def test_hashes_and_ages_that_cannot_be_true_are_left_out() -> None:
    state = EngineState()
    toy = ToyEngine(8, 1)
    state.apply(toy.hello(), 0.0)
    hashes = [(1, "00000000000000ff"), (99, "ff"), (2, "no hash"), (3, "f" * 17), (-1, None), (4, "+f")]
    facts = {"hashes": hashes, "ages": [(0, 4, 1.5), (4, 9, 1.0), (5, 1, -1.0), (-2, 3, 1.0)]}
    state.apply(toy.keyframe().model_copy(update=facts), 0.0)
    assert state.blocks is not None
    assert [state.blocks.hash_of(b) for b in range(5)] == [None, "00000000000000ff", None, None, None]
    assert state.blocks.touched[:4].tolist() == [48.5] * 4
    assert all(state.blocks.touched[4:] != state.blocks.touched[4:])
    assert state.bad_facts == 2


def test_everything_that_grows_is_bounded(state: EngineState) -> None:
    events = [Event(id=i, kind="notice", iteration=0, wall=0.0) for i in range(MAX_EVENTS + 500)]
    text = RequestChange(num=1, output_text="x" * (2 * MAX_TEXT), state="s" * 1000)
    state.apply(frame(events=events, queue=Queue(order=list(range(2 * MAX_QUEUE)), total=7), requests=[text]), 0.0)
    assert len(state.events) == MAX_EVENTS
    assert state.queue is not None
    assert len(state.queue.order) == MAX_QUEUE
    assert state.requests is not None
    assert len(state.requests[1].output_text or "") == MAX_TEXT
    assert len(state.requests[1].state or "") == 32


def test_states_of_the_same_name_count_together() -> None:
    state = EngineState()
    toy = ToyEngine(8, 1)
    state.apply(toy.hello().model_copy(update={"block_states": ["free", "busy", "busy"]}), 0.0)
    blocks = [(0, 5, 0, -1, 0, 0, 0, 0), (5, 1, 1, 0, 1, 0, 0, 0), (6, 2, 2, 0, 1, 0, 0, 0)]
    state.apply(toy.keyframe().model_copy(update={"blocks": blocks}), 0.0)
    assert state.counts() == {"free": 5, "busy": 3}


whole = st.one_of(st.integers(-3, 12), st.integers())
finite = st.floats(allow_nan=False, allow_infinity=False)
change = st.builds(
    RequestChange,
    num=st.integers(0, 5),
    state=st.one_of(st.none(), st.sampled_from(["waiting", "decode", "finished"]), st.text()),
    table_at=st.one_of(st.none(), st.integers(0, 10)),
    table=st.one_of(st.none(), st.lists(whole, max_size=4)),
    phase_since=st.one_of(st.none(), finite),
    ttft_s=st.one_of(st.none(), st.floats(0, allow_infinity=False)),
)
facts = st.fixed_dictionaries(
    {
        "mono": finite,
        "blocks": st.lists(st.tuples(*[whole] * 8), max_size=6),
        "hashes": st.lists(st.tuples(whole, st.one_of(st.none(), st.text(max_size=20))), max_size=3),
        "requests": st.lists(change, max_size=4),
        "gauges": st.builds(Gauges, running=whole, kv_blocks_total=whole, kv_blocks_free=whole),
    }
)


@settings(max_examples=60, deadline=None)
@given(frames=st.lists(st.tuples(st.booleans(), facts), max_size=6))
def test_no_facts_whatever_make_it_raise_or_lose_count(frames: list[tuple[bool, dict[str, Any]]]) -> None:
    state = fresh()
    for seq, (is_key, fact) in enumerate(frames, 1):
        if is_key:
            state.apply(Keyframe(seq=seq, iteration=seq, wall=0.0, status=Status(state="x"), **fact), 0.0)
        else:
            state.apply(IterationFrame(seq=seq, iteration=seq, wall=0.0, **fact), 0.0)
        counts = state.counts()
        assert counts is not None
        assert state.blocks is not None
        assert sum(counts.values()) == state.blocks.total == 8
        assert all((state.blocks.state == code).sum() == count for code, count in enumerate(counts.values()))
        check(state)
