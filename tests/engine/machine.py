"""A state machine that does to the scheduler whatever users and operators may do, in any order."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.memory.places import places
from engine.memory.pool import BlockPool
from engine.memory.window import Windows
from engine.policies.capacity import CAPACITIES
from engine.policies.compaction import COMPACTIONS
from engine.policies.eviction import EVICTIONS
from engine.policies.free_order import FREE_ORDERS
from engine.policies.offload import OFFLOADS, TIER_FULLS
from engine.policies.order import ORDERS
from engine.policies.policy_set import PolicySet
from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.policies.requeue import REQUEUES
from engine.policies.victim import VICTIMS
from engine.requests.batch import BatchItem
from engine.requests.members import is_one_search, leader_of, width_taken
from engine.requests.request import NULL_BLOCK, FinishReason, Request, RequestState
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.scheduling.admission import never_fits
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from engine.scheduling.output import SchedulerOutput
from engine.scheduling.roster import RUNNING_STATES
from engine.scheduling.scheduler import Scheduler
from tests.engine.beams import ended_by_itself, outputs_of, search
from tests.engine.driving import BLOCK, FakeRunner, FakeStorage, Mirror, make_request

CONTEXT = 120
"""Tokens; more than the pools hold, so that some requests can never reach their maximum."""

RETENTIONS = [
    (),
    (),
    (Retention(0, 12, 90),),
    (Retention(0, 9, 60, seconds=6.0), Retention(4, None, 10)),
    (Retention(0, None, 35, seconds=3.0),),
]

SAMPLINGS = [Sampling(), Sampling(), Sampling(logprobs=0), Sampling(logprobs=2)]

VALUES: dict[str, st.SearchStrategy[bool | int | float | str]] = {
    "capacity": st.sampled_from(["max_utilization", *CAPACITIES]),
    "order": st.sampled_from(list(ORDERS)),
    "victim": st.sampled_from(list(VICTIMS)),
    "preempt_action": st.sampled_from(["recompute", *PREEMPT_ACTIONS]),
    "requeue": st.sampled_from(list(REQUEUES)),
    "resume_gate": st.sampled_from([1.0, 0.8, 0.3, 0.0]),
    "preempt_bound": st.sampled_from([0, 1, 2, 5]),
    "eviction": st.sampled_from(list(EVICTIONS)),
    "free_order": st.sampled_from(list(FREE_ORDERS)),
    "offload": st.sampled_from(list(OFFLOADS)),
    "prefetch": st.sampled_from(["queue_head", "queue_head", "off"]),
    "tier_full": st.sampled_from(list(TIER_FULLS)),
    "pin_limit": st.sampled_from([0.5, 0.9, 0.2, 0.0]),
    "compaction": st.sampled_from(list(COMPACTIONS)),
    "compaction_moves": st.sampled_from([1, 3, 16]),
    "kv_dtype": st.sampled_from(["float32", "float32", "float32", "int8"]),
    "prefix_cache": st.booleans(),
    "partial_reuse": st.sampled_from(["copy", "exclusive", "copy", "exclusive", "off"]),
    "max_running": st.integers(1, 8),
    "token_budget": st.sampled_from([64, 32, 16, 1]),
    "watermark": st.sampled_from([0.0, 0.1, 0.5]),
}


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        blocks=st.integers(8, 26),
        capacity=VALUES["capacity"],
        budget=st.sampled_from([16, 64]),
        eviction=VALUES["eviction"],
        windows=st.sampled_from([(None,), (None,), (5,), (11, 3), (40, None), (6, 6, 6, None)]),
        seed=st.integers(0, 999),
    )
    def start(self, blocks: int, capacity: str, budget: int, eviction: str, windows: Windows, seed: int) -> None:
        self.pool = BlockPool(blocks * len(windows), BLOCK, windows=windows)
        policies = PolicySet.of(
            {
                "capacity": capacity,
                "token_budget": budget,
                "max_running": 6,
                "eviction": eviction,
                # Prompts that begin alike within a block are rare: where the policy is off too, nobody would see a fault.
                "partial_reuse": ("off", "copy", "exclusive")[seed % 3],
            }
        )
        self.scheduler = Scheduler(self.pool, policies, max_model_len=CONTEXT, kv_dtypes=("float32", "int8"))
        self.runner = FakeRunner(self.pool, seed)
        self.storage = FakeStorage(self.scheduler, self.runner)
        self.mirror = Mirror(self.pool)
        self.now = 0.0
        self.arrived = 0
        self.known: list[Request] = []
        self.barren = 0
        self.searched = 0
        self.prepare(random.Random(seed))

    def prepare(self, draw: random.Random) -> None:
        """More for machines that build on this one."""

    # What users do

    @rule(seed=st.integers(0, 2**32))
    def arrive(self, seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(draw.randint(2, 6)):
            self._submit(draw)

    @rule(seed=st.integers(0, 2**32))
    def arrive_while_steps_go_on(self, seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(draw.randint(3, 10)):
            self._submit(draw)
            self.step(draw.randint(1, 5))

    def _submit(self, draw: random.Random) -> None:
        num = self.arrived
        self.arrived += 1
        # Forks share 10 tokens with each other and 24 with their own kind.
        fork = draw.choice([0, 0, 0, 1, 2])
        prefix = [i if i < 10 else 100 * fork + i for i in range(draw.choice([0, 9, 12, 24, 24]))]
        prompt = prefix + [1000 + (7 * num + i) % 900 for i in range(draw.choice([1, 3, 10, 30]))]
        request = make_request(
            num,
            prompt,
            draw.choice([1, 5, 20, 90]),
            arrival=self.now,
            priority=draw.randint(-2, 2),
            cache_salt=draw.choice(["", "", "", "tenant"]),
            stop_ids=draw.choice([frozenset(), frozenset({7, 8})]),
            retention=draw.choice(RETENTIONS),
            sampling=SAMPLINGS[num % len(SAMPLINGS)],
        )
        if (more := draw.choice([0, 0, 0, 1, 3])) > 0:
            nums = list(range(self.arrived, self.arrived + more))
            if draw.random() < 0.5:
                add_beams(request, nums, draw.choice([1.0, 0.0]))
            else:
                add_samples(request, nums)
            self.arrived += more
        if self.pool.blocks_for(len(prompt)) <= self.pool.total:
            self.scheduler.add(request, self.now)
            self.known.append(request)
            return
        with pytest.raises(ValueError, match="the whole pool has"):
            self.scheduler.add(request, self.now)

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.scheduler.requests)
    def abort(self, which: int) -> None:
        request = self._pick(which, list(self.scheduler.requests.values()))
        self.scheduler.abort(request, self.now)
        assert request.state is RequestState.FINISHED
        assert request.finish_reason is FinishReason.ABORT
        self.runner.check_logprobs(request)
        assert request.num not in self.scheduler.requests

    # What the engine does

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        self.scheduler.resume()
        for _ in range(count):
            self._step()

    @rule(count=st.integers(8, 30))
    def step_for_long(self, count: int) -> None:
        self.step(count)

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.scheduler.requests)
    def step_with_an_abort_before_the_commit(self, which: int) -> None:
        plan = self.scheduler.schedule(self.now)
        output = self.runner.run(plan.items, plan.copies)
        if self.scheduler.requests:
            self.abort(which)
        self.scheduler.commit(plan, output, self.now)

    # What operators do

    @rule(changes=st.fixed_dictionaries({}, optional=VALUES), transition=st.sampled_from(["drain", "preempt"]))
    def set_policies(self, changes: dict[str, bool | int | float | str], transition: str) -> None:
        before = self._snapshot()
        announced = self.scheduler.preview(changes, transition)
        assert self._snapshot() == before, "a preview changed something"
        change = self.scheduler.set_policies(changes, transition, self.now)
        assert change.effects == announced
        assert all(self.scheduler.policies.values()[axis] == value for axis, value in changes.items())
        named = " ".join(announced)
        for preemption in change.preempted[:6]:
            assert preemption.victim.id in named, "a victim was not announced"
        if transition == "preempt":
            assert "max_running" not in changes or self._few_enough()
            assert "capacity" not in changes or not self.scheduler.draining or self._copying()
            limit = self.scheduler.policies.pin_limit
            assert "pin_limit" not in changes or self.pool.pinned_total <= limit * self.pool.total
        else:
            assert not change.preempted

    @rule(
        capacity=st.sampled_from(["guaranteed_no_evict", "static_batch"]),
        transition=st.sampled_from(["drain", "preempt"]),
        seed=st.integers(0, 2**32),
    )
    def demand_a_guarantee_of_a_busy_engine(self, capacity: str, transition: str, seed: int) -> None:
        self.set_policies({"capacity": "max_utilization", "token_budget": 64, "max_running": 8}, "drain")
        self.arrive_while_steps_go_on(seed)
        self.set_policies({"capacity": capacity}, transition)
        self.step(3)

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.scheduler.running)
    def preempt(self, which: int) -> None:
        victim = self._pick(which, self.scheduler.running)
        record = self.scheduler.preempt(victim, self.now, "test")
        assert record.victim is leader_of(victim)
        victim = record.victim
        if PREEMPT_ACTIONS[self.scheduler.policies.preempt_action].requeues:
            assert victim.state is RequestState.PREEMPTED
            assert victim in self.scheduler.waiting
        else:
            assert victim.state is RequestState.FINISHED
            assert victim.num not in self.scheduler.requests
            assert victim.finish_detail == "preempted under preempt_action=abort: test"

    @rule(first=st.integers(0, 26), count=st.integers(0, 12), moves=st.sampled_from([1, 3, 16]))
    def compact(self, first: int, count: int, moves: int) -> None:
        self.scheduler.set_policies({"compaction_moves": moves}, "drain", self.now)
        end = min(first + count, self.pool.total)
        planned = self.scheduler.compact((first, end) if first < end else None)
        self.step(1 if first % 2 else -(-planned // moves) + 1)

    @rule(which=st.integers(0, 99), finished=st.booleans())
    @precondition(lambda self: self.known)
    def pin(self, which: int, finished: bool) -> None:
        known = self.known if finished else list(self.scheduler.requests.values()) or self.known
        request, pinned = self._pick(which, known), self.pool.pinned_total
        try:
            pin = self.scheduler.pin(request)
        except ValueError:
            assert self.pool.pinned_total == pinned, "a refused pin pinned something"
            return
        assert [self.pool.lookup(hash_) for hash_ in pin.hashes] == pin.blocks
        assert self.pool.pinned_total <= self.scheduler.policies.pin_limit * self.pool.total

    @rule(which=st.integers(0, 99))
    @precondition(lambda self: len(self.scheduler.pins))
    def unpin(self, which: int) -> None:
        self.scheduler.unpin(list(self.scheduler.pins.by_name)[which % len(self.scheduler.pins)])

    @rule()
    def reset_prefix_cache(self) -> None:
        self.scheduler.reset_prefix_cache()
        assert self.pool.cached_blocks == 0
        assert self.pool.changes.all_hashes() == []

    @rule()
    def pause(self) -> None:
        """The next step resumes; until then, the other rules act on a paused scheduler."""
        self.scheduler.pause()
        self._step()

    # What must hold

    @invariant()
    def books_agree(self) -> None:
        if hasattr(self, "scheduler"):
            assert self.scheduler.ledger_violations() == []
            self.mirror.check()

    def teardown(self) -> None:
        """Whatever happened before, everything ends."""
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.resume()
        for _ in range(20_000):
            if not self.scheduler.requests:
                break
            self._step()
        assert not self.scheduler.requests, "requests are left that never end"
        assert self.pool.active_blocks == self.pool.shared_blocks == self.pool.tokens_in_use == 0
        assert self.scheduler.reserved_blocks == 0

    def _step(self) -> None:
        self._switch_if_due()
        scheduler, policies = self.scheduler, self.scheduler.policies
        queue, ran = list(scheduler.waiting), list(scheduler.running)
        before = {request.num: request.preemptions for request in ran}
        plan = scheduler.schedule(self.now)
        assert scheduler.ledger_violations() == []
        self._check_admissions(plan, queue, ran)
        self._check_items(plan.items)
        if plan.preempted:
            assert not CAPACITIES[policies.capacity].reserves or scheduler.draining, "preempted against its guarantee"
            self._check_victims(plan, before)
        if scheduler.paused:
            assert not plan.items
            assert not plan.preempted
        elif ran or queue:
            idle = scheduler.switching and not ran  # What held the switch up has ended now; it comes next.
            assert plan.items or plan.rejected or idle or self._copying(), "a step with work to do did nothing"
        produced = scheduler.totals.decode_tokens + scheduler.totals.ended
        self.now += 1.0
        output = self.runner.run(plan.items, plan.copies)
        finished = scheduler.commit(plan, output, self.now)
        assert scheduler.ledger_violations() == []
        self.mirror.check()
        for request in (item.request for item in plan.items):
            assert request.logprobs is None or len(request.logprobs) == request.output_tokens
        for request in finished:
            self.runner.check_logprobs(request)
            assert request.state is RequestState.FINISHED
            assert request.output_tokens <= request.max_tokens
            if request.beam is not None and request is request.beam.leader:
                self._check_beams(request)
        idle = scheduler.paused or not plan.items
        gained = scheduler.totals.decode_tokens + scheduler.totals.ended > produced
        self.barren = self.barren if idle else 0 if gained else self.barren + 1
        assert self.barren < 500, "the engine computes and computes and no token comes of it"

    def _switch_if_due(self) -> None:
        if not self.scheduler.kv_switch_due:
            return
        wanted = self.scheduler.policies.kv_dtype
        self.storage.fails = [] if self.arrived % 3 else ["planned to fail"]
        switch = self.scheduler.switch_kv(self.storage, self.now)
        assert (switch.error is None) == (self.scheduler.kv_types.in_force == wanted)
        assert not self.scheduler.switching
        assert self.scheduler.ledger_violations() == []

    def _check_admissions(self, plan: SchedulerOutput, queue: list[Request], ran: list[Request]) -> None:
        scheduler = self.scheduler
        verdict = scheduler.verdict
        assert plan.verdict is verdict
        assert (verdict is None) == (scheduler.waiting.head is None), "the head waits without a verdict"
        if verdict is not None:
            assert verdict.request is scheduler.waiting.head
            assert verdict.detail
        if not plan.admitted:
            return
        assert not plan.preempted, "admitted in a step that preempted"
        assert not scheduler.paused
        assert not scheduler.draining
        assert not scheduler.switching
        assert self._few_enough()
        assert scheduler.policies.capacity != "static_batch" or not ran, "joined a static batch that runs"
        if ran and not plan.admitted[0].first:
            used = self._used_by(ran)
            assert used <= scheduler.policies.resume_gate * self.pool.total, "resumed above the gate"
        ended = [request for request, _ in plan.rejected]
        admitted = [admission.request for admission in plan.admitted]
        tried = [request for request in queue if request in ended or request in admitted]
        assert tried == queue[: len(tried)], "a request overtook another"
        for admission in plan.admitted:
            assert (
                never_fits(admission.request, self.pool, scheduler.rule, lookups=scheduler.policies.prefix_cache)
                is None
            )
            assert admission.cached < len(admission.request.token_ids)

    def _check_victims(self, plan: SchedulerOutput, before: dict[int, int]) -> None:
        """A protected request is a victim only where all that ran were protected by then."""
        bound = self.scheduler.policies.preempt_bound
        if self.scheduler.tiers is not None and self.scheduler.policies.tier_full == "block":
            return  # Who finds no room in a tier is spared first.
        gone: set[int] = {request.num for request, _ in plan.rejected}
        for preemption in plan.preempted:
            left = [count for num, count in before.items() if num not in gone]
            beam = preemption.victim.beam
            gone |= {preemption.victim.num} if beam is None else {member.num for member in beam.members}
            if bound and before[preemption.victim.num] >= bound:
                assert min(left) >= bound, "a protected request was preempted while another could have been"
                assert preemption.protection

    def _check_items(self, items: Sequence[BatchItem]) -> None:
        assert sum(item.count for item in items) <= self.scheduler.policies.token_budget
        for item in items:
            assert item.count > 0
            assert item.start == item.request.computed_tokens
            assert item.request.state in RUNNING_STATES
            assert item.samples == (item.start + item.count == len(item.request.token_ids))
            if item.request.beam is None:
                assert not item.samples or list(item.forks) == item.request.samples, "samples that do not fork off"
            else:
                assert bool(item.candidates) == item.samples
                assert not item.drawing, "a beam draws no token"
            for place in places(self.pool, item.start, item.start + item.count):
                block = item.request.block_table[place]
                assert self.pool.refs_of(block) == 1, "a block in several tables is about to be written"

    def _check_beams(self, leader: Request) -> None:
        """Whatever the group went through, the outcome is that of the definition."""
        beam = leader.beam
        assert beam is not None
        assert all(member.state is RequestState.FINISHED for member in beam.members)
        if ended_by_itself(leader):
            prompt, penalty = leader.token_ids[: leader.prompt_tokens], beam.search.length_penalty
            found = search(
                self.runner.follow,
                prompt,
                beam.width,
                leader.max_tokens,
                penalty=penalty,
                stop_ids=leader.stop_ids,
            )
            assert outputs_of(leader) == [output for output, _ in found]
            self.searched += 1

    def _few_enough(self) -> bool:
        running = self.scheduler.running
        return width_taken(running) <= self.scheduler.policies.max_running or is_one_search(running)

    def _used_by(self, requests: Sequence[Request]) -> int:
        """Blocks these hold together, without those of the tokens being computed now."""
        tables = [request.block_table[: self.pool.blocks_for(request.computed_tokens)] for request in requests]
        return len({block for table in tables for block in table if block != NULL_BLOCK})

    def _copying(self) -> bool:
        """Copies between tiers are under way, and what waits for them may wait."""
        return self.scheduler.tiers is not None and self.scheduler.tiers.pending > 0

    def _pick(self, which: int, requests: Sequence[Request]) -> Request:
        return requests[which % len(requests)]

    def _snapshot(self) -> object:
        scheduler = self.scheduler
        requests = [
            (r.num, r.state, r.computed_tokens, tuple(r.block_table), r.reserved_blocks) for r in scheduler.running
        ]
        return scheduler.policies, scheduler.rule, requests, list(scheduler.waiting), self.pool.changes.all_runs()
