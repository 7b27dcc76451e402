"""The ledger finds each kind of broken book, and says which block and whose."""

from collections.abc import Callable

import pytest

from engine.memory.blocks import ACTIVE, CACHED
from engine.memory.free_list import ABSENT
from engine.scheduling import audit
from engine.scheduling.ledger import REPORTED
from tests.engine.driving import Drive


@pytest.fixture
def drive() -> Drive:
    """Two running requests with a shared prefix (blocks 0 and 1) and one waiting, some blocks cached, some free."""
    drive = Drive(blocks=12, capacity="guaranteed_no_evict", max_running=2)
    prefix = list(range(8))
    drive.add(0, prompt=[*range(50, 59)], max_tokens=1)
    drive.step()
    drive.add(1, prompt=[*prefix, 91], max_tokens=9)
    drive.step()
    drive.add(2, prompt=[*prefix, 81], max_tokens=9)
    drive.step()
    drive.add(3)
    drive.step()
    assert drive.running == ["r1", "r2"]
    assert drive.waiting == ["r3"]
    assert drive.pool.shared_blocks == 2
    assert drive.pool.cached_blocks == 2
    return drive


def table(drive: Drive, num: int) -> list[int]:
    return drive.requests[num].block_table


def own(drive: Drive, num: int) -> int:
    """The block that only request ``num`` holds."""
    return table(drive, num)[2]


def cached(drive: Drive) -> int:
    return int((drive.pool.state == CACHED).nonzero()[0][0])


def leak(d: Drive) -> None:
    table(d, 1).pop()


def free_in_use(d: Drive) -> None:
    d.pool.free_list.append(own(d, 1))


def lose(d: Drive) -> None:
    d.pool.evictable.remove(cached(d))


def twice_in_list(d: Drive) -> None:
    block = d.pool.free_list.pop_head()
    d.pool.free_list.prepend(block)
    d.pool.free_list.next[block] = d.pool.free_list.prev[block] = ABSENT
    d.pool.free_list.append(block)


def in_both_lists(d: Drive) -> None:
    d.pool.free_list.append(cached(d))


def stale_order(d: Drive) -> None:
    d.pool.stamp_idle(next(iter(d.pool.evictable)))


def alias(d: Drive) -> None:
    table(d, 2)[2] = own(d, 1)


def counted_alias(d: Drive) -> None:
    old, block = own(d, 2), own(d, 1)
    d.pool.release(old, 2, 0.0)
    table(d, 2)[2] = block
    d.pool.sealed[block] = True
    d.pool.share(block, 2, 0.0)
    d.pool.sealed[block] = False


def wrong_owner(d: Drive) -> None:
    d.pool.owner[table(d, 1)[0]] = 2


def wrong_state(d: Drive) -> None:
    d.pool.state[table(d, 1)[0]] = ACTIVE


def wrong_fill(d: Drive) -> None:
    d.pool.fill[own(d, 2)] += 1


def stale_index(d: Drive) -> None:
    d.pool.index.add(0xBAD, own(d, 1))


def hash_on_unfinished(d: Drive) -> None:
    block = own(d, 1)
    d.pool.hash[block] = 0xBAD
    d.pool.index.add(0xBAD, block)


def foreign_hash(d: Drive) -> None:
    block = table(d, 1)[0]
    d.pool.forget(block)
    d.pool.hash[block] = 0xBAD
    d.pool.index.add(0xBAD, block)


def wrong_gauge(d: Drive) -> None:
    d.pool.counts[CACHED] += 1


def wrong_tokens(d: Drive) -> None:
    d.pool.group_tokens[0] -= 3


def wrong_promise(d: Drive) -> None:
    d.requests[1].reserved_blocks += 1


def wrong_sum(d: Drive) -> None:
    d.scheduler.promised.blocks += 1


def wrong_sharers(d: Drive) -> None:
    d.pool.sharers[table(d, 1)[0]] = {1, 9}


def block_beyond_the_pool(d: Drive) -> None:
    table(d, 1).append(99)


def block_twice(d: Drive) -> None:
    table(d, 1).append(table(d, 1)[0])


def waiting_with_blocks(d: Drive) -> None:
    table(d, 3).append(cached(d))


def unlisted(d: Drive) -> None:
    d.scheduler.running.pop()


def wrong_computed(d: Drive) -> None:
    d.requests[1].computed_tokens = 60


FAULTS: list[tuple[Callable[[Drive], None], str]] = [
    (leak, "block {own1} counts 1 references, but it is in 0 tables, of no request"),
    (free_in_use, "block {own1} is in the free list while 1 tables hold it"),
    (lose, "is lost: no request holds it and it is not in the free list"),
    (twice_in_list, "the free list counts"),
    (in_both_lists, "is in the free list 2 times, the order of eviction included"),
    (stale_order, "stands at a wrong place in the order of eviction (lru)"),
    (alias, "block {own1} counts 1 references, but it is in 2 tables, of requests r1, r2"),
    (counted_alias, "block {own1} is in the tables of requests r1, r2 though it can still be written (3 of 4 tokens)"),
    (wrong_owner, "block {first} names 2 as its owner, but the first to hold it is 1, of requests r1, r2"),
    (wrong_state, "block {first} is marked active, but it is shared"),
    (wrong_fill, "as block 2 of request r2 it should hold"),
    (stale_index, "the prefix index finds block {own1} by 0000000000000bad, its hash is 0000000000000000"),
    (hash_on_unfinished, "block {own1} of request r1 has a hash but only 3 of 4 tokens"),
    (foreign_hash, "block {first} has the hash 0000000000000bad, but block 0 of request r1 is"),
    (wrong_gauge, "2 blocks are cached, the gauge says 3"),
    (wrong_tokens, "tokens, the gauge says"),
    (wrong_promise, "request r1 is promised 3 blocks; capacity=guaranteed_no_evict owes it 2"),
    (wrong_sum, "requests are promised 4 blocks, the scheduler counts 5"),
    (wrong_sharers, "block {first} is held by request r2, who is not among its sharers"),
    (block_beyond_the_pool, "request r1 holds block 99, which the pool does not have"),
    (block_twice, "request r1 has one block at two places of its table"),
    (waiting_with_blocks, "request r3 waits but has 1 blocks"),
    (unlisted, "running and waiting lists hold [1, 3]"),
    (wrong_computed, "request r1 has 60 computed tokens in 3 blocks"),
]


def test_books_that_agree_give_no_complaint(drive: Drive) -> None:
    assert drive.scheduler.ledger_violations() == []


@pytest.mark.parametrize(("plant", "says"), FAULTS, ids=[plant.__name__ for plant, _ in FAULTS])
def test_a_broken_book_is_named(drive: Drive, plant: Callable[[Drive], None], says: str) -> None:
    expected = says.format(own1=own(drive, 1), first=table(drive, 1)[0])
    plant(drive)
    found = drive.scheduler.ledger_violations()
    assert any(expected in sentence for sentence in found), found


@pytest.mark.parametrize("plant", [plant for plant, _ in FAULTS], ids=[plant.__name__ for plant, _ in FAULTS])
def test_an_audit_finds_it_piece_by_piece_and_says_what_the_ledger_says(
    drive: Drive, plant: Callable[[Drive], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "PIECE", 5)
    assert drive.scheduler.audit.round() == []
    plant(drive)
    whole = drive.scheduler.ledger_violations()
    for _ in range(200):
        if (found := drive.scheduler.audit.work(0.0)) is not None:
            break
    assert found == whole


def test_a_fault_between_two_pieces_is_found_by_the_next_round(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PIECE", 1)
    for _ in range(12):
        assert drive.scheduler.audit.work(0.0) is None
    assert drive.scheduler.audit.under_way
    table(drive, 1).pop()
    drive.scheduler.audit.round()
    assert drive.scheduler.audit.round() != []


def test_a_round_goes_on_while_requests_come_and_go(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PIECE", 1)
    rounds = 0
    for num in range(4, 60):
        drive.add(num, max_tokens=3)
        drive.step()
        found = drive.scheduler.audit.work(0.0)
        assert not found
        rounds += found is not None
    assert rounds > 0


@pytest.mark.parametrize("before", range(4))
def test_promises_that_are_kept_between_two_pieces_are_no_false_alarm(before: int) -> None:
    """All that is available is promised, and every fourth token takes a block, so that both become less."""
    drive = Drive(blocks=16, capacity="guaranteed_no_evict")
    drive.add(1, prompt=[1], max_tokens=64)
    for _ in range(1 + before):
        drive.step()
    rounds = 0
    while drive.running:
        assert drive.scheduler.reserved_blocks == drive.pool.available
        found = drive.scheduler.audit.work(0.0)
        assert not found
        rounds += found is not None
        drive.step()
    assert rounds > 0


def test_a_long_list_is_cut_and_counted() -> None:
    drive = Drive(blocks=100)
    drive.pool.fill[:] = 1
    found = drive.scheduler.ledger_violations()
    assert len(found) == REPORTED + 1
    assert found[-1] == f"and {100 - REPORTED} more violations"
