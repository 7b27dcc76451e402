"""The orders of eviction: who goes next under each, against a plain search, and across switches of the policy."""

import random
from math import inf

import pytest

from engine.memory.blocks import CACHED
from engine.memory.free_list import FreeListError
from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH
from engine.policies.eviction import EVICTIONS
from tests.engine.driving import Drive


def cached_blocks(pool: BlockPool) -> list[int]:
    return [block for block in range(pool.total) if pool.state[block] == CACHED]


def next_to_go(pool: BlockPool, now: float) -> int | None:
    """By going through all cached blocks; None for slru, whose segments have a history."""
    cached = cached_blocks(pool)
    parents = {int(pool.parent[block]) for block in cached}
    idle = pool.idle_since
    match pool.eviction:
        case "lru":
            return min(cached, key=lambda block: idle[block])
        case "mru":
            return max(cached, key=lambda block: idle[block])
        case "fifo":
            return min(cached, key=lambda block: pool.sealed_at[block])
        case "lfu":
            return min(cached, key=lambda block: (pool.uses[block], idle[block]))
        case "priority":
            return min(cached, key=lambda block: (pool.priority_of(block, now), idle[block]))
        case "leaf_first":
            leaves = [block for block in cached if int(pool.hash[block]) not in parents]
            return min(leaves, key=lambda block: idle[block])
        case _:
            return None


def complete(pool: BlockPool, owner: int, hash_: int, parent: int = NO_HASH) -> int:
    block = pool.take(owner, 1.0)
    pool.write(block, pool.block_size, 1.0)
    pool.seal(block, hash_, parent)
    return block


def evicted(pool: BlockPool, now: float = 10.0) -> list[int]:
    """All cached blocks in the order in which they go; no block may be free."""
    return [pool.take(99, now) for _ in range(pool.available)]


def released(eviction: str, uses: tuple[int, ...]) -> BlockPool:
    """Blocks 0, 1, … completed in this order and released in the reverse order, each used by so many requests."""
    pool = BlockPool(len(uses), 4)
    pool.set_eviction(eviction)
    for block, times in enumerate(uses):
        complete(pool, 1, 100 + block)
        for other in range(2, times + 1):
            pool.share(block, other, 1.0)
            pool.release(block, other, 1.0)
    for block in reversed(range(len(uses))):
        pool.release(block, 1, 2.0)
    return pool


@pytest.mark.parametrize(
    ("eviction", "order"),
    [
        ("lru", [3, 2, 1, 0]),
        ("mru", [0, 1, 2, 3]),
        ("fifo", [0, 1, 2, 3]),
        ("lfu", [2, 0, 3, 1]),
        ("slru", [2, 0, 3, 1]),
        ("leaf_first", [3, 2, 1, 0]),
        ("priority", [3, 2, 1, 0]),
    ],
)
def test_who_goes_first(eviction: str, order: list[int]) -> None:
    pool = released(eviction, uses=(1, 3, 1, 2))
    assert evicted(pool) == order


def test_a_hit_counts_for_lfu_and_not_for_fifo() -> None:
    for eviction, order in (("lfu", [1, 0]), ("fifo", [0, 1])):
        pool = released(eviction, uses=(1, 1))
        pool.share(0, 5, 3.0)
        pool.release(0, 5, 4.0)
        assert evicted(pool) == order


def test_slru_protects_what_was_hit_up_to_its_share() -> None:
    pool = released("slru", uses=(2, 2, 2, 2, 2))
    # 80 % of five blocks are protected: the one released first was put back on probation.
    assert evicted(pool)[0] == 4


def test_leaf_first_takes_a_chain_from_its_end_in_whatever_order_it_was_released() -> None:
    for eviction, order in (("leaf_first", [2, 1, 0]), ("lru", [0, 1, 2])):
        pool = BlockPool(3, 4)
        pool.set_eviction(eviction)
        for block in range(3):
            complete(pool, 1, 100 + block, 99 + block if block else NO_HASH)
        for block in range(3):
            pool.release(block, 1, 2.0)
        assert evicted(pool) == order


def test_free_blocks_go_before_any_cached_one() -> None:
    for eviction in EVICTIONS:
        pool = BlockPool(3, 4)
        pool.set_eviction(eviction)
        block = complete(pool, 1, 11)
        pool.release(block, 1, 2.0)
        assert block not in (pool.take(2, 3.0), pool.take(2, 3.0))
        assert pool.evictions == 0


@pytest.mark.parametrize("eviction", EVICTIONS)
def test_an_order_refuses_what_would_break_it(eviction: str) -> None:
    pool = BlockPool(2, 4)
    pool.set_eviction(eviction)
    block = complete(pool, 1, 11)
    with pytest.raises(FreeListError):
        pool.evictable.remove(block)
    with pytest.raises(FreeListError, match="no block is free"):
        pool.evictable.take(1.0)
    pool.release(block, 1, 2.0)
    with pytest.raises(FreeListError):
        pool.evictable.insert(block)


@pytest.mark.parametrize("seed", range(12))
def test_each_order_chooses_as_a_search_through_all_blocks_would(seed: int) -> None:
    """Chains that are written, hit, released and evicted at random, under policies that change all the time."""
    draw, pool, now = random.Random(seed), BlockPool(24, 4), 0.0
    held: dict[int, list[int]] = {}
    for turn in range(1500):
        now += draw.random()
        action = draw.randrange(10)
        if action == 0:
            pool.set_eviction(draw.choice(list(EVICTIONS)))
        elif action < 5 and pool.available > 3:
            chain = draw.randrange(8)
            table, parent = [], NO_HASH
            for depth in range(1, draw.randrange(2, 5)):
                hash_ = 10 * chain + depth + 1
                if (found := pool.lookup(hash_)) is not None:
                    pool.share(found, turn, now)
                    table.append(found)
                    parent = hash_
                    continue
                cached, evictions = cached_blocks(pool), pool.evictions
                expected = next_to_go(pool, now) if cached else None
                block = pool.take(turn, now)
                assert (pool.evictions > evictions) == (block in cached)
                assert block not in cached or expected in (None, block)
                pool.write(block, 4, now)
                pool.seal(block, hash_, parent)
                if draw.random() < 0.4:
                    pool.retain(block, draw.randrange(101), now + draw.choice([5, 50, inf]))
                table.append(block)
                parent = hash_
            held[turn] = table
        elif held:
            owner = draw.choice(list(held))
            table = held.pop(owner)
            draw.shuffle(table)
            for block in table:
                pool.release(block, owner, now)
        assert sorted(pool.evictable) == cached_blocks(pool)
        assert pool.evictable.misplaced() == []


def test_a_reset_empties_the_order() -> None:
    for eviction in EVICTIONS:
        pool = released(eviction, uses=(1, 2, 1))
        assert pool.reset_hashes() == 3
        assert len(pool.evictable) == 0
        assert evicted(pool) == [2, 1, 0]


def test_head_first_lets_the_beginning_of_a_prefix_go_first() -> None:
    for free_order, first in (("tail_first", 1), ("head_first", 0)):
        drive = Drive(blocks=4, free_order=free_order)
        drive.add(1, prompt=list(range(9)), max_tokens=1)
        drive.step()
        assert cached_blocks(drive.pool) == [0, 1]
        for _ in range(2):
            drive.pool.take(99, drive.now)
        assert drive.pool.take(99, drive.now) == first
