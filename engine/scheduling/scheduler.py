"""Continuous batching with a token budget, chunked prefill and preemption by recompute. No model, no clock, no I/O.

`Scheduler.schedule` → run the plan's items → `Scheduler.commit`, and again. There are no phases: in every iteration
each running request is given as many tokens as it lacks and the budget allows, in the order of their start; then
waiting requests are admitted in queue order, until one does not fit (head-of-line: the queue order is kept, a small
request never overtakes a large one). After vLLM v1's scheduler; the capacity rules after TensorRT-LLM's.

Decisions where the sources differ or leave it open:

- A prompt larger than the whole pool is refused by `add`. A request that only the present rule can never admit (its
  maximum exceeds the pool under a rule that reserves) ends with an error when its turn comes: waiting would only hold
  up those behind it.
- A running request that outgrows the whole pool ends with reason *length*: its output so far is good, and preempting
  others, or itself, would not help.
- Under static_batch the batch is formed in one iteration, whatever the token budget: members without tokens yet run
  all the same, and get theirs as those before them are through.
- A preempted request goes ahead of all that never ran (fcfs); its blocks keep their hashes, so it may find them again.
- A block gets a hash only if the block before it has its own: after a reset of the prefix cache, what running requests
  go on computing is never found by others.
"""

from collections.abc import Mapping, Sequence

from engine.memory.compaction import Compaction, Job, Move
from engine.memory.copies import PendingCopies
from engine.memory.partial import PartialIndex
from engine.memory.pins import Pin, Pins
from engine.memory.places import complete_places
from engine.memory.pool import BlockPool
from engine.memory.prefix import extend_hashes, hashes_of
from engine.policies.capacity import CAPACITIES, CapacityRule
from engine.policies.policy_set import PolicySet
from engine.requests.batch import StepOutput
from engine.requests.request import FinishReason, Request, RequestState
from engine.scheduling import kv_switch, ledger, tiering
from engine.scheduling.admission import check_servable
from engine.scheduling.audit import Audit
from engine.scheduling.beam_steps import end
from engine.scheduling.commit import commit_items
from engine.scheduling.draft import Draft
from engine.scheduling.drawn import drawn_by_item
from engine.scheduling.failing import fail_items
from engine.scheduling.growing import grow_running
from engine.scheduling.kv_types import KVTypes, Switch
from engine.scheduling.lookahead import bring_ahead
from engine.scheduling.output import HeadVerdict, PolicyChange, Preemption, SchedulerOutput
from engine.scheduling.preemption import preempt
from engine.scheduling.promises import Promises, overcommitment
from engine.scheduling.regime import Regime
from engine.scheduling.roster import Roster
from engine.scheduling.starting import admit_waiting
from engine.scheduling.totals import Totals
from engine.scheduling.transition import pending_text, plan_change
from engine.scheduling.waiting import Waiting
from engine.tiers.tiers import Tiers
from kvtop.protocol import PolicyValue


class Scheduler:
    """Puts the mechanisms in order: what happens in an iteration, and on command. Not thread-safe.

    ``roster`` owns the requests and, through them, the blocks of one pool.
    """

    def __init__(
        self,
        pool: BlockPool,
        policies: PolicySet,
        *,
        max_model_len: int,
        tiers: Tiers | None = None,
        kv_dtypes: Sequence[str] = (),
    ) -> None:
        if max_model_len < 2:
            raise ValueError(f"a context of {max_model_len} tokens has no room for a prompt and an answer")
        if pool.eviction != policies.eviction:
            pool.set_eviction(policies.eviction)
        kv_types = KVTypes(policies.kv_dtype, kv_dtypes or (policies.kv_dtype,))
        self.regime = Regime(policies, CAPACITIES[policies.capacity], kv_types)
        self.roster = Roster(pool, self.regime, max_model_len=max_model_len, tiers=tiers)
        self.pool = pool
        self.pins = Pins(pool)
        self.audit = Audit(self.roster, self.pins)
        self.partial = PartialIndex(pool)
        self._compaction = Compaction(pool)
        self._verdict: HeadVerdict | None = None

    # What there is to see

    @property
    def requests(self) -> Mapping[int, Request]:
        """All live ones by num."""
        return self.roster.requests

    @property
    def running(self) -> Sequence[Request]:
        """In the order of their start."""
        return self.roster.running

    @property
    def waiting(self) -> Waiting:
        """Head first."""
        return self.roster.waiting

    @property
    def tiers(self) -> Tiers | None:
        """What lies below the device."""
        return self.roster.tiers

    @property
    def totals(self) -> Totals:
        return self.roster.totals

    @property
    def promised(self) -> Promises:
        """Blocks kept for running requests beyond those they hold."""
        return self.roster.promised

    @property
    def copies(self) -> PendingCopies:
        """Copies within the pool that are planned and not done yet."""
        return self.roster.copies

    @property
    def policies(self) -> PolicySet:
        return self.regime.policies

    @property
    def rule(self) -> CapacityRule:
        """The capacity rule in force, which differs from the policies' while a transition drains."""
        return self.regime.capacity

    @property
    def kv_types(self) -> KVTypes:
        return self.regime.kv_types

    @property
    def max_model_len(self) -> int:
        return self.roster.max_model_len

    @property
    def paused(self) -> bool:
        return self.regime.paused

    @property
    def compaction(self) -> Job | None:
        """The command to compact that is open."""
        return self._compaction.job

    @property
    def verdict(self) -> HeadVerdict | None:
        """Why the head of the queue was held back in the latest iteration; None too where it has ended since."""
        told = self._verdict
        return None if told is None or told.request.state is RequestState.FINISHED else told

    @property
    def reserved_blocks(self) -> int:
        """Blocks promised to running requests beyond those they hold."""
        return self.roster.promised.blocks

    @property
    def draining(self) -> bool:
        """See `Regime.draining`."""
        return self.regime.draining

    @property
    def switching(self) -> bool:
        """See `Regime.switching`."""
        return self.regime.switching

    @property
    def waits_for_copies(self) -> bool:
        """There is work, and copies between tiers are under way that it may be waiting for."""
        copying = self.tiers is not None and self.tiers.pending > 0
        return copying and not self.paused and bool(self.requests)

    def transition_text(self) -> str | None:
        """What a policy change still waits for, in a sentence; None when there is nothing."""
        return pending_text(self.roster)

    def ledger_violations(self) -> list[str]:
        """What is wrong in the books, a sentence each; empty when all is well."""
        return ledger.violations(self.roster, self.pins)

    # Requests come and go

    def add(self, request: Request, now: float) -> None:
        """Queue a new request. ``max_tokens`` is cut to what the context holds.

        Raises ValueError, naming the limit, for one that could never be served.
        """
        if request.num in self.requests or request.state is not RequestState.WAITING:
            raise ValueError(f"request {request.id} (num {request.num}) is not new")
        check_servable(request, self.pool, self.max_model_len)
        request.max_tokens = min(request.max_tokens, self.max_model_len - request.prompt_tokens)
        # The time in the queue counts from its arrival, which cannot be later than now.
        request.times.since = min(request.arrival, now)
        self.roster.queue(request)

    def abort(self, request: Request, now: float, why: str | None = None) -> None:
        """End a live request now; its hashed blocks stay cached. Raises ValueError if it is not live."""
        self._must_be_live(request)
        end(self.roster, request, FinishReason.ABORT, now, why)

    def preempt(self, request: Request, now: float, cause: str) -> Preemption:
        """Make a running request wait again, on somebody's word. Raises ValueError if it does not run."""
        self._must_be_live(request)
        if request not in self.running:
            raise ValueError(f"request {request.id} is {request.state}; only a running one can be preempted")
        return preempt(self.roster, request, now, cause)

    def _must_be_live(self, request: Request) -> None:
        if self.requests.get(request.num) is not request:
            raise ValueError(f"request {request.id} is not live")

    # One iteration

    def schedule(self, now: float) -> SchedulerOutput:
        """Decide the next iteration: blocks are taken for it, requests start, and some may be preempted.

        Scheduling again without a commit is harmless: the same tokens are planned again.
        """
        roster, tiers = self.roster, self.tiers
        if tiers is not None:
            tiering.settle(roster, tiers, now)
        notices = self._settle()
        evictions = self.pool.evictions
        draft = Draft(self.policies.token_budget)
        if not self.paused:
            grow_running(roster, draft, now)
        self._verdict = admit_waiting(roster, self.partial, draft, now)
        if tiers is not None:
            tiering.work_ahead(roster, tiers, now)
            bring_ahead(roster, tiers, self._verdict, now)
            tiers.flush(roster.copies)
        moves = self._moves()
        retabled = roster.move(moves)
        self.pins.follow({move.source: move.target for move in moves})
        copied = roster.copies.planned()
        return SchedulerOutput(
            items=tuple(draft.items.values()),
            token_budget=self.policies.token_budget,
            copies=tuple(each.copy for each in copied),
            copied=copied,
            admitted=draft.admitted,
            preempted=draft.preempted,
            rejected=draft.rejected,
            notices=notices,
            verdict=self._verdict,
            moves=moves,
            retabled=retabled,
            compacted=None if self.paused else self._compaction.book(moves),
            evicted=self.pool.evictions - evictions,
        )

    def commit(self, plan: SchedulerOutput, output: StepOutput, now: float) -> list[Request]:
        """The plan's items were computed, and this came of it. Requests whose rows failed end with an error, and nobody
        finds what was computed for them.

        Returns the requests that this finished. Items of requests that were aborted or preempted since the plan was
        made are passed over. Raises ValueError for a wrong number of tokens or candidates.
        """
        drawn = drawn_by_item(plan, output)
        self.roster.copies.done(plan.copies)
        if self.tiers is not None:
            self.tiers.flush(self.roster.copies)
        finished = commit_items(self.roster, self.pins, self.partial, drawn, output.failures, now)
        for num, guess in output.proposed.items():
            request = self.requests.get(num)
            if request is not None and request.state is RequestState.DECODE and request.beam is None:
                request.proposed = list(guess)
        return finished

    def _moves(self) -> list[Move]:
        """What is to be moved together in this iteration."""
        if self.paused:
            return []
        when = self.policies.compaction
        by_policy = when == "continuous" or (when == "when_idle" and not self.requests)
        return self._compaction.due(self.policies.compaction_moves, by_policy=by_policy)

    def abandon(self, plan: SchedulerOutput, why: str, now: float, *, copied: bool) -> list[Request]:
        """The plan's items could not be computed: all of them end with an error. Returns them.

        ``copied``: its copies were carried out. Where they were not, which blocks hold what is not known any more: all
        that runs ends, and nothing is found in the prefix cache.
        """
        finished = fail_items(self.roster, None if not copied else plan.items, why, now)
        self.copies.done(plan.copies)
        if not copied:
            self.reset_prefix_cache()
        return finished

    # Control

    def set_policies(self, changes: dict[str, PolicyValue], transition: str, now: float) -> PolicyChange:
        """Change policy axes together; all of it or, with ValueError, none. In force from the next iteration on.

        ``transition`` says what happens where the present state breaks the new rule: "drain" admits nothing until it
        fits, "preempt" preempts down to what fits, at once.
        """
        change = plan_change(self.roster, self.pins, changes, transition)
        old, self.regime.policies = self.policies, change.new
        if (old.order, old.requeue) != (change.new.order, change.new.requeue):
            self.roster.reorder()
        if self.tiers is not None and not change.new.prefix_cache:
            self.tiers.prefetches.forget_hashes()
        if change.new.partial_reuse == "off":
            self.partial.clear()
        preempted = [preempt(self.roster, victim, now, cause, action=change.action) for victim, cause in change.victims]
        for name in change.unpinned:
            self.pins.unpin(name)
        if old.eviction != change.new.eviction:
            self.pool.set_eviction(change.new.eviction)
        # Blocks of victims that are swapped out come free when the copies have ended; until then, this drains too.
        leaving = self.pool.leaving and overcommitment(self.running, self.pool) > 0
        if not change.drains and not (self.regime.wanted_capacity.reserves and leaving):
            self._adopt(self.regime.wanted_capacity)
        return PolicyChange(old, change.new, change.effects, preempted)

    def preview(self, changes: dict[str, PolicyValue], transition: str) -> list[str]:
        """The sentences `set_policies` would return as effects; nothing changes. Raises ValueError as it does."""
        return plan_change(self.roster, self.pins, changes, transition).effects

    def _settle(self) -> list[str]:
        """End a drain when what running requests may need fits."""
        if not self.draining or overcommitment(self.running, self.pool) > 0:
            return []
        self._adopt(self.regime.wanted_capacity)
        return [f"{self.policies.rule('capacity')} is in force: what running requests may need now fits"]

    def _adopt(self, rule: CapacityRule) -> None:
        self.regime.capacity = rule
        for request in self.running:
            if rule.reserves:
                self.roster.promised.make(request)
            else:
                self.roster.promised.drop(request)

    @property
    def kv_switch_due(self) -> bool:
        """The element type in force is not the policies', and nothing holds the switch up any more."""
        return kv_switch.is_due(self.roster)

    def switch_kv(self, storage: kv_switch.Storage, now: float) -> Switch:
        """Forget all content and have the memory made anew in the policies' element type, which is due."""
        return kv_switch.carry_out(self.roster, storage, now, unpinned=len(self.pins), forget=self._forget)

    def _forget(self) -> int:
        self.partial.clear()
        return self.reset_prefix_cache()

    def pause(self) -> None:
        """Plan nothing from now on; KV stays in place."""
        self.regime.paused = True

    def resume(self) -> None:
        self.regime.paused = False

    # What the cache keeps

    def pin(self, request: Request) -> Pin:
        """Keep what the cache holds of ``request``, live or finished, until it is unpinned by its id.

        Raises ValueError, in one sentence, where there is nothing to pin or the limits allow no more.
        """
        size, groups = self.pool.block_size, self.pool.groups
        hashes = extend_hashes(request, complete_places(self.pool, len(request.token_ids)), size, groups)
        return self._pin(request.id, request.num, hashes)

    def pin_prefix(self, name: str, token_ids: Sequence[int], cache_salt: str = "") -> Pin:
        """Keep what the cache holds of these tokens until ``name`` is unpinned. Raises ValueError as `pin` does."""
        return self._pin(name, None, hashes_of(token_ids, cache_salt, self.pool.block_size, self.pool.groups))

    def _pin(self, name: str, num: int | None, hashes: Sequence[int]) -> Pin:
        return self.pins.pin(name, num, hashes, limit=self.policies.pin_limit, promised=self.reserved_blocks)

    def unpin(self, name: str) -> Pin:
        """Let the pin of this name go. Raises ValueError if there is none."""
        return self.pins.unpin(name)

    def compact(self, span: tuple[int, int] | None = None) -> int:
        """From the next iteration on, move blocks down, or out of ``span`` (its end excluded) to any free ones; at most
        ``compaction_moves`` an iteration. Returns how many are to be moved as things are now. Replaces a job under way.

        Raises ValueError, in one sentence, for a range that the pool does not have.
        """
        return self._compaction.start(span)

    def reset_prefix_cache(self) -> int:
        """Forget what blocks contain, pinned or not; blocks in use keep their KV but match nobody new. Returns how many
        forgot."""
        self.pins.clear()
        below = 0 if self.tiers is None else self.tiers.reset()
        for request in self.running:
            request.chained = 0
        return self.pool.reset_hashes() + below
