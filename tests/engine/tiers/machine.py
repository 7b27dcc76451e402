"""The scheduler's state machine with tiers below the device, whose copies come late, out of order, or fail."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from engine.policies.offload import OFFLOADS, TIER_FULLS
from engine.policy import PolicySet
from engine.pool import BlockPool
from engine.scheduler import Scheduler
from engine.tiers.books import HELD, TRANSFER, TierBooks
from engine.tiers.tiers import Tiers
from tests.engine.driving import BLOCK, FakeRunner, Mirror
from tests.engine.machine import CONTEXT, VALUES, SchedulerMachine
from tests.engine.tiers.late import LateMover, Trouble


class TieredMachine(SchedulerMachine):
    @initialize(
        blocks=st.integers(8, 26),
        host=st.integers(1, 40),
        disk=st.sampled_from([0, 0, 3, 60]),
        capacity=VALUES["capacity"],
        action=st.sampled_from(["swap", "swap", "swap_disk", "recompute"]),
        offload=st.sampled_from(list(OFFLOADS)),
        full=st.sampled_from(list(TIER_FULLS)),
        budget=st.sampled_from([16, 64]),
        late=st.sampled_from([0.0, 0.5, 0.9]),
        fail=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
        seed=st.integers(0, 999),
    )
    def start(  # type: ignore[override]
        self,
        blocks: int,
        host: int,
        disk: int,
        capacity: str,
        action: str,
        offload: str,
        full: str,
        budget: int,
        late: float,
        fail: float,
        seed: int,
    ) -> None:
        self.pool = BlockPool(blocks, BLOCK)
        policies = PolicySet.of(
            {
                "capacity": capacity,
                "token_budget": budget,
                "max_running": 6,
                "preempt_action": action,
                "offload": offload,
                "tier_full": full,
            }
        )
        self.runner = FakeRunner(self.pool, seed)
        self.mover = LateMover(self.runner._memory, seed, Trouble(fail, late))
        books = [TierBooks(1, "host", host)] + ([TierBooks(2, "disk", disk)] if disk else [])
        self.tiers = Tiers(self.pool, books, self.mover)
        self.scheduler = Scheduler(self.pool, policies, max_model_len=CONTEXT, tiers=self.tiers)
        self.mirror = Mirror(self.pool)
        self.now = 0.0
        self.arrived = 0
        self.barren = 0

    @rule(late=st.sampled_from([0.0, 0.5, 0.95]), fail=st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    def the_copies_go_otherwise(self, late: float, fail: float) -> None:
        self.mover.trouble = Trouble(fail, late)

    @rule(which=st.integers(0, 99))
    def abort_or_preempt_whoever_is_in_transit(self, which: int) -> None:
        nums = [*self.tiers.swapped, *self.tiers.loading]
        if not nums:
            return
        request = self.scheduler.requests[nums[which % len(nums)]]
        if which % 2 and request in self.scheduler.running:
            self.scheduler.preempt(request, self.now, "test")
        elif which % 3:
            self.scheduler.abort(request, self.now)
        else:
            with pytest.raises(ValueError, match="is not new"):
                self.scheduler.add(request, self.now)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.mover.trouble = Trouble(fail=self.mover.trouble.fail, late=0.3)
        super().teardown()
        for _ in range(1000):
            if not self.tiers.pending:
                break
            self.scheduler.schedule(self.now)
        assert not self.tiers.pending
        assert not self.tiers.swapped
        assert self.scheduler.ledger_violations() == []
        assert self.pool.available == self.pool.total, "blocks are left in transfer"
        assert all(books.counts[HELD] == books.counts[TRANSFER] == 0 for books in self.tiers.books)
