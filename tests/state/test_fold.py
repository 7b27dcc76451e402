"""A keyframe says what the changes before it added up to."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import merge_frames
from kvtop.state import EngineState, RequestRow
from kvtop.state.ledger import check
from tests.state.model import ToyEngine

engines = st.builds(ToyEngine, total=st.integers(1, 40), seed=st.integers(0, 10_000))


def attached(engine: ToyEngine) -> EngineState:
    state = EngineState()
    state.apply(engine.hello(), 0.0)
    state.apply(engine.keyframe(), 0.0)
    return state


def as_facts(row: RequestRow) -> tuple[object, ...]:
    return (row.num, row.id, row.state, row.output_tokens, row.blocks, row.phase_since, row.table)


def assert_same(one: EngineState, other: EngineState) -> None:
    assert one.blocks is not None
    assert other.blocks is not None
    for name in ("state", "owner", "refs", "fill", "tier", "group", "counts"):
        np.testing.assert_array_equal(getattr(one.blocks, name), getattr(other.blocks, name), name)
    np.testing.assert_allclose(one.blocks.touched, other.blocks.touched)
    blocks = range(one.blocks.total)
    assert [one.blocks.hash_of(b) for b in blocks] == [other.blocks.hash_of(b) for b in blocks]
    assert one.requests is not None
    assert other.requests is not None
    ours, theirs = (sorted(map(as_facts, s.requests.values())) for s in (one, other))  # type: ignore[union-attr]
    assert ours == theirs
    assert (one.seq, one.gauges, one.counts()) == (other.seq, other.gauges, other.counts())


@settings(max_examples=60, deadline=None)
@given(engine=engines, steps=st.integers(0, 30))
def test_changes_add_up_to_the_keyframe(engine: ToyEngine, steps: int) -> None:
    following = attached(engine)
    for _ in range(steps):
        following.apply(engine.step(), 0.0)
    assert_same(following, attached(engine))
    assert following.bad_facts == 0
    assert check(following) == []


@settings(max_examples=60, deadline=None)
@given(engine=engines, steps=st.lists(st.integers(1, 6), max_size=8))
def test_merged_frames_have_the_same_effect(engine: ToyEngine, steps: list[int]) -> None:
    following = attached(engine)
    for together in steps:
        following.apply(merge_frames([engine.step() for _ in range(together)]), 0.0)
    assert following.bad_facts == 0
    one, other = following, attached(engine)
    assert one.blocks is not None
    assert other.blocks is not None
    # A merged frame dates all its blocks by its end, and a keyframe exactly; all else is the same.
    other.blocks.touched[:] = one.blocks.touched
    assert_same(one, other)


@settings(max_examples=40, deadline=None)
@given(engine=engines, steps=st.integers(1, 15))
def test_changes_name_every_block_and_request_that_differs(engine: ToyEngine, steps: int) -> None:
    state = attached(engine)
    for _ in range(steps):
        assert state.blocks is not None
        assert state.requests is not None
        before = state.blocks.state.copy(), state.blocks.refs.copy(), state.blocks.owner.copy()
        rows = {num: (*as_facts(row)[:6], list(row.table)) for num, row in state.requests.items()}
        changes = state.apply(engine.step(), 0.0)
        after = state.blocks.state, state.blocks.refs, state.blocks.owner
        differ = np.flatnonzero(np.any([a != b for a, b in zip(before, after, strict=True)], axis=0))
        assert set(differ.tolist()) <= set(changes.blocks.tolist())
        now = {num: as_facts(row) for num, row in state.requests.items()}
        assert {num for num in rows.keys() | now.keys() if rows.get(num) != now.get(num)} <= changes.requests
