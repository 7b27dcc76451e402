"""The one owner of the request lists: who is live, who runs, who waits, and what those who run hold.

Whoever else decides about requests (admission, preemption, sampling, beams, tiers) decides by what stands here, and has
it carried out by these methods: nobody else writes the lists (a test sees to that). A request is in `requests` while it
is live, and then either in `waiting`, holding nothing, or in `running`, in the order of their start.
"""

from collections.abc import Mapping, Sequence

from engine.memory.compaction import Move
from engine.memory.copies import PendingCopies
from engine.memory.pool import BlockPool
from engine.policies.free_order import FREE_ORDERS
from engine.policies.order import ORDERS
from engine.policies.requeue import REQUEUES
from engine.requests.batch import BlockCopy
from engine.requests.request import NULL_BLOCK, FinishReason, Request, RequestState
from engine.scheduling.promises import Promises
from engine.scheduling.regime import Regime
from engine.scheduling.totals import Totals
from engine.scheduling.waiting import Waiting, WaitingQueue
from engine.tiers.tiers import Tiers

RUNNING_STATES = (RequestState.PREFILL, RequestState.DECODE)
"""Of those that compute."""

ADMITTED_STATES = (*RUNNING_STATES, RequestState.LOADING)
"""Of all in `Roster.running`: they compute, or wait for blocks that come for them."""


class Roster:
    """``promised``: blocks kept for running requests beyond those they hold. ``copies``: those within the pool that are
    planned for them. ``regime``: by which policies. Not thread-safe."""

    def __init__(self, pool: BlockPool, regime: Regime, *, max_model_len: int, tiers: Tiers | None = None) -> None:
        self.pool = pool
        self.regime = regime
        self.max_model_len = max_model_len
        self.tiers = tiers
        self.totals = Totals()
        self.promised = Promises(pool)
        self.copies = PendingCopies()
        self._requests: dict[int, Request] = {}
        self._running: list[Request] = []
        self._waiting = WaitingQueue(ORDERS[regime.policies.order], REQUEUES[regime.policies.requeue])

    @property
    def requests(self) -> Mapping[int, Request]:
        """All live ones by num."""
        return self._requests

    @property
    def running(self) -> Sequence[Request]:
        """In the order of their start."""
        return self._running

    @property
    def waiting(self) -> Waiting:
        """Head first."""
        return self._waiting

    # Coming and going

    def queue(self, request: Request) -> None:
        """A request that was not live waits from now on; its state says as what."""
        self._requests[request.num] = request
        self._waiting.add(request)

    def admit(self, request: Request) -> None:
        """A waiting request runs from now on; before its state changes."""
        self._waiting.remove(request)
        self._running.append(request)

    def fork(self, request: Request, *, behind: Request | None = None) -> None:
        """A request that was not live runs from now on, as the last one or ``behind`` another."""
        self._requests[request.num] = request
        self._running.insert(len(self._running) if behind is None else self._running.index(behind) + 1, request)

    def requeue(self, request: Request, now: float) -> None:
        """A running request gives up what it holds and waits again."""
        self.release(request, now)
        request.computed_tokens = 0
        request.enter(RequestState.PREEMPTED, now)
        self._running.remove(request)
        self._waiting.add(request)

    def park(self, request: Request, now: float) -> None:
        """A running request gives up what it holds and is not live any more; another one stands for it."""
        self.release(request, now)
        self._running.remove(request)
        del self._requests[request.num]
        request.computed_tokens = 0

    def end(self, request: Request, reason: FinishReason, now: float, detail: str | None = None) -> None:
        """A live request is finished, wherever it is; it gives up what it holds. Samples of its prompt that did not fork
        off yet end with it; of its beams see `engine.scheduling.beam_steps.end`."""
        if request.state in ADMITTED_STATES:
            self._running.remove(request)
            self.release(request, now)
        else:
            self._waiting.remove(request)
        if self.tiers is not None:
            self.tiers.drop(request.num, now)
        for sample in request.samples:
            sample.finish_reason = reason
            sample.enter(RequestState.FINISHED, now)
        request.samples = []
        request.finish_reason, request.finish_detail = reason, detail
        request.enter(RequestState.FINISHED, now)
        del self._requests[request.num]
        self.totals.count_end(reason)

    def reorder(self) -> None:
        """The queue goes by the policies, which have changed."""
        policies = self.regime.policies
        self._waiting.reorder(ORDERS[policies.order], REQUEUES[policies.requeue])

    # What they hold

    def release(self, request: Request, now: float) -> None:
        """A running request gives up its blocks, and what was promised to it. Copies to them are not waited for."""
        if self.tiers is not None:
            self.tiers.loads.cancel(request.num)
        self.release_blocks(request, request.held, now)
        request.block_table, request.holes, request.chained = [], 0, 0
        request.forked_tail = False
        request.proposed = []
        self.copies.drop(request)
        self.promised.drop(request)

    def release_blocks(self, request: Request, blocks: Sequence[int], now: float) -> None:
        """``request`` holds these no more; they are released in the order that the policies say."""
        for block in FREE_ORDERS[self.regime.policies.free_order].arrange(blocks):
            self.pool.release(block, request.num, now)

    def extend_table(self, request: Request, places: int, now: float) -> None:
        """Take the blocks that are lacking up to ``places`` places; they are there."""
        table, pool, groups = request.block_table, self.pool, self.pool.groups
        for place in range(len(table), places):
            before = table[place - groups] if place >= groups else NULL_BLOCK
            after = None if before == NULL_BLOCK else before
            table.append(pool.take(request.num, now, place % groups, after=after))
            self.promised.keep(request)

    def give_back_tail(self, request: Request, now: float) -> None:
        """Let go of the blocks that ``request``, which runs, took for positions beyond those it has computed."""
        keep = self.pool.blocks_for(request.computed_tokens)
        if len(request.block_table) <= keep:
            return
        unused = request.block_table[keep:]
        del request.block_table[keep:]
        self.release_blocks(request, unused, now)
        if self.regime.capacity.reserves:
            self.promised.make(request)

    def move(self, moves: Sequence[Move]) -> list[Request]:
        """Move blocks in the books and plan the copies. Returns the requests whose block tables changed."""
        pool, places = self.pool, {move.source: move.target for move in moves}
        nums: set[int] = set()
        for move in moves:
            nums |= pool.owners_of(move.source)
            pool.move(move.source, move.target)
            self.copies.add(None, BlockCopy(move.source, move.target, int(pool.fill[move.target])), "compaction")
        owners = [self._requests[num] for num in sorted(nums)]
        for request in owners:
            request.block_table = [places.get(block, block) for block in request.block_table]
        return owners
