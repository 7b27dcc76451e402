"""How a batch is laid over the cache, and attention over it against a float64 reference."""

import math
import platform
import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from engine.memory.window import first_seen
from engine.model.attention import AttentionError, TorchAttention, attention_backend
from engine.model.attention.base import lay_out
from engine.model.attention.torch_backend import PAD_FREELY_BLOCKS, decode_buckets
from engine.model.paged_tensor import KV_DTYPES, PagedTensor
from engine.requests.batch import BatchItem
from tests.engine.served import make_request, scattered_table

BLOCKS = 128
KV_HEADS, HEAD_SIZE = 2, 16

Span = tuple[int, int]
"""Start and count of an item."""


def _items(spans: Sequence[Span], block_size: int, seed: int = 0) -> list[BatchItem]:
    """Items on tables that are scattered and do not overlap."""
    free = random.Random(seed).sample(range(BLOCKS), BLOCKS)
    items = []
    for number, (start, count) in enumerate(spans):
        blocks = -(-(start + count) // block_size)
        table, free = free[:blocks], free[blocks:]
        assert len(table) == blocks
        items.append(BatchItem(make_request(number, [1] * (start + count), 8, table=table), start, count, True))
    return items


def _reference(
    item: BatchItem,
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    window: int | None = None,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """Attention of one item, token by token, from the definition, in float64."""
    block_size, group = keys.shape[1], query.shape[1] // keys.shape[2]
    slots = [
        (item.request.block_table[position // block_size], position % block_size)
        for position in range(item.start + item.count)
    ]
    key = torch.stack([keys[slot] for slot in slots]).double().repeat_interleave(group, dim=1)
    value = torch.stack([values[slot] for slot in slots]).double().repeat_interleave(group, dim=1)
    rows = []
    for row in range(item.count):
        end = item.start + row + 1
        seen = slice(first_seen(window, end - 1), end)
        scores = torch.einsum("hd,thd->ht", query[row].double(), key[seen])
        scores = scores / math.sqrt(query.shape[2]) if scale is None else scores * scale
        if cap is not None:
            scores = cap * torch.tanh(scores / cap)
        rows.append(torch.einsum("ht,thd->hd", scores.softmax(dim=-1), value[seen]))
    return torch.stack(rows)


@pytest.mark.parametrize("block_size", [1, 8, 16])
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize(
    "spans",
    [
        [(0, 1)],
        [(15, 1), (16, 1), (0, 1), (17, 1)],
        [(0, 20)],
        [(16, 16), (7, 13)],
        [(5, 4), (30, 1), (0, 9), (3, 1), (15, 1)],
    ],
    ids=["one token", "decode around a block's edge", "prefill", "later chunks", "mixed"],
)
def test_torch_agrees_with_float64(block_size: int, group: int, spans: list[Span]) -> None:
    torch.manual_seed(block_size * 10 + group)
    items = _items(spans, block_size)
    keys, values = (torch.randn(BLOCKS, block_size, KV_HEADS, HEAD_SIZE) for _ in range(2))
    layout = lay_out(items, block_size, "cpu")
    query = torch.randn(sum(item.count for item in items), KV_HEADS * group, HEAD_SIZE)
    result = TorchAttention().prepare(layout, torch.float32)(query, PagedTensor(keys), PagedTensor(values))
    row = 0
    for place in layout.order:
        count = items[place].count
        expected = _reference(items[place], query[row : row + count], keys, values)
        torch.testing.assert_close(result[row : row + count].double(), expected, atol=2e-6, rtol=1e-5)
        row += count


@pytest.mark.parametrize(("scale", "cap"), [(0.3, None), (None, 1.5), (3.0, 0.7)])
@pytest.mark.parametrize("window", [None, 5])
def test_scores_may_have_a_scale_and_a_cap(scale: float | None, cap: float | None, window: int | None) -> None:
    torch.manual_seed(1)
    block_size = 8
    items = _items([(5, 4), (30, 1), (0, 9), (3, 1), (15, 1)], block_size)
    keys, values = (torch.randn(BLOCKS, block_size, KV_HEADS, HEAD_SIZE) for _ in range(2))
    layout = lay_out(items, block_size, "cpu")
    query = torch.randn(len(layout.positions), 3 * KV_HEADS, HEAD_SIZE)
    attend = TorchAttention().prepare(layout, torch.float32, scale, cap)
    result = attend(query, PagedTensor(keys), PagedTensor(values), window)
    row = 0
    for place in layout.order:
        count = items[place].count
        expected = _reference(items[place], query[row : row + count], keys, values, window, scale, cap)
        torch.testing.assert_close(result[row : row + count].double(), expected, atol=2e-6, rtol=1e-5)
        row += count


def test_rows_point_at_their_slots_and_positions() -> None:
    block_size = 8
    items = _items([(6, 4), (9, 1), (20, 1)], block_size)
    layout = lay_out(items, block_size, "cpu")
    # Decode rows first, the longest before the shorter; then the prefill span.
    assert layout.order == [2, 1, 0]
    assert layout.positions.tolist() == [20, 9, 6, 7, 8, 9]
    tables = [item.request.block_table for item in items]
    expected = [tables[2][2] * 8 + 4, tables[1][1] * 8 + 1]
    expected += [tables[0][0] * 8 + 6, tables[0][0] * 8 + 7, tables[0][1] * 8, tables[0][1] * 8 + 1]
    assert layout.slots.tolist() == expected
    # In the order of the items: the last row of each.
    assert layout.sample_rows.tolist() == [5, 1, 0]


def test_only_items_that_sample_have_a_row_to_sample() -> None:
    first, second = _items([(0, 8), (3, 1)], 8)
    layout = lay_out([BatchItem(first.request, 0, 8, samples=False), second], 8, "cpu")
    assert layout.sample_rows.tolist() == [0]


@pytest.mark.parametrize(
    ("start", "count", "blocks", "message"),
    [(0, 17, 2, "2 blocks in its table, 3 needed"), (3, 0, 1, "no batch item"), (-1, 1, 1, "no batch item")],
)
def test_an_item_that_cannot_be_is_refused(start: int, count: int, blocks: int, message: str) -> None:
    request = make_request(7, [1] * 40, 1, table=scattered_table(BLOCKS, blocks * 8, 8, seed=0))
    with pytest.raises(ValueError, match=f"request-7: .*{message}"):
        lay_out([BatchItem(request, start, count, True)], 8, "cpu")


def test_padding_never_doubles_the_work_of_long_rows() -> None:
    block_size = 4
    spans = [(start, 1) for start in (90, 60, 44, 40, 20, 3, 0)]
    layout = lay_out(_items(spans, block_size), block_size, "cpu")
    assert layout.decode is not None
    buckets = decode_buckets(layout.decode, block_size, torch.float32)
    sizes = [-(-length // block_size) for length in layout.decode.lengths]
    assert [row for bucket in buckets for row in range(bucket.rows.start, bucket.rows.stop)] == list(range(len(spans)))
    assert len(buckets) > 1
    for bucket in buckets:
        padded = len(bucket.blocks) // bucket.sequences
        assert padded == sizes[bucket.rows.start]
        assert padded <= PAD_FREELY_BLOCKS or 2 * min(sizes[bucket.rows]) >= padded


@pytest.mark.parametrize("poison", [1e4, math.nan, math.inf, -math.inf, torch.finfo(torch.float32).max])
@pytest.mark.parametrize("window", [None, 5])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_unwritten_slots_and_other_requests_blocks_have_no_weight(
    poison: float, window: int | None, cap: float | None
) -> None:
    """Rows of lengths that are padded, a chunk that ends within a block, and block 0, which padded tables name."""
    block_size = 8
    items = _items([(10, 1), (3, 1), (21, 1), (9, 4), (0, 11)], block_size)
    keys, values = (torch.randn(BLOCKS, block_size, KV_HEADS, HEAD_SIZE) for _ in range(2))
    layout = lay_out(items, block_size, "cpu")
    query = torch.randn(len(layout.positions), KV_HEADS, HEAD_SIZE)
    attend = TorchAttention().prepare(layout, torch.float32, cap=cap)
    before = attend(query, PagedTensor(keys), PagedTensor(values), window)
    seen = {
        (item.request.block_table[p // 8], p % 8)
        for item in items
        for p in range(first_seen(window, item.start), item.start + item.count)
    }
    assert 0 not in {block for block, _ in seen}
    for block in range(BLOCKS):
        for slot in range(block_size):
            if (block, slot) not in seen:
                keys[block, slot] = values[block, slot] = poison
    assert torch.equal(attend(query, PagedTensor(keys), PagedTensor(values), window), before)


@pytest.mark.parametrize("window", [None, 5])
def test_bfloat16_queries_agree_with_float64(window: int | None) -> None:
    """As a GPU has them. The difference is that of the type: eight bits, over sums of a few numbers around 1."""
    block_size = 8
    items = _items([(10, 1), (40, 1), (9, 13)], block_size)
    keys, values = (torch.randn(BLOCKS, block_size, KV_HEADS, HEAD_SIZE).bfloat16() for _ in range(2))
    layout = lay_out(items, block_size, "cpu")
    query = torch.randn(len(layout.positions), 3 * KV_HEADS, HEAD_SIZE).bfloat16()
    attend = TorchAttention().prepare(layout, torch.bfloat16)
    result = attend(query, PagedTensor(keys), PagedTensor(values), window)
    assert result.dtype == torch.bfloat16
    row = 0
    for place in layout.order:
        count = items[place].count
        expected = _reference(items[place], query[row : row + count], keys, values, window)
        torch.testing.assert_close(result[row : row + count].double(), expected, atol=0.02, rtol=2**-7)
        row += count


def test_backends_are_chosen_by_name() -> None:
    for dtype in KV_DTYPES.values():
        assert attention_backend("torch", "cpu", dtype).name == "torch"
    with pytest.raises(AttentionError, match="'flash' is not one of torch, triton"):
        attention_backend("flash", "cpu", KV_DTYPES["float32"])


def test_triton_without_a_gpu_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(AttentionError, match=r"needs (a GPU, not cpu|the triton package)"):
        attention_backend("triton", "cpu", KV_DTYPES["float32"])


@pytest.mark.skipif(platform.system() != "Linux", reason="triton exists for Linux alone")
@pytest.mark.parametrize("name", ["int8", "fp8_e4m3"])
def test_triton_refuses_a_cache_that_it_cannot_read(name: str) -> None:
    with pytest.raises(AttentionError, match=f"reads KV caches of float32, bfloat16, float16, not of {name}"):
        attention_backend("triton", "cuda", KV_DTYPES[name])
