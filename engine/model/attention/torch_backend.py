"""Attention with torch's own kernels, on any device: gathers a sequence's blocks, then scaled dot products.

What is gathered beyond a sequence's own tokens (padding, the rest of its last block) may be anything, also NaN, and a
weight of 0 does not undo that. So it is made 0 in the copy before it is multiplied.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.memory.window import first_seen
from engine.model.attention.base import BatchAttention, BatchLayout, DecodeRows, PrefillSpan
from engine.model.paged_tensor import PagedTensor

PAD_FREELY_BLOCKS = 8
"""Sequences this short share a bucket whatever their lengths: padding costs less than another call."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Decode rows of like length, or one prefill span, as one call.

    ``blocks``: int64, flat, ``sequences * blocks each``. ``mask``: added to the scores, broadcastable to
    ``[sequences, query_heads, queries, tokens]``; 0 or minus infinity. ``hidden``: int64, places of gathered tokens,
    counted over all sequences, that no query of theirs sees.
    """

    rows: slice
    sequences: int
    blocks: Tensor
    mask: Tensor
    hidden: Tensor


class TorchAttention:
    """Every device torch knows. Grouped heads share their KV head inside `scaled_dot_product_attention`."""

    name = "torch"

    def prepare(
        self, layout: BatchLayout, dtype: torch.dtype, scale: float | None = None, cap: float | None = None
    ) -> BatchAttention:
        return _TorchBatch(layout, dtype, scale, cap)


class _TorchBatch:
    def __init__(self, layout: BatchLayout, dtype: torch.dtype, scale: float | None, cap: float | None) -> None:
        self._layout = layout
        self._dtype = dtype
        self._scale, self._cap = scale, cap
        self._buckets: dict[int | None, list[Bucket]] = {}
        """By window; the layers that share one share its masks."""

    def __call__(self, query: Tensor, keys: PagedTensor, values: PagedTensor, window: int | None = None) -> Tensor:
        if window not in self._buckets:
            self._buckets[window] = self._cut(window)
        parts = [
            attend_bucket(bucket, query[bucket.rows], keys, values, self._scale, self._cap)
            for bucket in self._buckets[window]
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _cut(self, window: int | None) -> list[Bucket]:
        layout = self._layout
        buckets = decode_buckets(layout.decode, layout.block_size, self._dtype, window) if layout.decode else []
        return buckets + prefill_buckets(layout, self._dtype, window)


def attend_bucket(
    bucket: Bucket,
    query: Tensor,
    keys: PagedTensor,
    values: PagedTensor,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """``query``: ``[sequences * queries, query_heads, head_size]``, and so is the result."""
    rows, heads, size = query.shape
    kv_heads = keys.content.shape[2]
    gathered = (bucket.sequences, -1, kv_heads, size)
    key, value = (
        side.gather(bucket.blocks, query.dtype).flatten(0, 1).index_fill_(0, bucket.hidden, 0).view(gathered)
        for side in (keys, values)
    )
    asked = query.view(bucket.sequences, rows // bucket.sequences, heads, size).transpose(1, 2)
    key, value = key.transpose(1, 2), value.transpose(1, 2)
    if cap is None:
        mixed = F.scaled_dot_product_attention(
            asked, key, value, attn_mask=bucket.mask, scale=scale, enable_gqa=heads != kv_heads
        )
    else:
        mixed = _attend_capped(asked, key, value, bucket.mask, size**-0.5 if scale is None else scale, cap)
    return mixed.transpose(1, 2).reshape(rows, heads, size)


def _attend_capped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scale: float, cap: float) -> Tensor:
    """Torch's own kernels have no cap. ``[sequences, heads, tokens, head_size]`` each; sums are float32."""
    sequences, heads, queries, size = query.shape
    kv_heads = key.shape[1]
    grouped = query.reshape(sequences, kv_heads, -1, size)
    scores = (grouped @ key.transpose(2, 3)).view(sequences, heads, queries, -1).float() * scale
    weights = (torch.tanh(scores / cap) * cap + mask).softmax(dim=-1).to(query.dtype)
    return (weights.view(sequences, kv_heads, grouped.shape[2], -1) @ value).view(sequences, heads, queries, size)


def decode_buckets(decode: DecodeRows, block_size: int, dtype: torch.dtype, window: int | None = None) -> list[Bucket]:
    """Cut the rows, longest first, where padding to the longest would more than double a row's work.

    Blocks before a row's window are not gathered.
    """
    skipped = [_blocks_before(length - 1, window, block_size) for length in decode.lengths]
    sizes = [-(-length // block_size) - out for length, out in zip(decode.lengths, skipped, strict=True)]
    buckets = []
    first = 0
    # Of rows that fill their window a later one may span a block more than the first.
    longest = sizes[0]
    for row in range(1, len(sizes) + 1):
        if row < len(sizes) and (2 * sizes[row] >= longest or longest <= PAD_FREELY_BLOCKS):
            longest = max(longest, sizes[row])
            continue
        device = decode.tables.device
        lengths = torch.tensor(decode.lengths[first:row], device=device)
        tokens = torch.arange(longest * block_size, device=device)
        if window is None:
            blocks = decode.tables[first:row, :longest].long()
            seen = tokens < lengths[:, None]
        else:
            starts = torch.tensor(skipped[first:row], device=device)[:, None]
            # Past a table's end its last block is taken again; its tokens count as positions past the length.
            columns = (starts + torch.arange(longest, device=device)).clamp_max(decode.tables.shape[1] - 1)
            blocks = decode.tables[first:row].long().gather(1, columns)
            positions = starts * block_size + tokens
            seen = (positions < lengths[:, None]) & (positions >= lengths[:, None] - window)
        mask = _additive(seen, dtype)[:, None, None, :]
        buckets.append(Bucket(slice(first, row), row - first, blocks.flatten(), mask, _hidden(seen)))
        if row < len(sizes):
            first, longest = row, sizes[row]
    return buckets


def prefill_buckets(layout: BatchLayout, dtype: torch.dtype, window: int | None = None) -> list[Bucket]:
    """One call a span: lengths differ too much for padding to pay."""
    return [_prefill_bucket(span, layout.block_size, dtype, window) for span in layout.prefill]


def _prefill_bucket(span: PrefillSpan, block_size: int, dtype: torch.dtype, window: int | None) -> Bucket:
    device = span.blocks.device
    skipped = _blocks_before(span.start, window, block_size)
    gathered = (len(span.blocks) - skipped) * block_size
    tokens = torch.arange(gathered, device=device) + skipped * block_size
    positions = torch.arange(span.start, span.start + span.count, device=device)[:, None]
    seen = tokens <= positions
    if window is not None:
        seen &= tokens > positions - window
    # Known here without asking the device: what its first token does not see yet, and what lies behind its last.
    before, end = first_seen(window, span.start) - skipped * block_size, span.start + span.count - skipped * block_size
    hidden = torch.cat([torch.arange(before), torch.arange(end, gathered)]).to(device)
    rows = slice(span.first_row, span.first_row + span.count)
    return Bucket(rows, 1, span.blocks[skipped:], _additive(seen, dtype), hidden)


def _blocks_before(position: int, window: int | None, block_size: int) -> int:
    """Whole blocks before the window of a token at ``position``."""
    return first_seen(window, position) // block_size


def _additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))


def _hidden(seen: Tensor) -> Tensor:
    return torch.nonzero(~seen.flatten()).flatten()
