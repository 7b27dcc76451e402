"""The runner on random weights: what a request says must not depend on how it is batched, cut or placed."""

import pytest
import torch

from engine.model.config import ModelConfig
from engine.model.kv_cache import KVCache, KVCacheError, kv_bytes_per_token
from engine.model.load import LoadedModel, random_model
from engine.model.paged_tensor import KV_DTYPES
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem
from engine.requests.request import Request
from engine.requests.sampling import Sampling
from tests.engine.served import Serving, advance, generate, make_request, make_runner, scattered_table

BLOCKS, BLOCK_SIZE = 128, 8
PROMPTS = ["a", "the quick brown fox jumps over the lazy dog", "x" * 70, "hello, world", "0123456789" * 3]
OUTPUT = 24


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(seed=5)


def _requests(model: LoadedModel, sampling: Sampling | None = None, seed: int = 0) -> list[Request]:
    """On tables that are scattered over the pool and do not overlap."""
    free = scattered_table(BLOCKS, BLOCKS * BLOCK_SIZE, BLOCK_SIZE, seed)
    requests = []
    for number, prompt in enumerate(PROMPTS):
        ids = model.tokenizer.encode(prompt)
        needed = -(-(len(ids) + OUTPUT) // BLOCK_SIZE)
        table, free = free[:needed], free[needed:]
        requests.append(make_request(number, ids, OUTPUT, sampling=sampling, table=table))
    return requests


def _alone(model: LoadedModel, sampling: Sampling | None = None) -> list[list[int]]:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    return [generate(runner, [request])[0] for request in _requests(model, sampling, seed=9)]


PENALISED = Sampling(
    temperature=0.8, top_k=30, min_p=0.01, repetition_penalty=1.2, presence_penalty=0.4, frequency_penalty=0.3, seed=7
)
TURNS = Sampling(logit_bias={10: 100, 11: 99}, frequency_penalty=2.0)
"""Two tokens that take turns, by how often each has been chosen, those only proposed included."""
SAMPLINGS = [Sampling(), Sampling(temperature=0.9, top_p=0.8, seed=7), Sampling(temperature=1.0), PENALISED, TURNS]
NAMES = ["greedy", "top-p with a seed", "the engine's seed", "penalties", "turns"]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=NAMES)
@pytest.mark.parametrize("chunk", [1000, 16, 5, 1])
def test_batching_chunking_and_placement_change_nothing(model: LoadedModel, sampling: Sampling, chunk: int) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    assert generate(runner, _requests(model, sampling), chunk=chunk) == _alone(model, sampling)


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=NAMES)
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_preemption_changes_nothing(model: LoadedModel, sampling: Sampling, prefix_cache: bool) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    policies = PolicySet(prefix_cache=prefix_cache, watermark=0.0, token_budget=32)
    serving = Serving(runner, policies, blocks=16)
    requests = _requests(model, sampling)
    for request in requests:
        request.block_table.clear()
    assert serving.serve(requests) == _alone(model, sampling)
    assert serving.preemptions > 0


def test_a_prefix_computed_by_another_request_serves_as_well(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    first, second = _requests(model)[2], _requests(model)[2]
    expected = generate(runner, [first])[0]
    shared = 64 // BLOCK_SIZE
    second.block_table[shared:] = [block for block in range(BLOCKS) if block not in first.block_table][:20]
    second.computed_tokens = 64
    assert generate(runner, [second])[0] == expected


def test_the_block_size_changes_nothing(model: LoadedModel) -> None:
    outputs = []
    for block_size in (1, 8, 16, 32):
        request = make_request(0, model.tokenizer.encode(PROMPTS[1]), OUTPUT)
        blocks = 96
        request.block_table = scattered_table(blocks, len(request.token_ids) + OUTPUT, block_size, seed=block_size)
        outputs.append(generate(make_runner(model, blocks=blocks, block_size=block_size), [request]))
    assert all(output == outputs[0] for output in outputs)


def test_only_the_rows_slots_are_written(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    request = _requests(model)[2]
    advance(runner, [request], chunk=20)
    expected = {(request.block_table[position // BLOCK_SIZE], position % BLOCK_SIZE) for position in range(20)}
    for layer in range(model.config.layers):
        for side in runner.cache.plane(layer):
            written = side.content.abs().amax(dim=(2, 3)).nonzero().tolist()
            assert {(block, slot) for block, slot in written} == expected


def test_a_batch_returns_one_token_for_each_item_that_samples(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    requests = _requests(model)
    long, short = requests[2], requests[0]
    output = runner.run([BatchItem(long, 0, 16, samples=False), BatchItem(short, 0, 1, samples=True)])
    assert output.tokens == [_alone(model)[0][0]]
    assert output.forward_ms > 0
    assert output.sample_ms >= 0
    assert runner.run([BatchItem(long, 16, 16, samples=False)]).tokens == []
    assert runner.run([]).tokens == []


def test_seeds_make_outputs_differ_and_repeat(model: LoadedModel) -> None:
    def output(seed: int | None, engine_seed: int) -> list[int]:
        request = make_request(0, [1, 2, 3], 20, sampling=Sampling(temperature=1.5, seed=seed), table=[4, 2, 0])
        return generate(make_runner(model, blocks=8, block_size=8, seed=engine_seed), [request])[0]

    assert output(1, 1) == output(1, 2) != output(2, 1)
    assert output(None, 1) == output(None, 1) != output(None, 2)


@pytest.mark.parametrize(
    ("start", "count", "table", "message"),
    [
        (0, 11, [0, 1], "asked for 11 tokens, 10 are known"),
        (0, 10, [0], "1 blocks in its table, 2 needed"),
        (0, 10, [0, 128], "names a block outside the pool"),
        (0, 10, [-1, 0], "position 0 is seen, but its block was dropped"),
    ],
)
def test_an_item_that_cannot_be_is_refused_before_anything_is_written(
    model: LoadedModel, start: int, count: int, table: list[int], message: str
) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    good = make_request(1, [1, 2], 1, table=[5])
    bad = make_request(2, [1] * 10, 1, table=table)
    with pytest.raises(ValueError, match=f"request-2: .*{message}"):
        runner.run([BatchItem(good, 0, 2, True), BatchItem(bad, start, count, True)])
    assert not any(side.content.any() for layer in range(model.config.layers) for side in runner.cache.plane(layer))


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=NAMES)
@pytest.mark.parametrize("wrong", [None, 0, 2])
def test_proposed_tokens_are_sampled_behind_as_if_they_were_known(
    model: LoadedModel, sampling: Sampling, wrong: int | None
) -> None:
    """Beside others in the batch, one of whose prompts is not at its end, and one of which draws two samples."""
    expected = _alone(model, sampling)
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE)
    others, (request, *_) = _requests(model, sampling)[1:4], _requests(model, sampling)
    prompt, guess = request.prompt_tokens, expected[0][1:4]
    runner.run([BatchItem(request, 0, prompt, True)])
    request.token_ids.append(expected[0][0])
    if wrong is not None:
        guess[wrong] = (guess[wrong] + 1) % model.config.vocab
    tail = others[2].prompt_tokens
    items = [
        BatchItem(others[0], 0, others[0].prompt_tokens, True),
        BatchItem(others[1], 0, 9, False),
        BatchItem(request, prompt, 4, True, proposed=tuple(guess)),
        BatchItem(others[2], 0, tail, True, forks=(make_request(9, others[2].token_ids, 1, sampling=sampling),)),
    ]
    output = runner.run(items)
    first, *sampled, sample, fork = output.tokens
    right = 4 if wrong is None else wrong + 1
    assert sampled[:right] == expected[0][1 : 1 + right]
    assert first == expected[1][0]
    assert sample == expected[3][0]
    if sampling.temperature == 0.0:
        assert fork == sample


def test_tokens_and_positions_the_model_does_not_have_are_refused(model: LoadedModel) -> None:
    runner = make_runner(model, blocks=BLOCKS, block_size=64)
    far = make_request(1, [1] * 4100, 1, table=list(range(80)))
    with pytest.raises(ValueError, match="position 4096 is outside the context of 4096 tokens"):
        runner.run([BatchItem(far, 4096, 1, True)])
    for token in (512, -1):
        strange = make_request(2, [1, token], 1, table=[0])
        with pytest.raises(ValueError, match=f"token {token} is not in the vocabulary of 512"):
            runner.run([BatchItem(strange, 0, 2, True)])


def test_broken_weights_name_the_request_instead_of_a_token() -> None:
    model = random_model(seed=1)
    model.decoder.weights.final_norm.fill_(torch.nan)
    request = make_request(3, [1, 2], 1, table=[0])
    output = make_runner(model, blocks=1).run([BatchItem(request, 0, 2, True)])
    assert output.failures == {3: "the logits at position 2 are not finite numbers"}


def test_the_caches_size_is_what_it_says(model: LoadedModel) -> None:
    cache = make_runner(model, blocks=10, block_size=4).cache
    assert cache.bytes_per_token == 2 * 2 * 2 * 16 * 4 == kv_bytes_per_token(2, 2, 16, KV_DTYPES["float32"])
    assert cache.total_bytes == 10 * 4 * cache.bytes_per_token
    assert cache.total_bytes == sum(side.content.nbytes for layer in range(2) for side in cache.plane(layer))
    assert cache.dtype.name == "float32"
    assert kv_bytes_per_token(30, 3, 64, KV_DTYPES["bfloat16"]) == 23040


def test_a_pool_that_fits_nowhere_is_refused_with_its_size() -> None:
    with pytest.raises(KVCacheError, match=r"a KV pool of 1000000000 blocks needs .* GiB, which cpu does not have"):
        KVCache(layers=64, blocks=10**9, block_size=64, kv_heads=64, head_size=128)
    with pytest.raises(ValueError, match="blocks is 0, must be at least 1"):
        KVCache(layers=1, blocks=0, block_size=1, kv_heads=1, head_size=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kv_heads": 3}, "4 query heads do not divide among 3"),
        ({"head_size": 7}, "odd"),
        ({"layers": 0}, "layers is 0"),
    ],
)
def test_impossible_models_are_refused(changes: dict[str, int], message: str) -> None:
    sizes = {"layers": 1, "hidden": 8, "feed_forward": 8, "query_heads": 4, "kv_heads": 2, "head_size": 8}
    with pytest.raises(ValueError, match=f"model odd: .*{message}"):
        ModelConfig(name="odd", vocab=8, context=8, **{**sizes, **changes})


def test_the_forward_pass_takes_no_memory_of_the_pools_size(model: LoadedModel) -> None:
    """The same step over a pool 500 times as large allocates the same."""

    def peak(blocks: int) -> int:
        runner = make_runner(model, blocks=blocks, block_size=BLOCK_SIZE)
        request = make_request(0, [1] * 20, 1, table=[blocks - 1, 0, 1])
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            runner.run([BatchItem(request, 0, 20, True)])
        return sum(max(0, event.self_cpu_memory_usage) for event in profile.key_averages())

    small = peak(4)
    assert small > 0
    assert peak(2000) == small
