"""The free list: order, O(1) removal from the middle, and refusal of what would break it."""

import random
from collections import deque

import pytest

from engine.memory.free_list import FreeList, FreeListError


def test_all_blocks_are_in_it_at_first_in_ascending_order() -> None:
    free = FreeList(4)
    assert list(free) == [0, 1, 2, 3]
    assert len(free) == 4
    assert free.head == 0


def test_taken_from_the_head_put_back_at_either_end() -> None:
    free = FreeList(3)
    assert [free.pop_head(), free.pop_head()] == [0, 1]
    free.append(0)
    free.prepend(1)
    assert list(free) == [1, 2, 0]


def test_removing_from_the_middle_keeps_the_rest_in_order() -> None:
    free = FreeList(5)
    free.remove(2)
    assert 2 not in free
    assert list(free) == [0, 1, 3, 4]


def test_an_empty_list_has_no_head() -> None:
    free = FreeList(1)
    free.pop_head()
    assert free.head is None
    assert list(free) == []
    with pytest.raises(FreeListError, match="no block is free"):
        free.pop_head()


def test_a_block_is_never_in_it_twice() -> None:
    free = FreeList(2)
    for put in (free.append, free.prepend):
        with pytest.raises(FreeListError, match="block 1 is in the free list already"):
            put(1)


def test_a_block_that_is_not_in_it_cannot_be_removed() -> None:
    free = FreeList(2)
    free.remove(0)
    with pytest.raises(FreeListError, match="block 0 is not in the free list"):
        free.remove(0)


def test_it_does_what_a_plain_queue_does() -> None:
    rng, free, model = random.Random(5), FreeList(20), deque(range(20))
    for _ in range(2000):
        taken = sorted(set(range(20)) - set(model))
        match rng.randrange(4):
            case 0 if model:
                assert free.pop_head() == model.popleft()
            case 1 if model:
                block = rng.choice(model)
                free.remove(block)
                model.remove(block)
            case 2 if taken:
                block = rng.choice(taken)
                free.append(block)
                model.append(block)
            case 3 if taken:
                block = rng.choice(taken)
                free.prepend(block)
                model.appendleft(block)
        assert list(free) == list(model)
        assert len(free) == len(model)


def test_walking_a_broken_list_ends() -> None:
    free = FreeList(3)
    free.next[2] = 0
    assert len(list(free)) == 3
