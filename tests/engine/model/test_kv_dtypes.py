"""Element types of the KV cache: how exact each is, what it takes, and that scales go where their blocks go."""

from dataclasses import replace

import pytest
import torch

from engine.build import BuildError, build
from engine.config import EngineConfig
from engine.model.attention import TorchAttention
from engine.model.attention.base import lay_out
from engine.model.kv_cache import KVCache, kv_bytes_per_token
from engine.model.load import LoadedModel, random_model
from engine.model.paged_tensor import INT8_LIMIT, KV_DTYPES, PagedTensor, kv_dtype
from engine.model.runner import ModelRunner
from engine.policies.kv_dtype import KV_DTYPES as CHOICES
from engine.requests.batch import BatchItem, BlockCopy
from engine.requests.request import Request
from engine.tiers.device import DeviceStore
from kvtop.cli import build_parser as cli_parser
from kvtop.commands.demo import engine_arguments
from tests.engine.served import advance, generate, make_request, make_runner

BLOCKS, BLOCK_SIZE, HEADS, SIZE = 24, 8, 2, 16
NAMES = list(KV_DTYPES)
NARROW = ["bfloat16", "float16", "int8", "fp8_e4m3"]

RELATIVE = {"float32": 0.0, "bfloat16": 2**-8, "float16": 2**-11, "fp8_e4m3": 2**-4}
"""Largest rounding error of a normal number, as a share of it: half a unit of the last place kept."""


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(seed=11)


def _cache(name: str, layers: int = 1) -> KVCache:
    return KVCache(
        layers=layers,
        blocks=BLOCKS,
        block_size=BLOCK_SIZE,
        kv_heads=HEADS,
        head_size=SIZE,
        dtype=kv_dtype(name),
    )


def _rows(count: int, seed: int = 0) -> torch.Tensor:
    """Vectors whose magnitudes differ a lot from token to token and from head to head."""
    torch.manual_seed(seed)
    return torch.randn(count, HEADS, SIZE) * torch.logspace(-1, 2, count)[:, None, None] * torch.tensor([[1.0], [0.05]])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_is_what_was_written_but_for_the_types_rounding(name: str) -> None:
    side = _cache(name).plane(0)[0]
    slots = torch.randperm(BLOCKS * BLOCK_SIZE)[:40]
    rows = _rows(40)
    side.write(slots, rows)
    got = side.gather(torch.arange(BLOCKS), torch.float32).flatten(0, 1)
    error = (got[slots] - rows).abs()
    if name == "int8":
        # Half a step of the vector's own scale.
        allowed = rows.abs().amax(dim=-1, keepdim=True) / INT8_LIMIT / 2
    else:
        allowed = rows.abs() * RELATIVE[name]
    allowed = allowed + (2.0**-10 if name == "fp8_e4m3" else 1e-6)  # fp8's smallest step is 2^-9
    assert (error <= allowed).all()
    assert name == "float32" or error.max() > 0
    untouched = torch.ones(len(got), dtype=torch.bool)
    untouched[slots] = False
    assert not got[untouched].any()


def test_what_fp8_cannot_hold_becomes_its_largest() -> None:
    side = _cache("fp8_e4m3").plane(0)[0]
    side.write(torch.tensor([0]), torch.tensor([500.0, -1e9]).repeat_interleave(SIZE).view(1, HEADS, SIZE))
    assert side.gather(torch.tensor([0]), torch.float32)[0, 0].unique().tolist() == [-448.0, 448.0]


def test_a_vector_of_zeros_stays_one() -> None:
    side = _cache("int8").plane(0)[0]
    side.write(torch.tensor([3]), torch.zeros(1, HEADS, SIZE))
    assert not side.gather(torch.tensor([0]), torch.float32).any()


@pytest.mark.parametrize("name", NAMES)
def test_a_tokens_kv_does_not_depend_on_how_its_block_filled(name: str) -> None:
    """All at once, one by one, and over what an earlier owner left."""
    rows = _rows(BLOCK_SIZE)
    slots = torch.arange(BLOCK_SIZE)
    at_once, one_by_one = _cache(name), _cache(name)
    at_once.plane(0)[0].write(slots, rows)
    one_by_one.plane(0)[0].write(slots, 1000 * _rows(BLOCK_SIZE, seed=1))
    for slot in slots:
        one_by_one.plane(0)[0].write(slot[None], rows[slot][None])
    read = [cache.plane(0)[0].gather(torch.tensor([0]), torch.float32) for cache in (at_once, one_by_one)]
    assert torch.equal(*read)


@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_of_a_token_are_those_of_the_pool(name: str) -> None:
    cache = _cache(name, layers=3)
    assert sum(part.nbytes for part in cache.parts) == cache.total_bytes
    assert cache.bytes_per_token == kv_bytes_per_token(3, HEADS, SIZE, kv_dtype(name))


def test_bytes_of_the_demos_model() -> None:
    taken = {name: kv_bytes_per_token(30, 3, 64, dtype) for name, dtype in KV_DTYPES.items()}
    assert taken == {"float32": 46080, "bfloat16": 23040, "float16": 23040, "int8": 12240, "fp8_e4m3": 11520}


@pytest.mark.parametrize("name", NAMES)
def test_attention_reads_every_type(name: str) -> None:
    """Decode and prefill over a narrow cache are those over the numbers that it gives back."""
    cache = _cache(name)
    for side in cache.plane(0):
        side.write(torch.arange(BLOCKS * BLOCK_SIZE), torch.randn(BLOCKS * BLOCK_SIZE, HEADS, SIZE))
    wide = [PagedTensor(side.gather(torch.arange(BLOCKS), torch.float32)) for side in cache.plane(0)]
    items = [
        BatchItem(make_request(0, [1] * 30, 1, table=[7, 3, 11, 2]), 29, 1, True),
        BatchItem(make_request(1, [1] * 20, 1, table=[1, 9, 4]), 6, 14, True),
    ]
    attend = TorchAttention().prepare(lay_out(items, BLOCK_SIZE, "cpu"), torch.float32)
    query = torch.randn(15, 2 * HEADS, SIZE)
    torch.testing.assert_close(attend(query, *cache.plane(0)), attend(query, *wide))


def _requests(model: LoadedModel, output: int = 12) -> list[Request]:
    requests = []
    for number, prompt in enumerate(("a", "the quick brown fox jumps over it", "0123456789" * 3)):
        table = range(number * 7, number * 7 + 7)
        requests.append(make_request(number, model.tokenizer.encode(prompt), output, table=table))
    return requests


@pytest.mark.parametrize("name", NARROW)
def test_batching_and_chunking_change_nothing(model: LoadedModel, name: str) -> None:
    def outputs(chunk: int, together: bool) -> list[list[int]]:
        runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE, cache_dtype=name)
        groups = [_requests(model)] if together else [[request] for request in _requests(model)]
        return [output for group in groups for output in generate(runner, group, chunk=chunk)]

    alone = outputs(1000, together=False)
    assert all(outputs(chunk, together=True) == alone for chunk in (1000, 5, 1))


def _continued(model: LoadedModel, name: str, *, fault: bool = False) -> tuple[list[int], list[int]]:
    """A request's output, undisturbed and after a move of its blocks. ``fault``: the scales do not move with them."""
    expected = generate(make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE, cache_dtype=name), _requests(model))[2]
    runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK_SIZE, cache_dtype=name)
    others, moved = _requests(model)[:2], _requests(model)[2]
    generate(runner, others)  # so that the targets hold somebody else's content and scales
    advance(runner, [moved])
    if fault:
        runner.cache.parts = runner.cache.parts[:1]
    old, moved.block_table = moved.block_table, [2, 0, 1, 4, 3, 5, 6]
    pairs = [BlockCopy(source, target, BLOCK_SIZE) for source, target in zip(old, moved.block_table, strict=True)]
    output = runner.run([BatchItem(moved, moved.computed_tokens, 1, True)], pairs)
    moved.computed_tokens += 1
    moved.token_ids.append(output.tokens[0])
    return generate(runner, [moved])[0], expected


@pytest.mark.parametrize("name", NAMES)
def test_a_moved_block_takes_its_scales_along(model: LoadedModel, name: str) -> None:
    moved, expected = _continued(model, name)
    assert moved == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_block_that_leaves_the_device_takes_its_scales_along(name: str) -> None:
    """Out to a lower tier as bytes, and back into another block, whose own scales are those of other content."""
    cache = _cache(name, layers=2)
    for layer in range(2):
        for side in cache.plane(layer):
            side.write(torch.arange(BLOCKS * BLOCK_SIZE), _rows(BLOCKS * BLOCK_SIZE, seed=layer))
    store = DeviceStore(cache.parts)
    assert store.block_bytes == BLOCK_SIZE * cache.bytes_per_token
    sides = [side for layer in range(2) for side in cache.plane(layer)]
    kept = [side.gather(torch.tensor([3]), torch.float32) for side in sides]
    assert not torch.equal(kept[0], sides[0].gather(torch.tensor([20]), torch.float32))
    store.write(20, 0, store.read(3))
    for side, content in zip(sides, kept, strict=True):
        assert torch.equal(side.gather(torch.tensor([20]), torch.float32), content)


def test_the_scales_of_another_block_would_be_noticed(model: LoadedModel) -> None:
    """A fault planted: contents move, scales stay. The test above must be able to see that."""
    moved, expected = _continued(model, "int8", fault=True)
    assert moved != expected


def test_numbers_that_are_none_stay_so(model: LoadedModel) -> None:
    """A broken model is noticed whatever the cache stores."""
    for name in NAMES:
        broken = random_model(seed=1)
        broken.decoder.weights.layers[0].qkv[-1].fill_(torch.nan)
        runner: ModelRunner = make_runner(broken, blocks=2, cache_dtype=name)
        output = runner.run([BatchItem(make_request(0, [1, 2], 1, table=[0]), 0, 2, True)])
        assert output.failures == {0: "the logits at position 2 are not finite numbers"}


def test_the_names_are_the_same_everywhere() -> None:
    assert tuple(KV_DTYPES) == tuple(CHOICES)
    for name in ("auto", *KV_DTYPES):
        options = cli_parser().parse_args(["demo", "--kv-dtype", name])
        arguments = engine_arguments(options)
        assert arguments[arguments.index("--kv-dtype") + 1] == name
    with pytest.raises(ValueError, match="KV data type 'int4' is not one of float32"):
        kv_dtype("int4")
    with pytest.raises(ValueError, match="KV data type 'int4' is not one of auto, float32"):
        EngineConfig(kv_dtype="int4")


@pytest.fixture
def quiet() -> EngineConfig:
    return EngineConfig(name="kinds", model="random", blocks=8, block_size=8, device="cpu")


@pytest.mark.parametrize("name", ["auto", *NAMES])
def test_an_engine_says_what_its_cache_holds(quiet: EngineConfig, name: str) -> None:
    server = build(replace(quiet, kv_dtype=name), lambda *_: None, lambda _: None)
    geometry = server.publisher.hello.geometry
    assert geometry.cache_dtype == ("float32" if name == "auto" else name)
    assert geometry.bytes_per_token == kv_bytes_per_token(2, 2, 16, kv_dtype(geometry.cache_dtype))


def test_an_engine_refuses_a_backend_that_cannot_read_its_cache(quiet: EngineConfig) -> None:
    with pytest.raises(BuildError, match="triton reads KV caches of float32, bfloat16, float16, not of int8") as error:
        build(replace(quiet, kv_dtype="int8", attention="triton"), lambda *_: None, lambda _: None)
    assert error.value.hint == "use --attention torch"
