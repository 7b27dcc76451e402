"""The block pool: the life of a block, sharing, eviction, what frames are told, and what it refuses."""

import numpy as np
import pytest

from engine.memory.blocks import ACTIVE, CACHED, FREE, SHARED
from engine.memory.free_list import FreeListError
from engine.memory.pool import BlockPool, PoolError
from tests.engine.driving import Mirror


def sealed(pool: BlockPool, owner: int, hash_: int) -> int:
    """A complete, hashed block of ``owner``."""
    block = pool.take(owner, 1.0)
    pool.write(block, pool.block_size, 1.0)
    pool.seal(block, hash_)
    return block


def levels(pool: BlockPool) -> tuple[int, int, int, int]:
    return pool.free_blocks, pool.cached_blocks, pool.active_blocks, pool.shared_blocks


def test_an_unhashed_block_goes_back_to_the_front_and_forgets_its_content() -> None:
    pool = BlockPool(3, 4)
    block = pool.take(7, 1.0)
    pool.write(block, 2, 2.0)
    assert (pool.state[block], pool.owner[block], pool.fill[block], pool.tokens_in_use) == (ACTIVE, 7, 2, 2)
    pool.release(block, 7, 3.0)
    assert (pool.state[block], pool.owner[block], pool.fill[block], pool.tokens_in_use) == (FREE, -1, 0, 0)
    assert pool.take(8, 4.0) == block


def test_a_hashed_block_outlives_its_owner_and_is_taken_last() -> None:
    pool = BlockPool(3, 4)
    block = sealed(pool, 7, 0xABC)
    pool.release(block, 7, 2.0)
    assert pool.state[block] == CACHED
    assert pool.lookup(0xABC) == block
    others = [pool.take(8, 3.0), pool.take(8, 3.0)]
    assert block not in others
    assert pool.evictions == 0
    assert pool.take(8, 3.0) == block
    assert pool.evictions == 1
    assert pool.lookup(0xABC) is None
    assert pool.fill[block] == 0


def test_cached_blocks_are_evicted_in_the_order_of_their_last_use() -> None:
    pool = BlockPool(3, 4)
    blocks = [sealed(pool, 1, hash_) for hash_ in (11, 12, 13)]
    for block in blocks:
        pool.release(block, 1, 2.0)
    pool.share(blocks[0], 2, 3.0)
    pool.release(blocks[0], 2, 4.0)
    assert [pool.take(3, 5.0) for _ in range(3)] == [blocks[1], blocks[2], blocks[0]]


def test_a_hit_on_a_cached_block_takes_it_off_the_free_list() -> None:
    pool = BlockPool(2, 4)
    block = sealed(pool, 1, 11)
    pool.release(block, 1, 2.0)
    assert pool.available == 2
    pool.share(block, 2, 3.0)
    assert pool.available == 1
    assert (pool.state[block], pool.owner[block], pool.refs[block], pool.tokens_in_use) == (ACTIVE, 2, 1, 4)
    assert pool.take(3, 4.0) != block


def test_a_shared_block_names_the_first_to_arrive_as_owner_as_owners_come_and_go() -> None:
    pool = BlockPool(2, 4)
    block = sealed(pool, 5, 11)
    pool.share(block, 9, 2.0)
    assert (pool.state[block], pool.owner[block], pool.refs[block]) == (SHARED, 5, 2)
    pool.share(block, 3, 2.0)
    assert pool.owner[block] == 3
    pool.release(block, 3, 3.0)
    assert pool.owner[block] == 5
    pool.release(block, 5, 3.0)
    assert (pool.state[block], pool.owner[block], pool.refs[block]) == (ACTIVE, 9, 1)
    assert pool.tokens_in_use == 4


def test_gauges_follow_every_step() -> None:
    pool = BlockPool(4, 4)
    block = sealed(pool, 1, 11)
    pool.take(1, 1.0)
    assert levels(pool) == (2, 0, 2, 0)
    pool.share(block, 2, 1.0)
    assert levels(pool) == (2, 0, 1, 1)
    pool.release(block, 1, 1.0)
    pool.release(block, 2, 1.0)
    assert levels(pool) == (2, 1, 1, 0)
    assert pool.available == 3


def test_duplicate_content_is_allowed_and_the_second_takes_over() -> None:
    pool = BlockPool(2, 4)
    first, second = sealed(pool, 1, 11), sealed(pool, 2, 11)
    assert pool.lookup(11) == first
    pool.release(first, 1, 2.0)
    pool.take(3, 3.0)
    assert pool.lookup(11) == second


def test_resetting_the_hashes_frees_what_is_cached_and_leaves_what_is_in_use() -> None:
    pool = BlockPool(3, 4)
    used, cached = sealed(pool, 1, 11), sealed(pool, 1, 12)
    pool.release(cached, 1, 2.0)
    assert pool.reset_hashes() == 2
    assert levels(pool) == (2, 0, 1, 0)
    assert pool.lookup(11) is None
    assert pool.changes.all_hashes() == []
    assert pool.fill[used] == 4
    pool.release(used, 1, 3.0)
    assert pool.state[used] == FREE


def test_changes_are_told_once_as_runs_of_equal_neighbours() -> None:
    pool = BlockPool(6, 4)
    assert pool.changes.take() == ([], [])
    for _ in range(3):
        pool.take(7, 1.0)
    pool.write(1, 2, 1.0)
    runs, hashes = pool.changes.take()
    assert runs == [(0, 1, ACTIVE, 7, 1, 0, 0, 0), (1, 1, ACTIVE, 7, 1, 2, 0, 0), (2, 1, ACTIVE, 7, 1, 0, 0, 0)]
    assert hashes == []
    assert pool.changes.take() == ([], [])
    pool.release(0, 7, 2.0)
    pool.release(1, 7, 2.0)
    assert pool.changes.take()[0] == [(0, 2, FREE, -1, 0, 0, 0, 0)]


def test_changed_blocks_that_are_not_neighbours_are_separate_runs() -> None:
    pool = BlockPool(3, 4)
    for _ in range(3):
        pool.take(7, 1.0)
    pool.changes.take()
    pool.release(2, 7, 2.0)
    pool.release(0, 7, 2.0)
    assert [run[:2] for run in pool.changes.take()[0]] == [(0, 1), (2, 1)]


def test_hash_changes_are_sixteen_hex_digits_or_none() -> None:
    pool = BlockPool(1, 4)
    block = sealed(pool, 1, 0xAB)
    assert pool.changes.take()[1] == [(block, "00000000000000ab")]
    assert pool.changes.all_hashes() == [(block, "00000000000000ab")]
    pool.release(block, 1, 2.0)
    pool.take(2, 3.0)
    assert pool.changes.take()[1] == [(block, None)]


def test_a_viewer_that_folds_the_changes_has_the_pool() -> None:
    pool = BlockPool(8, 4, tier=1)
    mirror = Mirror(pool)
    blocks = [sealed(pool, owner, 100 + owner) for owner in range(5)]
    mirror.check()
    pool.share(blocks[1], 7, 2.0)
    for owner in (0, 2, 3):
        pool.release(blocks[owner], owner, 2.0)
    mirror.check()
    for _ in range(pool.available):
        pool.take(8, 3.0)
    mirror.check()


def test_a_fresh_pool_is_one_run_in_its_tier() -> None:
    assert BlockPool(5, 4, tier=1).changes.all_runs() == [(0, 5, FREE, -1, 0, 0, 1, 0)]


def test_ages_are_those_of_used_blocks_and_never_negative() -> None:
    pool = BlockPool(5, 4)
    assert pool.changes.all_ages(10.0) == []
    pool.take(1, 2.0)
    pool.take(1, 2.0)
    pool.take(1, 5.5)
    assert pool.changes.all_ages(6.0) == [(0, 2, 4.0), (2, 1, 0.5)]
    assert pool.changes.all_ages(1.0) == [(0, 3, 0.0)]


def test_frame_values_are_plain_numbers() -> None:
    # numpy numbers would not survive the encoder.
    pool = BlockPool(2, 4)
    sealed(pool, 1, 11)
    values = [
        *pool.changes.take()[0][0],
        *pool.changes.all_runs()[0],
        *pool.changes.all_ages(3.0)[0],
        pool.take(1, 1.0),
    ]
    assert {type(value) for value in values} == {int, float}


def test_a_million_blocks_make_a_keyframe() -> None:
    pool = BlockPool(1_000_000, 16)
    taken = [pool.take(i % 3, 1.0) for i in range(1000)]
    runs = pool.changes.all_runs()
    assert len(runs) == 1001
    assert sum(run[1] for run in runs) == 1_000_000
    assert pool.changes.all_ages(2.0) == [(0, 1000, 1.0)]
    for i, block in enumerate(taken):
        pool.release(block, i % 3, 2.0)
    assert pool.changes.all_runs() == [(0, 1_000_000, FREE, -1, 0, 0, 0, 0)]


def test_a_pool_needs_blocks_and_room_in_them() -> None:
    for blocks, size in ((0, 4), (4, 0), (-1, 4)):
        with pytest.raises(ValueError, match="both must be 1 or more"):
            BlockPool(blocks, size)


@pytest.mark.parametrize("fill", [0, 2, 4])
def test_releasing_twice_is_refused(fill: int) -> None:
    pool = BlockPool(2, 4)
    block = pool.take(1, 1.0)
    pool.write(block, fill, 1.0)
    pool.release(block, 1, 2.0)
    with pytest.raises(PoolError, match="which it does not hold"):
        pool.release(block, 1, 3.0)


def test_only_an_owner_can_release() -> None:
    pool = BlockPool(2, 4)
    block = sealed(pool, 1, 11)
    with pytest.raises(PoolError, match=f"request 2 released block {block}"):
        pool.release(block, 2, 2.0)
    pool.share(block, 2, 2.0)
    with pytest.raises(PoolError, match=f"request 3 released block {block}"):
        pool.release(block, 3, 2.0)
    assert pool.refs[block] == 2


def test_a_block_being_written_cannot_be_shared_and_a_shared_one_not_written() -> None:
    pool = BlockPool(2, 4)
    block = pool.take(1, 1.0)
    with pytest.raises(PoolError, match="still being written"):
        pool.share(block, 2, 1.0)
    pool.write(block, 4, 1.0)
    pool.seal(block, 11)
    pool.share(block, 2, 1.0)
    with pytest.raises(PoolError, match="was written while 2 tables hold it"):
        pool.write(block, 4, 1.0)
    with pytest.raises(PoolError, match="holds block 0 already"):
        pool.share(block, 2, 1.0)


def test_fill_only_grows_and_stays_within_the_block() -> None:
    pool = BlockPool(1, 4)
    block = pool.take(1, 1.0)
    pool.write(block, 3, 1.0)
    for fill in (2, 5):
        with pytest.raises(PoolError, match="went from 3 to"):
            pool.write(block, fill, 1.0)


def test_only_complete_blocks_get_a_hash() -> None:
    pool = BlockPool(1, 4)
    block = pool.take(1, 1.0)
    pool.write(block, 3, 1.0)
    with pytest.raises(PoolError, match="cannot be hashed"):
        pool.seal(block, 11)


def test_an_empty_pool_gives_nothing() -> None:
    pool = BlockPool(1, 4)
    pool.take(1, 1.0)
    with pytest.raises(FreeListError, match="no block is free"):
        pool.take(1, 1.0)


def test_tokens_in_use_count_shared_content_once() -> None:
    pool = BlockPool(3, 4)
    block = sealed(pool, 1, 11)
    pool.share(block, 2, 1.0)
    own = pool.take(2, 1.0)
    pool.write(own, 3, 1.0)
    assert pool.tokens_in_use == 7 == int(np.sum(pool.fill))


def test_a_cached_block_can_be_taken_over_and_nothing_else() -> None:
    pool = BlockPool(4, 4)
    block = pool.take(1, 0.0)
    pool.write(block, 4, 0.0)
    pool.seal(block, 7)
    with pytest.raises(PoolError, match=r"active.* cannot be taken over"):
        pool.reclaim(block, 2, 2, 1.0)
    pool.release(block, 1, 1.0)
    for fill in (0, 5):
        with pytest.raises(PoolError, match="has 4 tokens"):
            pool.reclaim(block, 2, fill, 1.0)
    pool.pin(block)
    with pytest.raises(PoolError, match=r"pinned.* cannot be taken over"):
        pool.reclaim(block, 2, 2, 1.0)
    pool.unpin(block)
    pool.hold_next_evicted(1.0)
    with pytest.raises(PoolError, match=r"transfer.* cannot be taken over"):
        pool.reclaim(block, 2, 2, 1.0)
    pool.unhold(block)
    pool.reclaim(block, 2, 3, 2.0)
    assert pool.lookup(7) is None
    assert (pool.tokens_in_use, pool.evictions, pool.available, pool.active_blocks) == (3, 1, 3, 1)
    pool.write(block, 4, 2.0)
    pool.seal(block, 8)
    pool.release(block, 2, 3.0)
    assert pool.lookup(8) == block
    with pytest.raises(PoolError, match="cannot be taken over"):
        pool.reclaim(pool.take(3, 3.0), 2, 1, 3.0)


def test_a_block_that_waits_for_content_is_nobodys_and_found_by_nobody_before_it_has_come() -> None:
    pool = BlockPool(2, 4)
    block = pool.expect(0.0, 0, ())
    assert block is not None
    assert (pool.available, pool.leaving, pool.transfer_blocks, pool.lookup(7)) == (1, 1, 1, None)
    pool.arrive(block, 7, 6, 1)
    assert (pool.available, pool.leaving, pool.cached_blocks, pool.lookup(7)) == (2, 0, 1, block)
    assert (pool.prefetched[block], pool.parent_of(block), pool.fill[block]) == (1, 6, 4)
    with pytest.raises(PoolError, match="does not wait for content"):
        pool.arrive(block, 7, 6, 1)
    pool.take(1, 1.0)
    assert pool.expect(1.0, 0, {block}) is None, "what is to be kept was evicted"
    assert pool.lookup(7) == block
    other = pool.expect(1.0, 0, ())
    assert other == block
    assert (pool.lookup(7), pool.evictions, pool.prefetched[block]) == (None, 1, 0)
    pool.unhold(block)
    assert (pool.free_blocks, pool.leaving) == (1, 0)
