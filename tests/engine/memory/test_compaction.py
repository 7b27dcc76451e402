"""Compaction: which blocks move where, that everything follows, and that commands and policies do what they say."""

import random

import pytest

from engine.memory.blocks import ACTIVE, CACHED, FREE
from engine.memory.compaction import Move, plan_moves
from engine.memory.pool import BlockPool, PoolError
from engine.policies.eviction import EVICTIONS
from tests.engine.driving import Drive


def pool_with(layout: str) -> BlockPool:
    """``.`` free, ``x`` held by request 1, ``c`` cached, ``0`` held but with nothing written yet."""
    pool = BlockPool(len(layout), 4)
    for block, kind in enumerate(layout):
        assert pool.take(1, 1.0) == block
        if kind != "0":
            pool.write(block, 4, 1.0)
        if kind == "c":
            pool.seal(block, 100 + block)
    for block, kind in enumerate(layout):
        if kind in ".c":
            pool.release(block, 1, 2.0)
    return pool


@pytest.mark.parametrize(
    ("layout", "most", "span", "moves"),
    [
        ("x..x.c", 9, None, [(5, 1), (3, 2)]),
        ("x..x.c", 1, None, [(5, 1)]),
        ("xxc...", 9, None, []),
        ("......", 9, None, []),
        ("xxxxxx", 9, None, []),
        ("..0x0.", 9, None, [(3, 0)]),
        ("xxx...", 9, (0, 2), [(1, 3), (0, 4)]),
        ("x.xxxx", 9, (2, 4), [(3, 1)]),
        ("xxxxx.", 9, (4, 6), []),
    ],
)
def test_the_highest_blocks_move_to_the_lowest_free_ones(
    layout: str, most: int, span: tuple[int, int] | None, moves: list[tuple[int, int]]
) -> None:
    assert plan_moves(pool_with(layout), most, span) == [Move(*move) for move in moves]


def test_a_block_that_is_being_copied_to_another_tier_stays() -> None:
    pool = pool_with("..xx")
    pool.hold(3)
    assert plan_moves(pool, 9) == [Move(2, 0)]
    with pytest.raises(PoolError, match=r"block 3 \(active\) cannot be moved to block 0"):
        pool.move(3, 0)


def test_a_large_pool_is_looked_at_in_pieces() -> None:
    pool = BlockPool(100_000, 4)
    taken = [pool.take(1, 1.0) for _ in range(100_000)]
    for block in taken[:-3]:
        pool.release(block, 1, 1.0)
    for block in taken[-3:]:
        pool.write(block, 4, 1.0)
    assert plan_moves(pool, 2) == [Move(99_999, 0), Move(99_998, 1)]


@pytest.mark.parametrize("eviction", EVICTIONS)
def test_a_cached_block_keeps_its_hash_and_its_place(eviction: str) -> None:
    pools = [pool_with("..cccc") for _ in range(2)]
    for pool in pools:
        pool.set_eviction(eviction)
    pools[1].move(5, 0)
    pools[1].move(3, 1)
    where = {5: 0, 3: 1}
    assert pools[1].lookup(105) == 0
    assert pools[1].evictable.misplaced() == []
    for pool in pools:
        while pool.free_blocks:
            pool.take(2, 3.0)
    expected = [where.get(block, block) for block in (pools[0].take(2, 3.0) for _ in range(4))]
    assert [pools[1].take(2, 3.0) for _ in range(4)] == expected


def test_only_free_blocks_are_targets() -> None:
    pool = pool_with("xc.x")
    for source, target in ((3, 0), (3, 1), (2, 2)):
        with pytest.raises(PoolError, match="cannot be moved"):
            pool.move(source, target)
    pool.move(3, 2)
    assert [int(state) for state in pool.state] == [ACTIVE, CACHED, ACTIVE, FREE]


def scattered(**policies: object) -> Drive:
    """Requests with shared, own and cached blocks all over the pool, some free blocks in between."""
    drive = Drive(blocks=40, max_running=8, **policies)
    for num in range(6):
        drive.add(num, prompt=[*range(8), *range(100 * num + 50, 100 * num + 57)], max_tokens=4 if num % 2 else 30)
        drive.step()
    drive.steps(5)
    drive.scheduler.reset_prefix_cache()
    return drive


def expected_outputs() -> list[list[int]]:
    drive = scattered()
    drive.run_out()
    return [request.token_ids for request in drive.requests.values()]


def test_the_command_packs_the_pool_within_its_bound_and_no_token_changes() -> None:
    drive = scattered(compaction_moves=2)
    assert drive.scheduler.compact() > 2
    plans = []
    while drive.scheduler.compaction is not None:
        plans.append(drive.step())
    assert all(len(plan.moves) <= 2 for plan in plans)
    assert plans[-1].compacted is not None
    drive.run_out()
    assert [request.token_ids for request in drive.requests.values()] == expected_outputs()


def test_a_packed_pool_is_free_at_its_end() -> None:
    drive = scattered(compaction_moves=100)
    planned = drive.scheduler.compact()
    plan = drive.scheduler.schedule(drive.now)
    used = [block for block in range(40) if drive.pool.state[block] != FREE]
    written = [block for block in used if drive.pool.fill[block]]
    assert max(written) < len(used)
    assert plan.compacted == f"{planned} blocks moved; the last {39 - max(used)} blocks of the pool are free"


def test_a_range_is_freed() -> None:
    drive = scattered(compaction_moves=100)
    planned = drive.scheduler.compact((0, 10))
    plan = drive.step()
    assert len(plan.moves) == planned > 0
    assert plan.compacted == f"{planned} blocks moved out of 0 to 10; 10 of 10 are free"
    assert {int(state) for state in drive.pool.state[:10]} == {FREE}
    drive.run_out()
    assert [request.token_ids for request in drive.requests.values()] == expected_outputs()


def test_the_continuous_policy_moves_in_every_iteration_and_no_token_changes() -> None:
    drive = scattered(compaction="continuous", compaction_moves=3)
    drive.run_out()
    assert [request.token_ids for request in drive.requests.values()] == expected_outputs()


def test_when_idle_waits_until_nobody_is_left() -> None:
    drive = Drive(blocks=20, compaction="when_idle", compaction_moves=4)
    for num in range(3):
        drive.add(num, prompt=9, max_tokens=2 + 3 * num)
    moved = []
    while drive.scheduler.requests:
        moved += drive.step().moves
    assert moved == []
    while plan := drive.step().moves:
        moved += plan
    used = [block for block in range(20) if drive.pool.state[block] != FREE]
    assert used == list(range(len(used)))


def test_pins_follow() -> None:
    drive = scattered()
    request = drive.add(20, prompt=list(range(300, 309)), max_tokens=1)
    drive.step()
    pin = drive.scheduler.pin(request)
    before = list(pin.blocks)
    low = min(before)
    drive.scheduler.compact((low, max(before) + 1))
    drive.step()
    assert pin.blocks != before
    assert [drive.pool.lookup(hash_) for hash_ in pin.hashes] == pin.blocks
    drive.run_out()


def test_nothing_moves_while_paused_and_a_job_goes_on_afterwards() -> None:
    drive = scattered(compaction_moves=100)
    planned = drive.scheduler.compact()
    drive.scheduler.pause()
    assert drive.step().moves == []
    drive.scheduler.resume()
    assert len(drive.step().moves) == planned


def test_a_range_outside_the_pool_is_refused() -> None:
    drive = Drive(blocks=8)
    for span in ((4, 4), (5, 3), (0, 9)):
        with pytest.raises(ValueError, match="are no range of the pool's blocks 0 to 8"):
            drive.scheduler.compact(span)
    assert drive.scheduler.compact() == 0
    assert drive.scheduler.compaction is None


@pytest.mark.parametrize("seed", range(5))
def test_moves_at_random_never_change_a_token(seed: int) -> None:
    draw, drive = random.Random(seed), scattered()
    while drive.scheduler.requests:
        low = draw.randrange(39)
        drive.scheduler.compact(draw.choice([None, (low, draw.randrange(low + 1, 41))]))
        drive.step()
    assert [request.token_ids for request in drive.requests.values()] == expected_outputs()
