"""The tiers' part of the ledger: broken books are named, and an audit looks at a large tier a little at a time."""

from collections.abc import Callable

import pytest

from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH
from engine.policies.policy_set import PolicySet
from engine.scheduling.scheduler import Scheduler
from engine.tiers import ledger
from engine.tiers.books import HELD, TierBooks
from engine.tiers.tiers import Tiers
from tests.engine.tiers.late import LateMover

SLOTS = 40


def make() -> tuple[Scheduler, TierBooks]:
    """A host tier that holds content in its first six slots."""
    pool, books = BlockPool(8, 4), TierBooks(1, "host", SLOTS)
    for hash_ in range(1, 7):
        books.wrote(books.take(1.0, fill=4, hash_=hash_), 1.0, ok=True)
    tiers = Tiers(pool, [books], LateMover([]))
    return Scheduler(pool, PolicySet.of({}), max_model_len=32, tiers=tiers), books


def pieces(scheduler: Scheduler) -> int:
    """Of one round of the audit, which finds nothing."""
    for count in range(1, 1000):
        if (found := scheduler.audit.work(0.0)) is not None:
            assert found == []
            return count
    raise AssertionError


def test_an_audit_looks_at_a_large_tier_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100,000 slots a look at all of them lengthened one iteration by 30 ms."""
    monkeypatch.setattr(ledger, "PIECE", 4, raising=False)
    scheduler, _ = make()
    without = Scheduler(BlockPool(8, 4), PolicySet.of({}), max_model_len=32)
    assert pieces(scheduler) - pieces(without) >= SLOTS / 4


def _forgotten(books: TierBooks) -> None:
    del books.index[1]


def _elsewhere(books: TierBooks) -> None:
    books.index[1] = 3


def _without_hash(books: TierBooks) -> None:
    books.hash[0] = NO_HASH


def _lost(books: TierBooks) -> None:
    books.unused.remove(7)


def _taken_twice(books: TierBooks) -> None:
    books.unused.next[9] = books.unused.next[10]


def _for_nobody(books: TierBooks) -> None:
    books.state[0] = HELD


def _for_somebody_unknown(books: TierBooks) -> None:
    slot = books.take(1.0, fill=4, owner=12)
    books.wrote(slot, 1.0, ok=True)


def _miscounted(books: TierBooks) -> None:
    books.counts[HELD] += 1


def _read_by_nobody(books: TierBooks) -> None:
    books.start_read(2, 1.0)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (_forgotten, "slot 0"),
        (_elsewhere, "slot 0"),
        (_without_hash, "5 host slots have a hash, 6 can be found"),
        (_lost, "slot 7"),
        (_taken_twice, "slot 10"),
        (_for_nobody, "slot 0 is held for nobody"),
        (_for_somebody_unknown, "1 host slots are held for swapped requests"),
        (_miscounted, "0 host slots are in state"),
        (_read_by_nobody, "slot 2"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_broken_book_is_named(plant: Callable[[TierBooks], None], says: str) -> None:
    scheduler, books = make()
    assert scheduler.ledger_violations() == []
    plant(books)
    found = scheduler.ledger_violations()
    assert any(says in sentence for sentence in found), found
    assert scheduler.audit.round() == found
