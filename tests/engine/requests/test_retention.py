"""Retention: which priority a block gets from a request's ranges, for how long, and who is evicted for it."""

from math import inf

import pytest

from engine.memory.pool import BlockPool, PoolError
from engine.requests.retention import DEFAULT_PRIORITY, Retention, of_tokens
from tests.engine.driving import Drive


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [
        (0, 4, (80, inf)),
        (4, 8, (80, inf)),
        (8, 12, (20, 105.0)),
        (12, 16, (20, 105.0)),
    ],
)
def test_a_block_gets_the_highest_priority_of_the_ranges_that_touch_it(
    first: int, end: int, expected: tuple[int, float]
) -> None:
    ranges = (Retention(0, 5, 80), Retention(3, None, 20, seconds=5.0))
    assert of_tokens(ranges, first, end, 100.0) == expected


def test_of_equal_priorities_the_longer_time_counts_and_no_range_means_nothing() -> None:
    ranges = (Retention(0, 4, 50, seconds=5.0), Retention(2, 4, 50, seconds=9.0))
    assert of_tokens(ranges, 0, 4, 1.0) == (50, 10.0)
    assert of_tokens(ranges, 4, 8, 1.0) is None


@pytest.mark.parametrize(
    ("start", "end", "priority", "seconds"),
    [(-1, 4, 50, None), (4, 4, 50, None), (0, 4, 101, None), (0, 4, -1, None), (0, 4, 50, 0.0), (0, 4, 50, inf)],
)
def test_a_range_that_makes_no_sense_is_refused(start: int, end: int, priority: int, seconds: float | None) -> None:
    with pytest.raises(ValueError, match=r"^retention.*(no range|not in 0…|not possible|not a finite)"):
        Retention(start, end, priority, seconds)


def run_one(drive: Drive, num: int, retention: tuple[Retention, ...] = ()) -> list[int]:
    """A request of two complete blocks, which are cached afterwards."""
    request = drive.add(num, prompt=9, max_tokens=1, retention=retention)
    drive.scheduler.schedule(drive.now)
    blocks = request.block_table[:2]
    drive.step()
    return blocks


def next_evicted(drive: Drive, count: int) -> list[int]:
    while drive.pool.free_blocks:
        drive.pool.take(99, drive.now)
    return [drive.pool.take(99, drive.now) for _ in range(count)]


def test_blocks_of_low_priority_go_first_and_of_high_priority_last() -> None:
    drive = Drive(blocks=9, eviction="priority")
    high = run_one(drive, 1, (Retention(0, 4, 90),))
    plain = run_one(drive, 2)
    low = run_one(drive, 3, (Retention(0, None, 5),))
    order = next_evicted(drive, 6)
    assert set(order[:2]) == set(low)
    assert order[-1] == high[0]
    assert set(plain) < set(order[2:5])


def test_a_priority_runs_out() -> None:
    for wait, first in ((1.0, 1), (60.0, 0)):
        drive = Drive(blocks=8, eviction="priority")
        tables = [run_one(drive, 1, (Retention(0, None, 90, seconds=30.0),)), run_one(drive, 2)]
        drive.now += wait
        assert next_evicted(drive, 1)[0] in tables[first]
        assert drive.pool.evictable.misplaced() == []


def test_a_hit_by_a_request_that_asks_for_it_sets_the_priority_anew() -> None:
    drive = Drive(blocks=9)
    drive.add(1, prompt=list(range(9)), max_tokens=1, retention=(Retention(0, 8, 70),))
    drive.step()
    blocks = [drive.pool.lookup(hash_) for hash_ in drive.requests[1].hashes]
    assert [drive.pool.priority_of(block, drive.now) for block in blocks if block is not None] == [70, 70]
    drive.add(2, prompt=list(range(9)), max_tokens=1, retention=(Retention(0, 4, 10, seconds=5.0),))
    drive.step()
    assert [drive.pool.priority_of(block, drive.now) for block in blocks if block is not None] == [10, 70]
    assert [drive.pool.priority_of(block, drive.now + 5) for block in blocks if block is not None] == [35, 70]


def test_new_content_starts_with_the_default() -> None:
    drive = Drive(blocks=3)
    blocks = run_one(drive, 1, (Retention(0, None, 90),))
    next_evicted(drive, 2)
    assert [drive.pool.priority_of(block, drive.now) for block in blocks] == [DEFAULT_PRIORITY] * 2


def test_only_what_somebody_holds_can_be_retained() -> None:
    with pytest.raises(PoolError, match="while nobody holds it"):
        BlockPool(2, 4).retain(0, 50, inf)


def test_a_switch_to_priority_says_how_many_blocks_have_one() -> None:
    drive = Drive(blocks=9)
    run_one(drive, 1, (Retention(0, 4, 90),))
    said = drive.scheduler.preview({"eviction": "priority"}, "drain")
    assert said == [
        "Cached blocks are evicted by priority, no more by lru; 2 cached blocks are put in the new order.",
        "1 of them got a retention priority that a request asked for, which counts until it runs out; all others count 35.",
    ]
