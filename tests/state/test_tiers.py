"""Tiers: whose blocks are whose, totals into rates, and numbers that cannot be true."""

from typing import Any

from kvtop.protocol import (
    EngineIdentity,
    Gauges,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    PoolFacts,
    RequestChange,
    Status,
    TierLevel,
)
from kvtop.state import EngineState
from kvtop.state.freeze import frozen
from kvtop.state.ledger import check
from kvtop.state.tiers import MAX_LEVELS, tier_spans, total_name

POOLS = [PoolFacts(tier="device", blocks=8), PoolFacts(tier="host", blocks=4), PoolFacts(tier="disk", blocks=4)]


def two_tiers(**changes: Any) -> EngineState:
    """Eight blocks on the device, two of them in the table of request 1; one of four cached on the host."""
    state = EngineState()
    hello = Hello(
        engine=EngineIdentity(name="t", kind="kvtop", version="1", run="r"),
        model=ModelFacts(name="m"),
        geometry=Geometry(block_size=4, pools=POOLS),
    )
    state.apply(hello, 0.0)
    facts: dict[str, Any] = {
        "blocks": [(0, 2, 2, 1, 1, 4, 0, 0), (8, 1, 1, -1, 0, 4, 1, 0), (12, 2, 7, 1, 0, 4, 2, 0)],
        "requests": [RequestChange(num=1, state="decode", table_at=0, table=[0, 1])],
        "gauges": Gauges(
            kv_blocks_total=8, kv_blocks_free=6, kv_blocks_cached=0, kv_blocks_active=2, kv_blocks_shared=0
        ),
        "tiers": [TierLevel(tier="host", blocks_total=4, bytes_in=100, stalls=0)],
    }
    state.apply(
        Keyframe(seq=1, iteration=1, wall=0.0, mono=10.0, status=Status(state="running"), **(facts | changes)), 0.0
    )
    return state


def frame(seq: int, mono: float, **changes: Any) -> IterationFrame:
    return IterationFrame(seq=seq, iteration=seq, wall=0.0, mono=mono, **changes)


def test_block_numbers_run_on_from_tier_to_tier() -> None:
    groups = [PoolFacts(tier="device", group=1, blocks=2), *POOLS]
    assert tier_spans(groups) == [("device", range(10)), ("host", range(10, 14)), ("disk", range(14, 18))]
    assert tier_spans([]) == []


def test_what_is_counted_is_the_device_alone_and_its_books_add_up() -> None:
    state = two_tiers()
    counts = state.counts()
    assert counts is not None
    assert (counts["free"], counts["active"], counts["cached"], counts["reserved"]) == (6, 2, 0, 0)
    assert check(state) == []
    state.apply(frame(2, 11.0, blocks=[(7, 6, 1, -1, 0, 4, 0, 0)]), 1.0)
    counts = state.counts()
    assert counts is not None
    assert (counts["free"], counts["cached"]) == (5, 1)


def test_levels_stay_until_others_come_and_totals_become_rates() -> None:
    state = two_tiers()
    for second in range(1, 8):
        level = TierLevel(tier="host", blocks_total=4, bytes_in=100 + 50 * second)
        state.apply(frame(1 + second, 10.0 + second, tiers=[level]), float(second))
    state.apply(frame(9, 18.0), 8.0)
    assert [level.bytes_in for level in state.tiers] == [450]
    assert state.tier_rates.per_second(total_name(state.tiers[0], "bytes_in"), 17.0) == 50.0
    assert state.tier_rates.per_second(total_name(state.tiers[0], "drops"), 17.0) is None
    still = frozen(state, 8.0)
    state.apply(frame(10, 19.0, tiers=[TierLevel(tier="host", bytes_in=9_999)]), 9.0)
    assert still.tiers[0].bytes_in == 450
    assert still.tier_rates.per_second(total_name(still.tiers[0], "bytes_in"), 17.0) == 50.0


def test_a_keyframe_without_tiers_ends_what_was_known() -> None:
    state = two_tiers()
    state.apply(Keyframe(seq=2, iteration=2, wall=0.0, mono=11.0, status=Status(state="running")), 1.0)
    assert state.tiers == ()


def test_impossible_levels_are_left_out_and_told() -> None:
    state = two_tiers(tiers=[TierLevel(tier="host", bytes_in=1 << 60, stalls=3)])
    assert state.tiers[0].bytes_in is None
    assert state.tiers[0].stalls == 3
    assert state.bad_note == "tier host: bytes_in is beyond all measure"
    many = two_tiers(tiers=[TierLevel(tier=f"t{i}") for i in range(MAX_LEVELS + 1)])
    assert len(many.tiers) == MAX_LEVELS
    assert many.bad_facts == 1


def test_waiting_for_kv_from_a_lower_tier_counts_as_waiting() -> None:
    state = two_tiers(
        requests=[RequestChange(num=1, state="loading", tier="host", queue_s=1.0, phase_since=8.0, siblings=4)]
    )
    assert state.requests is not None
    row = state.requests[1]
    assert (row.tier, row.siblings) == ("host", 4)
    assert row.queue_time(10.0) == 3.0


def test_a_changed_geometry_is_taken_over_but_for_its_pools() -> None:
    state = two_tiers()
    changed = Geometry(block_size=4, cache_dtype="int8", bytes_per_token=7, pools=[])
    state.apply(frame(2, 11.0, geometry=changed), 0.0)
    assert state.hello is not None
    assert (state.hello.geometry.cache_dtype, state.hello.geometry.bytes_per_token) == ("int8", 7)
    assert state.hello.geometry.pools == POOLS
    state.apply(frame(3, 12.0), 0.0)
    assert state.hello.geometry.cache_dtype == "int8"
    joined = two_tiers(geometry=changed)
    assert joined.hello is not None
    assert joined.hello.geometry.bytes_per_token == 7
