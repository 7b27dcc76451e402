"""Where a table's blocks go is a strategy: another one than paging can be plugged in."""

import pytest

from engine.memory.allocator import Allocator, Paged
from engine.memory.eviction import EvictionOrder
from engine.memory.free_list import FreeList
from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet
from engine.scheduling.scheduler import Scheduler
from tests.engine.driving import BLOCK, Drive


class NextDoor:
    """The block behind the table's latest where that is free, else the first of the longest run of free ones."""

    name = "next door"

    def take(self, free: FreeList, after: int | None) -> int:
        fits = after is not None and after + 1 < free.sentinel and after + 1 in free
        block = after + 1 if after is not None and fits else max(self._runs(free), key=len)[0]
        free.remove(block)
        return block

    def room(self, free: FreeList, evictable: EvictionOrder) -> int:
        return max(map(len, self._runs(free)), default=0)

    def _runs(self, free: FreeList) -> list[list[int]]:
        runs: list[list[int]] = []
        for block in sorted(free):
            if runs and runs[-1][-1] == block - 1:
                runs[-1].append(block)
            else:
                runs.append([block])
        return runs


def drive_with(strategy: NextDoor | Paged, blocks: int) -> Drive:
    drive = Drive(blocks)
    drive.pool = BlockPool(blocks, BLOCK, strategy=strategy)
    drive.scheduler = Scheduler(drive.pool, PolicySet.of({"prefix_cache": False}), max_model_len=64)
    drive.runner = type(drive.runner)(drive.pool)
    return drive


def test_a_strategy_places_the_blocks_of_a_table_side_by_side() -> None:
    drive = drive_with(NextDoor(), 16)
    first, second = drive.add(1, prompt=13, max_tokens=6), drive.add(2, prompt=9, max_tokens=6)
    drive.step()
    assert first.block_table == [0, 1, 2, 3]
    assert second.block_table == [4, 5, 6]
    drive.run_out()
    assert drive.pool.free_blocks == 16


def test_paging_takes_what_was_freed_last_wherever_it_is() -> None:
    drive = drive_with(Paged(), 8)
    for num in (1, 2):
        drive.add(num, prompt=6, max_tokens=1)
    drive.run_out()
    later = drive.add(3, prompt=14, max_tokens=2)
    drive.step()
    assert later.block_table != sorted(later.block_table)


def test_a_request_waits_for_room_that_its_strategy_can_use() -> None:
    drive = drive_with(NextDoor(), 9)
    for num in (1, 2, 3):
        drive.add(num, prompt=12, max_tokens=1 if num != 2 else 20)
    drive.step()
    assert [len(run) for run in NextDoor()._runs(drive.pool.free_list)] == [3, 3]
    waits = drive.add(4, prompt=16, max_tokens=1)
    drive.step()
    assert waits in drive.scheduler.waiting
    assert drive.scheduler.verdict is not None
    assert drive.scheduler.verdict.code == "needs_blocks"
    assert drive.scheduler.verdict.available_blocks == 3
    assert drive.pool.available == 5


@pytest.mark.parametrize("strategy", [Paged(), NextDoor()])
def test_an_allocator_gives_every_block_once(strategy: Paged | NextDoor) -> None:
    allocator = Allocator(BlockPool(5, BLOCK), strategy)
    assert sorted(allocator.take(0.0, None) for _ in range(5)) == [0, 1, 2, 3, 4]
    assert len(allocator) == 0
