"""A scheduler without a model: requests made of numbers, and a runner that checks what it reads."""

import math
import random
from collections.abc import Sequence
from typing import Any

from engine.memory.pool import BlockPool
from engine.memory.window import Windows
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.logprobs import TokenLogprob, of_candidate
from engine.requests.request import Request
from engine.scheduling.kv_switch import KVSwitchError
from engine.scheduling.output import SchedulerOutput
from engine.scheduling.scheduler import Scheduler

BLOCK = 4
FAKE_VOCAB = 50


def make_request(num: int, prompt: Sequence[int] | int = 5, max_tokens: int = 8, **more: Any) -> Request:
    """Request ``r<num>``, by default arriving at second ``num``; a whole number as prompt stands for that many tokens
    nobody else has."""
    tokens = [1000 * num + i for i in range(prompt)] if isinstance(prompt, int) else list(prompt)
    more.setdefault("arrival", float(num))
    return Request(num, f"r{num}", tokens, len(tokens), max_tokens, arrival_wall=0.0, **more)


class FakeRunner:
    """Stands for model and KV memory. What it writes for a position depends on all tokens up to there, as true KV
    does, and before it samples it reads back the whole sequence through the block table: a block that somebody else
    wrote, or that was shared wrongly, does not go unseen."""

    def __init__(self, pool: BlockPool, seed: int = 0) -> None:
        self._size = pool.block_size
        self._memory = [[0] * pool.block_size for _ in range(pool.total)]
        self._seed = seed
        self._windows = pool.windows
        self._groups = pool.groups

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        for copy in copies:
            self._memory[copy.target][: copy.tokens] = self._memory[copy.source][: copy.tokens]
        histories = {item.request.num: self._history(item.request, item.proposed) for item in items}
        for item in items:
            for position in range(item.start, item.start + item.count):
                for group in range(self._groups):
                    block = item.request.block_table[position // self._size * self._groups + group]
                    self._memory[block][position % self._size] = histories[item.request.num][position] ^ group
        for item in items:
            self._read(item, histories[item.request.num])
        tokens = [token for item in items for token in self._tokens(item)]
        return StepOutput(
            tokens,
            candidates=[self.candidates(i.request.token_ids, i.candidates) for i in items if i.candidates],
            logprobs=self._logprobs(items, tokens),
        )

    def follow(self, sequences: list[list[int]], count: int) -> list[list[tuple[int, float]]]:
        """`candidates` of several."""
        return [self.candidates(sequence, count) for sequence in sequences]

    def candidates(self, token_ids: Sequence[int], count: int) -> list[tuple[int, float]]:
        """The likeliest next tokens, which depend on all tokens so far and on nothing else."""
        draw = random.Random(hash((self._seed, *token_ids)))
        pairs = [(token, math.log(draw.random() + 1e-9)) for token in range(FAKE_VOCAB)]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count]

    def told(self, token_ids: Sequence[int], token: int, tops: int) -> TokenLogprob:
        """What it says of ``token`` behind all these."""
        ranked = self.candidates(token_ids, FAKE_VOCAB)
        return of_candidate(ranked, [each for each, _ in ranked].index(token), tops)

    def check_logprobs(self, request: Request) -> None:
        """It has one for each of its output tokens if it asked for them, each what was said in its place, or no list at all."""
        tops, ids, first = request.sampling.logprobs, request.token_ids, request.prompt_tokens
        expected = None
        if tops is not None:
            expected = [self.told(ids[:place], ids[place], tops) for place in range(first, len(ids))]
        assert request.logprobs == expected, request.id

    def spoil(self, blocks: Sequence[int]) -> None:
        """What these hold is wrong from now on."""
        for block in blocks:
            self._memory[block][:] = [-1] * self._size

    def forget(self) -> None:
        """Nothing that was written is of any use any more."""
        for block in self._memory:
            block[:] = [-1] * self._size

    def _read(self, item: BatchItem, history: list[int]) -> None:
        for group in range(self._groups):
            window = self._windows[group]
            first = 0 if window is None else max(0, item.start - window + 1)
            for position in range(first, item.start + item.count):
                block = item.request.block_table[position // self._size * self._groups + group]
                assert self._memory[block][position % self._size] == history[position] ^ group, (
                    f"position {position} of {item.request.id} in block {block} holds other content"
                )

    def _history(self, request: Request, proposed: Sequence[int]) -> list[int]:
        so_far = hash(tuple(request.cache_salt.encode()))
        return [so_far := hash((so_far, token)) for token in (*request.token_ids, *proposed)]

    def _tokens(self, item: BatchItem) -> list[int]:
        if item.proposed:
            return [self.token(item.request, item.proposed[:place]) for place in range(len(item.drawing))]
        return [self.token(request) for request in item.drawing]

    def _logprobs(self, items: Sequence[BatchItem], tokens: Sequence[int]) -> dict[int, TokenLogprob]:
        behind = [
            (each, item.proposed[: place * bool(item.proposed)])
            for item in items
            for place, each in enumerate(item.drawing)
        ]
        return {
            place: self.told([*each.token_ids, *proposed], token, each.sampling.logprobs)
            for place, ((each, proposed), token) in enumerate(zip(behind, tokens, strict=True))
            if each.sampling.logprobs is not None
        }

    def token(self, request: Request, more: Sequence[int] = ()) -> int:
        """What is sampled behind its tokens and ``more``."""
        place = 0 if request.first_sample is None else request.num - request.first_sample
        return random.Random(hash((self._seed, place, *request.token_ids, *more))).randrange(FAKE_VOCAB)


class FakeStorage:
    """Makes the memory of a `FakeRunner` anew, and insists that nobody needs what was there."""

    def __init__(self, scheduler: Scheduler, runner: FakeRunner, *, fails: Sequence[str] = ()) -> None:
        self._scheduler, self._runner, self.fails = scheduler, runner, list(fails)
        self.switches: list[str] = []

    @property
    def bytes_per_token(self) -> int:
        return 100

    def switch(self, kv_dtype: str) -> None:
        scheduler, pool = self._scheduler, self._scheduler.pool
        assert not scheduler.running
        assert pool.free_blocks == pool.total, "blocks are held, or can still be found"
        if scheduler.tiers is not None:
            assert not scheduler.tiers.pending
            assert all(books.counts[0] == books.slots for books in scheduler.tiers.books), "a tier still holds content"
        self._runner.forget()
        if self.fails:
            raise KVSwitchError(self.fails.pop())
        self.switches.append(kv_dtype)


class Drive:
    """A scheduler, its runner and a clock."""

    def __init__(
        self, blocks: int = 16, *, max_model_len: int = 64, windows: Windows = (None,), **policies: Any
    ) -> None:
        """``windows``: by KV group."""
        self.pool = BlockPool(blocks, BLOCK, windows=windows)
        self.scheduler = Scheduler(
            self.pool,
            PolicySet.of(policies),
            max_model_len=max_model_len,
            kv_dtypes=("float32", "float16", "int8"),
        )
        self.runner = FakeRunner(self.pool)
        self.storage = FakeStorage(self.scheduler, self.runner)
        self.now = 100.0
        self.requests: dict[int, Request] = {}
        self.finished: list[Request] = []
        """By the latest step."""
        self.victims: list[str] = []
        """Of the latest policy change."""

    def add(self, num: int, prompt: Sequence[int] | int = 5, max_tokens: int = 8, **more: Any) -> Request:
        request = make_request(num, prompt, max_tokens, **more)
        self.scheduler.add(request, self.now)
        self.requests[num] = request
        return request

    def step(self) -> SchedulerOutput:
        """One iteration, with the ledger checked between planning and committing and after."""
        if self.scheduler.kv_switch_due:
            self.scheduler.switch_kv(self.storage, self.now)
        plan = self.scheduler.schedule(self.now)
        assert self.scheduler.ledger_violations() == []
        self.now += 0.5
        output = self.runner.run(plan.items, plan.copies)
        self.finished = self.scheduler.commit(plan, output, self.now)
        assert self.scheduler.ledger_violations() == []
        self.now += 0.5
        return plan

    def steps(self, count: int) -> list[SchedulerOutput]:
        return [self.step() for _ in range(count)]

    def run_out(self, limit: int = 2000) -> int:
        """Steps until nothing is left to do; fails when that takes more than ``limit``."""
        for done in range(limit):
            if not self.scheduler.requests:
                return done
            self.step()
        raise AssertionError(f"still not done after {limit} steps")

    @property
    def running(self) -> list[str]:
        return [request.id for request in self.scheduler.running]

    @property
    def waiting(self) -> list[str]:
        return [request.id for request in self.scheduler.waiting]


def parts(items: Sequence[BatchItem]) -> list[tuple[str, int, int, bool]]:
    """Of each: whose, from which token on, how many, and whether a token is sampled."""
    return [(item.request.id, item.start, item.count, item.samples) for item in items]


class Mirror:
    """The pool as a viewer sees it, folded from the changes alone."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._blocks: dict[int, tuple[int, ...]] = {}
        self._hashes: dict[int, str] = {}
        self._apply(pool.changes.all_runs())

    def _apply(self, runs: Sequence[tuple[int, ...]]) -> None:
        for start, count, *facts in runs:
            for block in range(start, start + count):
                self._blocks[block] = tuple(facts)

    def check(self) -> None:
        """Fold the latest changes; the result must be the pool."""
        runs, hashes = self._pool.changes.take()
        self._apply(runs)
        for block, value in hashes:
            self._hashes.pop(block, None)
            if value is not None:
                self._hashes[block] = value
        truth = {
            start + i: tuple(facts) for start, count, *facts in self._pool.changes.all_runs() for i in range(count)
        }
        wrong = [block for block in truth if truth[block] != self._blocks[block]]
        assert not wrong, f"block {wrong[0]} changed without saying so"
        assert sorted(self._hashes.items()) == self._pool.changes.all_hashes()
