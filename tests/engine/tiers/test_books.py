"""One tier's books, pure."""

import pytest

from engine.tiers.books import CACHED, FREE, HELD, TRANSFER, BooksError, TierBooks


@pytest.fixture
def books() -> TierBooks:
    return TierBooks(1, "host", 4)


def cache(books: TierBooks, hash_: int, now: float = 0.0) -> int:
    slot = books.take(now, fill=4, hash_=hash_)
    books.wrote(slot, now, ok=True)
    return slot


def test_a_block_can_be_found_only_when_its_copy_is_complete(books: TierBooks) -> None:
    slot = books.take(1.0, fill=4, hash_=77)
    assert books.state[slot] == TRANSFER
    assert books.lookup(77) is None
    assert books.knows(77)
    with pytest.raises(BooksError, match="nothing to be read"):
        books.start_read(slot, 2.0)
    books.wrote(slot, 2.0, ok=True)
    assert books.lookup(77) == slot
    assert books.counts == {FREE: 3, CACHED: 1, HELD: 0, TRANSFER: 0}


def test_a_failed_copy_leaves_a_free_slot_and_no_trace(books: TierBooks) -> None:
    slot = books.take(1.0, fill=4, hash_=77)
    books.wrote(slot, 2.0, ok=False)
    assert not books.knows(77)
    assert books.counts[FREE] == books.available == 4


def test_the_oldest_cached_content_makes_room_and_held_slots_never_do(books: TierBooks) -> None:
    held = books.take(0.0, fill=4, owner=3)
    books.wrote(held, 0.0, ok=True)
    slots = [cache(books, 10 + i, float(i)) for i in range(3)]
    books.start_read(slots[0], 5.0)
    books.end_read(slots[0], 6.0)
    assert books.oldest_cached(2) == [slots[1], slots[2]]
    assert books.take(7.0, fill=4, hash_=20) == slots[1]
    assert books.lookup(11) is None
    assert books.dropped == 1
    assert books.state[held] == HELD


def test_a_slot_that_is_read_is_not_taken_before_its_last_reader_is_done(books: TierBooks) -> None:
    slots = [cache(books, 10 + i) for i in range(4)]
    for _ in range(2):
        books.start_read(slots[0], 1.0)
    assert [books.take(2.0, fill=4, hash_=30 + i) for i in range(3)] == slots[1:]
    with pytest.raises(BooksError, match="no slot"):
        books.take(2.0, fill=4, hash_=40)
    books.end_read(slots[0], 3.0)
    assert books.available == 0
    books.end_read(slots[0], 3.0)
    assert books.take(4.0, fill=4, hash_=40) == slots[0]


@pytest.mark.parametrize("owner", [-1, 5])
def test_what_is_given_up_while_it_is_read_is_free_with_the_last_reader(books: TierBooks, owner: int) -> None:
    slot = books.take(0.0, fill=4, hash_=9 if owner < 0 else 0, owner=owner)
    books.wrote(slot, 0.0, ok=True)
    books.start_read(slot, 1.0)
    books.give_up(slot, 1.0)
    assert books.lookup(9) is None
    assert books.available == 3
    books.end_read(slot, 2.0)
    assert books.available == books.counts[FREE] == 4


def test_what_is_given_up_while_it_is_written_is_free_with_the_end_of_the_copy(books: TierBooks) -> None:
    slot = books.take(0.0, fill=4, owner=5)
    books.give_up(slot, 1.0)
    assert books.available == 3
    books.wrote(slot, 2.0, ok=True)
    assert books.available == books.counts[FREE] == 4


def test_every_content_has_a_generation_of_its_own(books: TierBooks) -> None:
    slot = cache(books, 9)
    first = books.start_read(slot, 0.0)
    books.end_read(slot, 0.0)
    books.give_up(slot, 0.0)
    assert books.take(0.0, fill=4, hash_=9) == slot
    assert books.generation[slot] == first + 1


def test_a_reset_forgets_what_is_cached_and_what_is_on_its_way(books: TierBooks) -> None:
    cache(books, 9)
    on_its_way = books.take(0.0, fill=4, hash_=10)
    held = books.take(0.0, fill=4, owner=1)
    books.wrote(held, 0.0, ok=True)
    assert books.reset() == 2
    books.wrote(on_its_way, 2.0, ok=True)
    assert books.index == {}
    assert books.counts == {FREE: 3, CACHED: 0, HELD: 1, TRANSFER: 0}


def test_misuse_is_refused(books: TierBooks) -> None:
    slot = cache(books, 9)
    with pytest.raises(BooksError, match="already"):
        books.take(0.0, fill=4, hash_=9)
    with pytest.raises(BooksError, match="not being written"):
        books.wrote(slot, 0.0, ok=True)
    with pytest.raises(BooksError, match="not being read"):
        books.end_read(slot, 0.0)
    books.give_up(slot, 0.0)
    with pytest.raises(BooksError, match="free already"):
        books.give_up(slot, 0.0)
