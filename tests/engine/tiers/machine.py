"""The scheduler's state machine with tiers below the device, whose copies come late, out of order, or fail."""

import random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine.memory.prefix import NO_HASH
from engine.policies.offload import OFFLOADS, TIER_FULLS
from engine.tiers.books import HELD, TRANSFER, TierBooks
from engine.tiers.tiers import Tiers
from kvtop.protocol import PolicyValue
from tests.engine.machine import SchedulerMachine
from tests.engine.tiers.late import LateMover, Trouble


class TieredMachine(SchedulerMachine):
    def prepare(self, draw: random.Random) -> None:
        trouble = Trouble(fail=draw.choice([0.0, 0.0, 0.1, 0.5]), late=draw.choice([0.0, 0.5, 0.9]))
        self.mover = LateMover(self.runner._memory, draw.randrange(1000), trouble)
        books = [TierBooks(1, "host", draw.choice([1, 4, 4, 6, 15, 40]))]
        if disk := draw.choice([0, 0, 3, 60]):
            books.append(TierBooks(2, "disk", disk))
        self.tiers = self.scheduler.roster.tiers = Tiers(self.pool, books, self.mover)
        changes: dict[str, PolicyValue] = {
            "preempt_action": draw.choice(["swap", "swap", "swap_disk", "recompute"]),
            "offload": draw.choice(list(OFFLOADS)),
            "tier_full": draw.choice(list(TIER_FULLS)),
            "prefetch": draw.choice(["queue_head", "queue_head", "off"]),
        }
        self.scheduler.set_policies(changes, "drain", self.now)

    @rule(seed=st.integers(0, 2**32), transition=st.sampled_from(["drain", "preempt"]))
    def another_kv_dtype_while_blocks_travel(self, seed: int, transition: str) -> None:
        self.go_out_and_come_back("swap", "on_fill", seed)
        for kv_dtype in ("int8", "float32"):
            self.set_policies({"kv_dtype": kv_dtype}, transition)
            self.step(6)

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

    @rule(
        action=st.sampled_from(["swap", "swap", "swap_disk"]),
        offload=st.sampled_from(["on_fill", "on_evict"]),
        seed=st.integers(0, 2**32),
    )
    def go_out_and_come_back(self, action: str, offload: str, seed: int) -> None:
        self.set_policies(
            {
                "capacity": "max_utilization",
                "preempt_action": action,
                "offload": offload,
                "prefix_cache": True,
                "max_running": 4,
                "token_budget": 64,
            },
            "drain",
        )
        self.arrive_while_steps_go_on(seed)
        for request in list(self.scheduler.running):
            if request in self.scheduler.running:  # Others go with a beam of their group.
                self.scheduler.preempt(request, self.now, "test")
        self.step(8)

    @rule(seed=st.integers(0, 2**32), running=st.integers(1, 3), late=st.sampled_from([0.0, 0.5, 0.9]))
    def wait_at_the_head_for_what_lies_below(self, seed: int, running: int, late: float) -> None:
        """Everything stored, everything forgotten on the device, and few may run: what the head wants is brought ahead."""
        self.set_policies({"prefix_cache": True, "offload": "on_fill", "max_running": 8, "token_budget": 64}, "drain")
        self.arrive_while_steps_go_on(seed)
        self.step(6)
        if not self.pool.pinned_total:
            self.pool.reset_hashes()
            for request in self.scheduler.running:
                request.chained = 0
        self.set_policies({"prefetch": "queue_head", "max_running": running}, "drain")
        self.mover.trouble = Trouble(self.mover.trouble.fail, late)
        self.arrive_while_steps_go_on(seed)
        self.step(4)

    @rule(seed=st.integers(0, 99))
    def change_what_is_on_its_way(self, seed: int) -> None:
        """While blocks are brought ahead, their head goes, or what they hold is to be forgotten, or nobody wants it."""
        if not self.tiers.prefetches.under_way:
            return
        coming = list(self.tiers.prefetches.under_way)
        head = self.scheduler.waiting.head
        if seed % 4 == 0 and head is not None:
            self.scheduler.abort(head, self.now)
        elif seed % 4 == 1:
            self.reset_prefix_cache()
        elif seed % 4 == 2:
            self.set_policies({"prefix_cache": False}, "drain")
        else:
            self.set_policies({"prefetch": "off", "order": "shortest_prompt"}, "drain")
        if seed % 4 in (1, 2):
            assert all(each.hash == NO_HASH for each in coming), "what is forgotten could be found when it has come"
        self.step(2)

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.mover.trouble = Trouble(fail=self.mover.trouble.fail, late=0.3)
        super().teardown()
        for _ in range(1000):
            if not self.tiers.pending:
                break
            plan = self.scheduler.schedule(self.now)
            output = self.runner.run(plan.items, plan.copies)
            self.scheduler.commit(plan, output, self.now)
        assert not self.tiers.pending
        assert not self.tiers.swapped
        assert self.scheduler.ledger_violations() == []
        assert self.pool.available + self.pool.pinned_total == self.pool.total, "blocks are left in transfer"
        assert all(books.counts[HELD] == books.counts[TRANSFER] == 0 for books in self.tiers.books)
