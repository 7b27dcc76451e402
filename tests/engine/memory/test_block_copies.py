"""Copies of blocks within the pool: what a target holds afterwards, and that a request goes on from a copy."""

import random

import pytest
import torch

from engine.core import Engine
from engine.memory.pool import BlockPool
from engine.model.kv_cache import KVCache
from engine.model.load import LoadedModel, random_model
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy
from engine.scheduling.output import SchedulerOutput
from engine.scheduling.scheduler import Scheduler
from tests.engine.fake_model import FakeRunner
from tests.engine.served import advance, generate, make_request, make_runner

BLOCKS, BLOCK_SIZE = 12, 8


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(seed=2)


def _cache() -> KVCache:
    """Every block of every layer holds numbers of its own."""
    cache = KVCache(layers=3, blocks=BLOCKS, block_size=BLOCK_SIZE, kv_heads=2, head_size=8)
    for part in cache.parts:
        part.copy_(torch.arange(part.numel()).view(part.shape))
    return cache


def _content(cache: KVCache) -> list[list[torch.Tensor]]:
    return [
        [side.content[block].clone() for layer in range(3) for side in cache.plane(layer)] for block in range(BLOCKS)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_copies_are_done_as_one_after_another(seed: int) -> None:
    """Chains, swaps through a third block, targets written twice and copies onto themselves among them."""
    chance = random.Random(seed)
    pairs = [(chance.randrange(BLOCKS), chance.randrange(BLOCKS)) for _ in range(chance.randrange(1, 16))]
    cache = _cache()
    expected = _content(cache)
    for source, target in pairs:
        expected[target] = expected[source]
    cache.copy_blocks(pairs)
    for block, content in enumerate(_content(cache)):
        assert all(torch.equal(*sides) for sides in zip(content, expected[block], strict=True)), (block, pairs)


def test_a_copy_outside_the_pool_is_refused_before_anything_is_written() -> None:
    for pair in ((0, BLOCKS), (BLOCKS, 0), (-1, 0), (0, -1)):
        cache = _cache()
        before = _content(cache)
        with pytest.raises(ValueError, match=f"copy of block {pair[0]} to {pair[1]}: the pool has blocks 0 to 11"):
            cache.copy_blocks([(1, 2), pair])
        after = _content(cache)
        assert all(
            torch.equal(*sides) for old, new in zip(before, after, strict=True) for sides in zip(old, new, strict=True)
        )
    _cache().copy_blocks([])


def test_a_request_goes_on_from_copied_blocks(model: LoadedModel) -> None:
    """Two continuations share a prompt; the second gets the block they both would write as a copy, and is moved on."""
    prompt = model.tokenizer.encode("a prompt that ends inside its last block")[:39]
    assert len(prompt) % BLOCK_SIZE == BLOCK_SIZE - 1
    whole = len(prompt) // BLOCK_SIZE
    alone = generate(
        make_runner(model, blocks=64, block_size=BLOCK_SIZE), [make_request(0, prompt, 12, table=range(16))]
    )

    runner = make_runner(model, blocks=64, block_size=BLOCK_SIZE)
    first = make_request(1, prompt, 12, table=range(16))
    advance(runner, [first])
    tail = len(prompt) % BLOCK_SIZE
    second = make_request(2, first.token_ids[:-1], 12, table=[*range(whole), *range(40, 56)])
    second.prompt_tokens = len(prompt)
    second.token_ids.append(first.token_ids[-1])
    second.computed_tokens = len(prompt)
    chain = [BlockCopy(whole, 60, tail), BlockCopy(60, 40, tail)]
    items = [BatchItem(request, request.computed_tokens, 1, True) for request in (first, second)]
    output = runner.run(items, chain)
    for request, token in zip((first, second), output.tokens, strict=True):
        request.computed_tokens += 1
        request.token_ids.append(token)
    assert generate(runner, [first, second]) == alone * 2

    # Without its copy the second reads a block that nobody wrote.
    stale = make_runner(model, blocks=64, block_size=BLOCK_SIZE)
    again = make_request(1, prompt, 12, table=range(16))
    advance(stale, [again])
    again.block_table[whole] = 40
    assert generate(stale, [again]) != alone


def test_copies_run_without_a_batch(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=8, block_size=BLOCK_SIZE)
    advance(runner, [make_request(0, [1, 2, 3], 1, table=[5])])
    assert runner.run([], [BlockCopy(5, 2, 3)]).tokens == []
    for side in runner.cache.plane(1):
        assert side.content[2].any()
        assert torch.equal(side.content[2], side.content[5])


def test_nothing_is_copied_when_an_item_is_refused(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=8, block_size=BLOCK_SIZE)
    advance(runner, [make_request(0, [1, 2, 3], 1, table=[5])])
    for bad in (make_request(1, [1] * 17, 1, table=[0]), make_request(2, [-1], 1, table=[0])):
        with pytest.raises(ValueError, match=r"blocks in its table|not in the vocabulary"):
            runner.run([BatchItem(bad, 0, len(bad.token_ids), True)], [BlockCopy(5, 2, 3)])
    assert not runner.cache.plane(0)[0].content[2].any()


def test_a_step_does_the_plans_copies() -> None:
    """Also in an iteration that runs nothing."""
    scheduler = Scheduler(BlockPool(8, BLOCK_SIZE), PolicySet(), max_model_len=64)
    copies = (BlockCopy(0, 1, 4), BlockCopy(1, 2, 4))
    done = []

    class Recorder(FakeRunner):
        def run(self, items, copies=()):  # type: ignore[no-untyped-def]
            done.append(copies)
            return super().run(items, copies)

    scheduler.schedule = lambda now: SchedulerOutput((), 8, copies)  # type: ignore[method-assign]
    step = Engine(scheduler, Recorder()).step()
    assert step is not None
    assert step.plan.copies == copies
    assert done == [copies]
