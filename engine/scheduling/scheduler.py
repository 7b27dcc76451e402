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

from collections.abc import Sequence

from engine.memory.compaction import Job, book, check_span, compact, due_moves, plan_moves
from engine.memory.copies import PendingCopies
from engine.memory.groups import complete_places
from engine.memory.partial import PartialIndex
from engine.memory.pins import Pin, Pins
from engine.memory.pool import BlockPool
from engine.memory.prefix import extend_hashes, hashes_of
from engine.memory.promises import Promises, overcommitment
from engine.policies.capacity import CAPACITIES, CapacityRule
from engine.policies.free_order import FREE_ORDERS
from engine.policies.order import ORDERS
from engine.policies.policy_set import PolicySet
from engine.policies.requeue import REQUEUES
from engine.requests.beam import Beam, is_one_group, leader_of, places_taken
from engine.requests.hypotheses import Candidate
from engine.requests.request import FinishReason, Request, RequestState
from engine.scheduling import ledger, tiering
from engine.scheduling.admission import check_servable, usable_blocks
from engine.scheduling.beam_steps import end_beams, go_on, report
from engine.scheduling.draft import Draft
from engine.scheduling.forking import end_samples, must_copy, own_tail, take_tokens
from engine.scheduling.kv_switch import KVTypes, waits_for
from engine.scheduling.lookahead import bring_ahead
from engine.scheduling.output import HeadVerdict, Plan, PolicyChange, Preemption
from engine.scheduling.preemption import pick_victim, preempt
from engine.scheduling.progress import count_recomputed, drop_unseen, write_kv
from engine.scheduling.starting import admit_waiting
from engine.scheduling.totals import Totals
from engine.scheduling.transition import plan_change
from engine.scheduling.waiting import WaitingQueue
from engine.tiers.tiers import Tiers
from engine.words import counted
from kvtop.protocol import PolicyValue

RUNNING_STATES = (RequestState.PREFILL, RequestState.DECODE)


class Scheduler:
    """Owns the requests and, through them, the blocks of one pool. Not thread-safe.

    ``requests``: all live ones by num; each is either in ``waiting`` (head first) or in ``running`` (in the order of
    their start). ``promised``: blocks kept for running requests beyond those they hold. ``rule``: the
    capacity rule in force, which differs from the policies' while a transition drains. ``verdict``: why the head of
    the queue was held back in the latest iteration.
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
        self.pool = pool
        if pool.eviction != policies.eviction:
            pool.set_eviction(policies.eviction)
        self.tiers = tiers
        self.kv_types = KVTypes(policies.kv_dtype, kv_dtypes or (policies.kv_dtype,))
        self.policies = policies
        self.max_model_len = max_model_len
        self.requests: dict[int, Request] = {}
        self.running: list[Request] = []
        self.waiting = WaitingQueue(ORDERS[policies.order], REQUEUES[policies.requeue])
        self.totals = Totals()
        self.promised = Promises(pool)
        self.pins = Pins(pool)
        self.compaction: Job | None = None
        self.copies = PendingCopies()
        self.partial = PartialIndex(pool)
        self.rule: CapacityRule = CAPACITIES[policies.capacity]
        self.paused = False
        self.verdict: HeadVerdict | None = None

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
        self.requests[request.num] = request
        self.waiting.add(request)

    def abort(self, request: Request, now: float) -> None:
        """End a live request now; its hashed blocks stay cached. Raises ValueError if it is not live."""
        self._must_be_live(request)
        self.end(request, FinishReason.ABORT, now)

    def preempt(self, request: Request, now: float, cause: str) -> Preemption:
        """Make a running request wait again, on somebody's word. Raises ValueError if it does not run."""
        self._must_be_live(request)
        if request not in self.running:
            raise ValueError(f"request {request.id} is {request.state}; only a running one can be preempted")
        return preempt(self, request, now, cause)

    # One iteration

    def schedule(self, now: float) -> Plan:
        """Decide the next iteration: blocks are taken for it, requests start, and some may be preempted.

        Scheduling again without a commit is harmless: the same tokens are planned again.
        """
        if self.tiers is not None:
            tiering.settle(self, self.tiers, now)
        notices = self._settle()
        evictions = self.pool.evictions
        draft = Draft(self.policies.token_budget)
        if not self.paused:
            self._grow_running(draft, now)
        self.verdict = admit_waiting(self, draft, now)
        if self.tiers is not None:
            tiering.work_ahead(self, self.tiers, now)
            bring_ahead(self, self.tiers, now)
            if not self.copies.planned():
                self.tiers.flush()
        moves = due_moves(self)
        retabled = compact(self, moves)
        copied = self.copies.planned()
        return Plan(
            items=tuple(draft.items.values()),
            token_budget=self.policies.token_budget,
            copies=tuple(each.copy for each in copied),
            copied=copied,
            admitted=draft.admitted,
            preempted=draft.preempted,
            rejected=draft.rejected,
            notices=notices,
            verdict=self.verdict,
            moves=moves,
            retabled=retabled,
            compacted=book(self, moves),
            evicted=self.pool.evictions - evictions,
        )

    def commit(
        self, plan: Plan, tokens: list[int], now: float, candidates: Sequence[Sequence[Candidate]] = ()
    ) -> list[Request]:
        """The plan's items were computed; ``tokens`` has one for each of their ``drawing``, in the plan's order, and
        ``candidates`` those of each item that wants some.

        Returns the requests that this finished. Items of requests that were aborted or preempted since the plan was
        made are passed over. Raises ValueError for a wrong number of tokens or candidates.
        """
        wanted = sum(len(item.drawing) for item in plan.items)
        if len(tokens) != wanted:
            raise ValueError(f"the batch samples {wanted} tokens, {len(tokens)} came back")
        beams = sum(item.candidates > 0 for item in plan.items)
        if len(candidates) != beams:
            raise ValueError(f"the batch asks for candidates of {beams} beams, those of {len(candidates)} came back")
        self.copies.done(plan.copies)
        if self.tiers is not None and not self.copies.planned():
            self.tiers.flush()
        sampled, offered = iter(tokens), iter(candidates)
        finished: list[Request] = []
        groups: dict[int, Beam] = {}
        for item in plan.items:
            drawn = [next(sampled) for _ in item.drawing]
            following = next(offered) if item.candidates else ()
            request = item.request
            if request.state not in RUNNING_STATES or request.computed != item.start:
                continue
            self.totals.recomputed_tokens += count_recomputed(item)
            if not item.is_decode:
                self.totals.prefill_tokens += item.count
            hashing = self.policies.prefix_cache
            write_kv(request, item.start, item.start + item.count, self.pool, now, hashing=hashing)
            if self.tiers is not None:
                tiering.filled(self, self.tiers, request, item.start, item.start + item.count, now)
            if hashing and self.policies.partial_reuse != "off":
                self.partial.filled(request, item.start, item.start + item.count)
            if drawn:
                finished += take_tokens(self, item, drawn, now)
            beam = request.beam
            if beam is not None:
                groups[beam.leader.num] = beam
                if item.candidates:
                    report(request, following)
            if self.pool.slides and request.state in RUNNING_STATES and not (beam and beam.asleep):
                self.totals.dropped_blocks += drop_unseen(request, self.pool, now)
        return finished + go_on(self, groups.values(), now)

    # Control

    def set_policies(self, changes: dict[str, PolicyValue], transition: str, now: float) -> PolicyChange:
        """Change policy axes together; all of it or, with ValueError, none. In force from the next iteration on.

        ``transition`` says what happens where the present state breaks the new rule: "drain" admits nothing until it
        fits, "preempt" preempts down to what fits, at once.
        """
        change = plan_change(self, changes, transition)
        old, self.policies = self.policies, change.new
        if (old.order, old.requeue) != (change.new.order, change.new.requeue):
            self.waiting.reorder(ORDERS[change.new.order], REQUEUES[change.new.requeue])
        if self.tiers is not None and not change.new.prefix_cache:
            self.tiers.prefetches.forget_hashes()
        if change.new.partial_reuse == "off":
            self.partial.clear()
        preempted = [preempt(self, victim, now, cause, action=change.action) for victim, cause in change.victims]
        for name in change.unpinned:
            self.pins.unpin(name)
        if old.eviction != change.new.eviction:
            self.pool.set_eviction(change.new.eviction)
        # Blocks of victims that are swapped out come free when the copies have ended; until then, this drains too.
        leaving = self.pool.leaving and overcommitment(self.running, self.pool) > 0
        if not change.drains and not (CAPACITIES[change.new.capacity].reserves and leaving):
            self._adopt(CAPACITIES[change.new.capacity])
        return PolicyChange(old, change.new, change.effects, preempted)

    def preview(self, changes: dict[str, PolicyValue], transition: str) -> list[str]:
        """The sentences `set_policies` would return as effects; nothing changes. Raises ValueError as it does."""
        return plan_change(self, changes, transition).effects

    @property
    def reserved_blocks(self) -> int:
        """Blocks promised to running requests beyond those they hold."""
        return self.promised.blocks

    @property
    def draining(self) -> bool:
        """The policies' capacity rule is not in force yet: running requests are promised too much for it."""
        return self.rule.name != self.policies.capacity

    @property
    def waits_for_copies(self) -> bool:
        """There is work, and copies between tiers are under way that it may be waiting for."""
        copying = self.tiers is not None and self.tiers.pending > 0
        return copying and not self.paused and bool(self.requests)

    @property
    def switching(self) -> bool:
        """The policies' element type of KV is not in force yet: nothing is admitted until it is."""
        return self.kv_types.in_force != self.policies.kv_dtype

    def transition_text(self) -> str | None:
        """What a policy change still waits for, in a sentence; None when there is nothing."""
        if self.switching:
            return f"draining to kv_dtype={self.policies.kv_dtype}: waits for {waits_for(self)}"
        if self.draining:
            over = overcommitment(self.running, self.pool)
            return f"draining to capacity={self.policies.capacity}: running requests may need {counted(over, 'block')} too many"
        over = places_taken(self.running) - self.policies.max_running
        if over > 0 and not is_one_group(self.running):
            return f"draining to max_running={self.policies.max_running}: {over} too many run"
        return None

    def pause(self) -> None:
        """Plan nothing from now on; KV stays in place."""
        self.paused = True

    def resume(self) -> None:
        self.paused = False

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
        if span is not None:
            check_span(self.pool, span)
        count = len(plan_moves(self.pool, self.pool.total, span))
        self.compaction = Job(span, count) if count else None
        return count

    def reset_prefix_cache(self) -> int:
        """Forget what blocks contain, pinned or not; blocks in use keep their KV but match nobody new. Returns how many
        forgot."""
        self.pins.clear()
        below = 0 if self.tiers is None else self.tiers.reset()
        for request in self.running:
            request.chained = 0
        return self.pool.reset_hashes() + below

    def ledger_violations(self) -> list[str]:
        """What is wrong in the books, a sentence each; empty when all is well."""
        return ledger.violations(self)

    # Running requests

    def _grow_running(self, draft: Draft, now: float, *, force: bool = False) -> None:
        for request in list(self.running):
            if draft.budget == 0:
                break
            if request.state not in RUNNING_STATES:
                continue  # A victim of one before it.
            if request.remaining == 0:
                continue  # A beam that waits for the others of its group.
            count = min(request.remaining, draft.budget)
            if self._make_room(request, request.computed + count, draft, now, force=force):
                self.assign(request, count, draft, now)
        if draft.stalled and not draft.items and self.tiers is not None and not self.tiers.pending:
            # Everybody waits for room in a tier, and nobody will make any.
            draft.stalled.clear()
            self._grow_running(draft, now, force=True)

    def _make_room(self, request: Request, tokens: int, draft: Draft, now: float, *, force: bool = False) -> bool:
        """Preempt until ``request`` can hold ``tokens`` tokens; False when it is out itself or must wait for copies.

        ``force``: even those whose state finds no room in a tier that is full.
        """
        if self.pool.blocks_for(tokens) - request.holes > (usable := usable_blocks(self.pool, request.held)):
            pinned = "" if usable == self.pool.total else f" that are not pinned for others, of {self.pool.total}"
            whole = f"the whole pool of {usable} blocks" if not pinned else f"all {usable} blocks{pinned}"
            why = f"{request.id} filled {whole}; its output ends here"
            self._cut_off(request, why, draft, now)
            return False
        while (need := self._lacking(request, tokens)) > self.pool.available:
            if self.rule.reserves:
                raise RuntimeError(f"{request.id} was promised blocks that are not there; see ledger_violations()")
            victims = self.running if self.tiers is None or force else tiering.candidates(self, self.tiers)
            if need <= self.pool.available + self.pool.leaving or not victims:
                draft.stalled.append(request)
                return False
            if is_one_group(self.running):
                name, width = leader_of(request).id, len(self.running)
                why = f"the {width} beams of {name} filled all {usable} blocks that there are; their output ends here"
                self._cut_off(request, why, draft, now)
                return False
            pick = pick_victim(victims, self.policies, request)
            cause = f"{request.id} needs {counted(need, 'block', more=True)}, {self.pool.available} left; {pick.reason}"
            draft.preempted.append(
                preempt(self, pick.victim, now, cause, by=request, need=need, protection=pick.protection)
            )
            draft.take_back(pick.victim)
            if request.state not in RUNNING_STATES:
                return False
        return True

    def _cut_off(self, request: Request, why: str, draft: Draft, now: float) -> None:
        """``request`` ends, and its beams, because there is no room for its next token and never will be."""
        draft.take_back(request)
        members = [request] if request.beam is None else request.beam.seen
        self.end(request, FinishReason.LENGTH, now, why)
        draft.rejected += [(member, why) for member in members]

    def _lacking(self, request: Request, tokens: int) -> int:
        """Blocks to be taken before ``request`` can hold ``tokens`` tokens, those for copies of its last included."""
        return self.pool.blocks_for(tokens) - len(request.block_table) + must_copy(request, self.pool)

    def assign(self, request: Request, count: int, draft: Draft, now: float) -> None:
        """Plan the next ``count`` tokens of ``request`` and take the blocks for them; they are there."""
        for copy in own_tail(request, self.pool, now):
            self.copies.add(request, copy, "about to write a block that others hold")
        if request.forked_tail:
            request.forked_tail = False
            self.promised.keep(request, self.pool.groups)
        if (places := self.pool.blocks_for(request.computed + count)) > len(request.block_table):
            self.extend_table(request, places, now)
        draft.assign(request, count)

    def extend_table(self, request: Request, places: int, now: float) -> None:
        """Take the blocks that are lacking up to ``places`` places; they are there."""
        table, pool = request.block_table, self.pool
        for place in range(len(table), places):
            table.append(pool.take(request.num, now, place % pool.groups))
            self.promised.keep(request)

    # Leaving; also for preempt actions

    def requeue(self, request: Request, now: float) -> None:
        """A running request that holds nothing any more waits again."""
        request.computed = 0
        request.enter(RequestState.PREEMPTED, now)
        self.running.remove(request)
        self.waiting.add(request)

    def end(self, request: Request, reason: FinishReason, now: float, detail: str | None = None) -> None:
        """A live request is finished, wherever it is; it gives up what it holds. A beam's whole group ends with it."""
        if request.beam is not None and not request.beam.ended:
            end_beams(self, request.beam, reason, now, detail)
            return
        if request.state in RUNNING_STATES or request.state is RequestState.LOADING:
            self.running.remove(request)
            self.release(request, now)
        else:
            self.waiting.remove(request)
        if self.tiers is not None:
            self.tiers.drop(request.num, now)
        end_samples(request, reason, now)
        request.finish_reason, request.finish_detail = reason, detail
        request.enter(RequestState.FINISHED, now)
        del self.requests[request.num]
        self.totals.count_end(reason)
        if self.verdict is not None and self.verdict.request is request:
            self.verdict = None

    def release(self, request: Request, now: float) -> None:
        """A running request gives up its blocks, and what was promised to it. Copies to them are not waited for."""
        if self.tiers is not None:
            self.tiers.loads.cancel(request.num)
        for block in FREE_ORDERS[self.policies.free_order].arrange(request.held):
            self.pool.release(block, request.num, now)
        request.block_table, request.holes, request.chained = [], 0, 0
        request.forked_tail = False
        self.copies.drop(request)
        self.promised.drop(request)

    def _must_be_live(self, request: Request) -> None:
        if self.requests.get(request.num) is not request:
            raise ValueError(f"request {request.id} is not live")

    # The capacity rule in force

    def _settle(self) -> list[str]:
        """End a drain when what running requests may need fits."""
        if not self.draining or overcommitment(self.running, self.pool) > 0:
            return []
        self._adopt(CAPACITIES[self.policies.capacity])
        return [f"{self.policies.rule('capacity')} is in force: what running requests may need now fits"]

    def _adopt(self, rule: CapacityRule) -> None:
        self.rule = rule
        for request in self.running:
            if rule.reserves:
                self.promised.make(request)
            else:
                self.promised.drop(request)
