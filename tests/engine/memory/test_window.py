"""Sliding windows against a masked reference, alone and beside full layers; and what they leave unread."""

import math
import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from engine.build import BuildError, build
from engine.config import EngineConfig
from engine.memory.window import Windows, describe_windows, first_seen, parse_windows
from engine.model.attention import TorchAttention
from engine.model.attention.base import lay_out, lay_out_groups
from engine.model.kv_cache import KVCache
from engine.model.load import TINY, LoadedModel, random_model, with_windows
from engine.model.paged_tensor import PagedTensor
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem
from engine.requests.request import NULL_BLOCK, Request
from kvtop.cli import build_parser
from kvtop.commands.demo import engine_arguments
from kvtop.state import EngineState
from kvtop.state.ledger import check as contradictions
from kvtop.views.block_table import block_table_rows
from tests.engine.fake_model import make_engine
from tests.engine.fake_model import request as new_request
from tests.engine.served import Serving, advance, generate, make_request, make_runner, scattered_table
from tests.views.scene import check_rows

BLOCKS = 128
HEADS, GROUP, SIZE = 2, 3, 16
LAYERS = 5
PATTERNS: list[Windows] = [(6,) * 5, (9, None, 9, None, 9), (1, 20, None, 8, 8), (11, 3, 3, 11, 11)]
"""One group; three with padding; five of one layer; three with padding of which none sees all."""


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(replace(TINY, layers=LAYERS), seed=4)


@pytest.mark.parametrize("window", [1, 5, 8, 17, 1000])
@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize(
    "spans",
    [[(0, 1), (40, 1), (16, 1), (15, 1)], [(0, 20)], [(16, 16), (7, 13)], [(5, 4), (61, 1), (0, 9), (3, 1), (15, 1)]],
    ids=["decode", "prefill", "later chunks", "mixed"],
)
def test_attention_equals_a_masked_reference(window: int, block_size: int, spans: list[tuple[int, int]]) -> None:
    torch.manual_seed(window)
    free = random.Random(0).sample(range(BLOCKS), BLOCKS)
    items = []
    for number, (start, count) in enumerate(spans):
        taken = -(-(start + count) // block_size)
        table, free = free[:taken], free[taken:]
        items.append(BatchItem(make_request(number, [1] * (start + count), 8, table=table), start, count, True))
    keys, values = (torch.randn(BLOCKS, block_size, HEADS, SIZE) for _ in range(2))
    layout = lay_out(items, block_size, "cpu")
    query = torch.randn(sum(item.count for item in items), HEADS * GROUP, SIZE)
    attend = TorchAttention().prepare(layout, torch.float32)
    result = attend(query, PagedTensor(keys), PagedTensor(values), window)
    row = 0
    for place in layout.order:
        item = items[place]
        table = torch.tensor(item.request.block_table)
        key, value = (side[table].flatten(0, 1).double().repeat_interleave(GROUP, dim=1) for side in (keys, values))
        scores = torch.einsum("qhd,thd->hqt", query[row : row + item.count].double(), key) / math.sqrt(SIZE)
        scores += _mask(item.start + torch.arange(item.count), key.shape[0], window)
        expected = torch.einsum("hqt,thd->qhd", scores.softmax(dim=-1), value)
        torch.testing.assert_close(result[row : row + item.count].double(), expected, atol=2e-6, rtol=1e-5)
        row += item.count


def _mask(positions: Tensor, tokens: int, window: int | None) -> Tensor:
    """0 where a position sees a token, else minus infinity."""
    distance = positions[:, None] - torch.arange(tokens)
    seen = (distance >= 0) & (distance < (window or tokens))
    return torch.zeros(seen.shape, dtype=torch.float64).masked_fill_(~seen, float("-inf"))


def _reference_logits(model: LoadedModel, tokens: list[int]) -> Tensor:
    """The whole model in float64 without pages, chunks or a cache: masks say what each layer sees."""
    config, weights = model.config, model.decoder.weights
    kv, group, size = config.kv_heads, config.group, config.head_size
    half = size // 2
    angles = torch.arange(len(tokens)).double()[:, None] * config.rope.base ** (-torch.arange(half).double() / half)

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + config.norm_epsilon) * weight.double()

    def rotate(x: Tensor) -> Tensor:
        left, right = x[..., :half], x[..., half:]
        cosines, sines = angles.cos()[:, None], angles.sin()[:, None]
        return torch.cat([left * cosines - right * sines, right * cosines + left * sines], dim=-1)

    x = weights.embedding[torch.tensor(tokens)].double()
    for number, layer in enumerate(weights.layers):
        qkv = F.linear(norm(x, layer.attention_norm), layer.qkv.double()).view(len(tokens), -1, size)
        query, key, value = qkv.split([config.query_heads, kv, kv], dim=1)
        query, key = rotate(query), rotate(key).repeat_interleave(group, dim=1)
        scores = torch.einsum("qhd,thd->hqt", query, key) / math.sqrt(size)
        scores += _mask(torch.arange(len(tokens)), len(tokens), config.window(number))
        mixed = torch.einsum("hqt,thd->qhd", scores.softmax(dim=-1), value.repeat_interleave(group, dim=1))
        x = x + F.linear(mixed.reshape(len(tokens), -1), layer.attention_out.double())
        gate, up = F.linear(norm(x, layer.feed_forward_norm), layer.gate_up.double()).chunk(2, dim=-1)
        x = x + F.linear(F.silu(gate) * up, layer.down.double())
    return F.linear(norm(x, weights.final_norm), weights.head.double())


def _paged_logits(model: LoadedModel, tokens: list[int], chunks: list[int], block_size: int = 4) -> Tensor:
    """The decoder's logits for every position, the tokens coming in chunks of these sizes."""
    config, groups = model.config, model.decoder.groups
    cache = KVCache(
        layers=groups.planes,
        blocks=64,
        block_size=block_size,
        kv_heads=config.kv_heads,
        head_size=config.head_size,
    )
    request = make_request(0, tokens, 1, table=scattered_table(64, len(tokens) * len(groups), block_size, seed=1))
    logits, start = [], 0
    for count in chunks:
        layouts = lay_out_groups([BatchItem(request, start, count, True)], block_size, "cpu", len(groups))
        layouts = [replace(layout, sample_rows=torch.arange(count)) for layout in layouts]
        part = torch.tensor(tokens[start : start + count])
        logits.append(model.decoder.forward(part, layouts, cache, TorchAttention()))
        start += count
    return torch.cat(logits)


@pytest.mark.parametrize("windows", [(), *PATTERNS], ids=str)
@pytest.mark.parametrize("chunks", [[40], [13, 1, 1, 14, 11], [1] * 40], ids=["whole", "chunks", "one by one"])
def test_the_model_equals_a_masked_reference(model: LoadedModel, windows: Windows, chunks: list[int]) -> None:
    tokens = [(7 * i * i + 3) % 500 for i in range(40)]
    sliding = with_windows(model, windows)
    expected = _reference_logits(sliding, tokens)
    torch.testing.assert_close(_paged_logits(sliding, tokens, chunks).double(), expected, atol=2e-5, rtol=1e-4)
    if windows:
        # The windows do something: without them the logits are others.
        assert (expected - _reference_logits(model, tokens)).abs().max() > 0.01


def _requests(model: LoadedModel) -> list[Request]:
    places = 12 * len(model.decoder.groups)
    free = scattered_table(2 * BLOCKS, 2 * BLOCKS * 8, 8, seed=2)
    requests = []
    for number, prompt in enumerate(("a", "the quick brown fox jumps over the lazy dog", "0123456789" * 6)):
        table, free = free[:places], free[places:]
        requests.append(make_request(number, model.tokenizer.encode(prompt), 24, table=table))
    return requests


@pytest.mark.parametrize("windows", PATTERNS, ids=str)
def test_batching_chunking_and_preemption_change_nothing(model: LoadedModel, windows: Windows) -> None:
    sliding = with_windows(model, windows)
    groups = len(sliding.decoder.groups)

    def runner() -> ModelRunner:
        return make_runner(sliding, blocks=2 * BLOCKS, block_size=8)

    alone = [generate(runner(), [request])[0] for request in _requests(sliding)]
    for chunk in (1000, 7, 1):
        assert generate(runner(), _requests(sliding), chunk=chunk) == alone
    serving = Serving(runner(), PolicySet(watermark=0.0, token_budget=32), blocks=40 * groups)
    requests = _requests(sliding)
    for request in requests:
        request.block_table.clear()

    def interrupt(iteration: int) -> None:
        if iteration == 9:
            for request in list(serving.scheduler.running):
                serving.scheduler.preempt(request, float(iteration), "forced by the test")

    assert serving.serve(requests, interrupt) == alone
    assert any(request.preemptions and request.recomputed for request in requests)
    assert serving.scheduler.totals.dropped_blocks > 0


def test_blocks_that_slide_out_serve_others(model: LoadedModel) -> None:
    """Two requests together outgrow the pool, but not what their windows see of them: nobody is preempted."""
    sliding = with_windows(model, (6,) * LAYERS)

    def requests() -> list[Request]:
        return [make_request(number, [3 + number, 5, 7], 60) for number in range(2)]

    alone = []
    for request in requests():
        request.block_table = list(range(8))
        alone += generate(make_runner(sliding, blocks=8, block_size=8), [request])
    serving = Serving(make_runner(sliding, blocks=8, block_size=8), PolicySet(watermark=0.0), blocks=8)
    most = 0

    def watch(iteration: int) -> None:
        nonlocal most
        most = max([most, *(len(request.held) for request in serving.scheduler.running)])

    assert serving.serve(requests(), watch) == alone
    assert serving.preemptions == 0
    assert most <= 2
    assert serving.scheduler.totals.dropped_blocks == 2 * ((3 + 60 - 1 - 6) // 8)


def test_a_request_whose_window_has_lost_a_block_is_refused(model: LoadedModel) -> None:
    runner = make_runner(with_windows(model, (6,) * LAYERS), blocks=8, block_size=4)
    request = make_request(0, [1] * 14, 1, table=[NULL_BLOCK, NULL_BLOCK, 3, 4])
    request.holes = 2
    assert len(runner.run([BatchItem(request, 13, 1, True)]).tokens) == 1
    with pytest.raises(ValueError, match="request-0: position 7 is seen, but its block was dropped"):
        runner.run([BatchItem(request, 12, 2, True)])


@pytest.mark.parametrize("windows", PATTERNS, ids=str)
def test_blocks_before_all_windows_are_not_read(model: LoadedModel, windows: Windows) -> None:
    """They hold no numbers any more, and nobody notices: neither a decode nor a chunk of a prompt."""
    sliding = with_windows(model, windows)
    block_size = 4

    def outputs(spoil: bool, chunk: int) -> list[list[int]]:
        runner, groups = make_runner(sliding, blocks=BLOCKS, block_size=block_size), sliding.decoder.groups
        request = make_request(0, sliding.tokenizer.encode("0123456789" * 4), 30, table=range(18 * len(groups)))
        while request.output_tokens < request.max_tokens:
            advance(runner, [request], chunk)
            if spoil:
                for group, window in enumerate(groups.windows):
                    gone = first_seen(window, request.computed_tokens) // block_size
                    table = request.block_table[group :: len(groups)]
                    for part in runner.cache.parts:
                        part[:, :, table[:gone]] = math.nan
        assert not spoil or runner.cache.parts[0].isnan().any()
        return [request.token_ids]

    for chunk in (1000, 7):
        assert outputs(True, chunk) == outputs(False, chunk)


def test_the_first_position_seen() -> None:
    assert first_seen(None, 100) == 0
    assert first_seen(8, 7) == 0
    assert first_seen(8, 8) == 1
    assert first_seen(1, 100) == 100


def test_windows_are_read_from_words() -> None:
    assert parse_windows("64", 3) == (64, 64, 64)
    assert parse_windows("64, full", 5) == (64, None, 64, None, 64)
    assert parse_windows("full", 3) == ()
    assert describe_windows(()) == "no sliding window"
    assert describe_windows((64, 64)) == "sliding window of 64 tokens in all layers"
    assert describe_windows((64, None, 8)) == "sliding window of 8 and 64 tokens in 2 of 3 layers"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "window '0' is neither a number of tokens above 0 nor full"),
        ("-3", "window '-3' is neither"),
        ("8,,8", "window '' is neither"),
        ("²", "window '²' is neither"),
        ("1,2,3", "windows for 3 layers, but the model has 2"),
    ],
)
def test_windows_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_windows(text, 2)


@pytest.mark.parametrize(
    ("windows", "message"), [((8,), "1 windows for 5 layers"), ((8, 0, 8, 8, 8), "a window of 0 tokens")]
)
def test_models_with_impossible_windows_are_refused(model: LoadedModel, windows: Windows, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_windows(model, windows)


def test_an_engine_says_what_its_layers_see() -> None:
    config = EngineConfig(name="sliding", model="random", blocks=8, block_size=8, device="cpu", window="16,full")
    hello = build(config, lambda *_: None, lambda _: None).publisher.hello
    assert hello.limits["windows"] == "sliding window of 16 tokens in 1 of 2 layers"
    assert hello.notice is not None
    assert hello.notice.startswith(
        "sliding window of 16 tokens in 1 of 2 layers, whatever the model was trained with; "
    )
    assert build(replace(config, window=""), lambda *_: None, lambda _: None).publisher.hello.limits["windows"] is None
    with pytest.raises(BuildError, match="windows for 3 layers, but the model has 2") as wrong:
        build(replace(config, window="8,16,full"), lambda *_: None, lambda _: None)
    assert wrong.value.code == 2


def test_the_demo_passes_windows_on() -> None:
    arguments = engine_arguments(build_parser().parse_args(["demo", "--window", "64,full"]))
    assert arguments[arguments.index("--window") + 1] == "64,full"


def test_viewers_see_what_slid_out() -> None:
    """In tables told in pieces as in whole ones, and nothing in them contradicts the blocks."""
    engine, telemetry = make_engine(blocks=16, block_size=4, windows=(9,))
    request = new_request(1, list(range(10)), 30)
    engine.scheduler.add(request, 100.0)
    telemetry.touch(request)
    viewer = EngineState()
    viewer.apply(telemetry.keyframe(), 0.0)
    for _ in range(25):
        viewer.apply(telemetry.frame(engine.step()), 0.0)
        assert viewer.requests is not None
        row = viewer.requests[1]
        assert row.table == request.block_table
        assert row.block_count == len(request.held) == len(row.held)
    viewer.apply(telemetry.keyframe(), 0.0)
    assert viewer.requests[1].table == request.block_table
    # 34 tokens are computed, of which 26 … 34 are seen: 6 blocks of 4 lie before.
    assert request.computed_tokens == 34
    assert request.block_table[:6] == [NULL_BLOCK] * 6
    assert min(request.block_table[6:]) >= 0
    assert contradictions(viewer) == []
    rows = check_rows(block_table_rows(viewer, 1, 100, 12, 0.0), 100, 12).split("\n")
    assert "3 blocks · 6 given up before its window" in rows[0]
    assert "given up: no layer sees these tokens again" in rows[2]
    assert f"{request.block_table[6]:>8}  state 2" in rows[8]  # nobody said what the states are called
