"""Helpers that drive a runner: requests, hand-made block tables, and the real scheduler until all is done."""

import random
from collections.abc import Callable, Sequence

from engine.memory.pool import BlockPool
from engine.model.attention import AttentionBackend, TorchAttention
from engine.model.kv_cache import KVCache
from engine.model.load import LoadedModel
from engine.model.paged_tensor import kv_dtype
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem
from engine.requests.request import Request
from engine.requests.sampling import Sampling
from engine.scheduling.scheduler import Scheduler


def make_request(
    num: int,
    prompt: Sequence[int],
    max_tokens: int,
    *,
    sampling: Sampling | None = None,
    table: Sequence[int] = (),
) -> Request:
    return Request(
        num=num,
        id=f"request-{num}",
        token_ids=list(prompt),
        prompt_tokens=len(prompt),
        max_tokens=max_tokens,
        arrival_wall=0.0,
        arrival=0.0,
        sampling=sampling or Sampling(),
        block_table=list(table),
    )


def make_runner(
    model: LoadedModel,
    *,
    blocks: int = 256,
    block_size: int = 16,
    attention: AttentionBackend | None = None,
    seed: int = 0,
    cache_dtype: str | None = None,
) -> ModelRunner:
    """``cache_dtype``: the weights' unless given."""
    config = model.config
    cache = KVCache(
        layers=model.decoder.groups.planes,
        blocks=blocks,
        block_size=block_size,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
        dtype=kv_dtype(cache_dtype or model.weight_dtype),
    )
    return ModelRunner(model.decoder, cache, attention or TorchAttention(), seed=seed)


def scattered_table(blocks: int, tokens: int, block_size: int, seed: int) -> list[int]:
    """Enough blocks for ``tokens``, drawn without order from the whole pool."""
    return random.Random(seed).sample(range(blocks), -(-tokens // block_size))


def advance(runner: ModelRunner, requests: Sequence[Request], chunk: int = 1 << 30) -> None:
    """One batch in which every request gets at most ``chunk`` tokens; sampled tokens are appended."""
    items = []
    for request in requests:
        count = min(chunk, request.remaining)
        items.append(BatchItem(request, request.computed_tokens, count, count == request.remaining))
    tokens = iter(runner.run(items).tokens)
    for item in items:
        item.request.computed_tokens += item.count
        if item.samples:
            item.request.token_ids.append(next(tokens))


def generate(runner: ModelRunner, requests: Sequence[Request], *, chunk: int = 1 << 30) -> list[list[int]]:
    """Run all to their maximum on their own block tables; returns their outputs."""
    while active := [request for request in requests if request.output_tokens < request.max_tokens]:
        advance(runner, active, chunk)
    return [request.token_ids[request.prompt_tokens :] for request in requests]


class Serving:
    """The real scheduler and pool over a runner, on a clock that counts iterations."""

    def __init__(self, runner: ModelRunner, policies: PolicySet, *, blocks: int) -> None:
        assert blocks <= runner.cache.blocks
        self.runner = runner
        self.scheduler = Scheduler(
            BlockPool(blocks, runner.cache.block_size, windows=runner.decoder.groups.windows),
            policies,
            max_model_len=runner.decoder.config.context,
        )
        self.iteration = 0
        self.preemptions = 0
        self.copies = 0
        self.largest_batch = 0

    def serve(
        self, requests: Sequence[Request], each: Callable[[int], None] = lambda iteration: None, limit: int = 1000
    ) -> list[list[int]]:
        """Add the requests and run until none is left; ``each`` is called before every iteration."""
        for request in requests:
            self.scheduler.add(request, float(self.iteration))
        for _ in range(limit):
            if not self.scheduler.requests:
                assert self.scheduler.ledger_violations() == []
                return [request.token_ids[request.prompt_tokens :] for request in requests]
            each(self.iteration)
            plan = self.scheduler.schedule(float(self.iteration))
            self.preemptions += len(plan.preempted)
            self.largest_batch = max(self.largest_batch, len(plan.items))
            self.copies += len(plan.copies)
            output = self.runner.run(plan.items, plan.copies)
            self.scheduler.commit(plan, output, float(self.iteration))
            self.iteration += 1
        raise AssertionError(f"not done after {limit} iterations")
