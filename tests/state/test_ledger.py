"""The viewer's own check of an engine's books finds each kind of planted fault."""

from typing import Any

import pytest

from kvtop.protocol import Gap, Gauges, IterationFrame
from kvtop.state import EngineState
from kvtop.state.ledger import check
from tests.state.model import ToyEngine


@pytest.fixture
def engine() -> ToyEngine:
    engine = ToyEngine(32, 7)
    for _ in range(60):
        engine.step()
    assert any(len(request.table) > 1 for request in engine.requests.values())
    return engine


def viewer(engine: ToyEngine) -> EngineState:
    state = EngineState()
    state.apply(engine.hello(), 0.0)
    state.apply(engine.keyframe(), 0.0)
    return state


def after(engine: ToyEngine, **facts: Any) -> list[str]:
    state = viewer(engine)
    frame = {"seq": engine.seq + 1, "iteration": 1, "wall": 0.0, "mono": engine.mono + 1} | facts
    state.apply(IterationFrame.model_validate(frame), 0.0)
    return check(state)


def test_true_books_are_in_order(engine: ToyEngine) -> None:
    assert check(viewer(engine)) == []
    assert after(engine) == []


def test_a_leaked_reference_is_found(engine: ToyEngine) -> None:
    free = next(block for block, fact in enumerate(engine.facts) if fact[2] == 0)
    state, owner, refs, fill, tier, group = engine.facts[free]
    found = after(engine, blocks=[(free, 1, state, owner, refs + 1, fill, tier, group)])
    assert found == [f"block {free} is in 0 tables, but has 1 references"]


def test_a_block_freed_while_in_use_is_found(engine: ToyEngine) -> None:
    used = next(block for block, fact in enumerate(engine.facts) if fact[2] == 1)
    found = after(engine, blocks=[(used, 1, 0, -1, 0, 0, 0, 0)])
    assert f"block {used} is in 1 tables, but has 0 references" in found
    assert any("blocks are free, but kv_blocks_free says" in sentence for sentence in found)


def test_gauges_that_do_not_add_up_are_found(engine: ToyEngine) -> None:
    found = after(engine, gauges=Gauges(kv_blocks_cached=32))
    assert any("but the pool has 32" in sentence for sentence in found)


def test_many_faults_are_counted_not_listed(engine: ToyEngine) -> None:
    found = after(engine, blocks=[(0, 32, 2, 0, 31, 0, 0, 0)])
    assert sum(sentence.startswith("block ") for sentence in found) == 5
    assert "and 27 more blocks whose references differ from the tables" in found


def test_nothing_is_claimed_where_too_little_is_known(engine: ToyEngine) -> None:
    assert check(EngineState()) == []
    state = viewer(engine)
    state.gauges["kv_blocks_free"] = 999
    state.apply(Gap(first=0, last=1), 0.0)
    assert check(state) == []
