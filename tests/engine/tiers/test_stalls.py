"""Waiting for copies: how often and how long, told once; and what is stored ahead of eviction while it is worth keeping."""

import pytest

from engine.core import Engine
from engine.requests.retention import Retention
from engine.tiers.books import CACHED, TierBooks
from engine.tiers.tiers import Tiers
from tests.engine.driving import Drive
from tests.engine.fake_model import Clock
from tests.engine.tiers.late import LateMover, Trouble


class Slow(LateMover):
    """Each wait for a copy takes its time."""

    clock: Clock

    def wait(self, seconds: float) -> bool:
        self.clock.now += seconds
        return super().wait(seconds)


def tiered(blocks: int, trouble: Trouble, **policies: str | int) -> tuple[Drive, Tiers, Slow]:
    drive = Drive(blocks, **policies)
    mover = Slow(drive.runner._memory, trouble=trouble)
    tiers = drive.scheduler.roster.tiers = Tiers(drive.pool, [TierBooks(1, "host", 40)], mover)
    return drive, tiers, mover


def test_one_wait_for_a_copy_is_one_stall_however_often_the_loop_looks_and_is_all_in_the_next_iteration() -> None:
    drive, tiers, mover = tiered(16, Trouble(late=0.0), offload="on_fill")
    drive.add(1, prompt=list(range(500, 512)), max_tokens=1)
    drive.run_out()
    while tiers.pending:
        drive.step()
    drive.pool.reset_hashes()
    mover.clock = clock = Clock()
    clock.now = drive.now
    engine = Engine(drive.scheduler, drive.runner, clock)
    mover.trouble = Trouble(late=1.0)
    drive.add(2, prompt=[*range(500, 512), 7], max_tokens=2)
    admitted = engine.step()
    assert admitted is not None
    assert [engine.step() for _ in range(4)] == [None] * 4
    mover.trouble = Trouble(late=0.0)
    went_on = engine.step()
    assert went_on is not None
    assert tiers.levels[1].stalls == 1
    assert tiers.levels[1].stall_ms == pytest.approx(admitted.transfer_wait_ms + went_on.transfer_wait_ms)
    assert went_on.transfer_wait_ms == pytest.approx(4 * 50.0)
    assert sum(traffic.stalls for traffic in tiers.traffic.values()) == 1


@pytest.mark.parametrize(("later", "stored"), [(5.0, False), (50.0, True)], ids=["not worth storing", "as any other"])
def test_retention_that_has_run_out_says_nothing_about_a_block(later: float, stored: bool) -> None:
    drive, tiers, _ = tiered(4, Trouble(late=0.0))
    little = Retention(0, None, 10, seconds=20.0)
    drive.add(1, prompt=list(range(500, 512)), max_tokens=1, retention=(little,))
    drive.step()
    drive.now += later
    # One block is free; a second one is to be, and its content goes out only where it is worth that.
    drive.scheduler.set_policies({"offload": "by_priority"}, "drain", drive.now)
    drive.add(2, prompt=1, max_tokens=2)
    for _ in range(3):
        drive.step()
    assert any(books.counts[CACHED] for books in tiers.books) == stored
