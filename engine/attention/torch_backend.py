"""Attention with torch's own kernels, on any device: gathers a sequence's blocks, then scaled dot products."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.attention.base import BatchAttention, BatchLayout, DecodeRows, PrefillSpan
from engine.paged_tensor import PagedTensor

PAD_FREELY_BLOCKS = 8
"""Sequences this short share a bucket whatever their lengths: padding costs less than another call."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Decode rows of like length, or one prefill span, as one call.

    ``blocks``: int64, flat, ``sequences * blocks each``. ``mask``: added to the scores, broadcastable to
    ``[sequences, query_heads, queries, tokens]``; 0 or minus infinity.
    """

    rows: slice
    sequences: int
    blocks: Tensor
    mask: Tensor


class TorchAttention:
    """Every device torch knows. Grouped heads share their KV head inside `scaled_dot_product_attention`."""

    name = "torch"

    def prepare(self, layout: BatchLayout, dtype: torch.dtype) -> BatchAttention:
        buckets = decode_buckets(layout.decode, layout.block_size, dtype) if layout.decode else []
        buckets += prefill_buckets(layout, dtype)
        return _TorchBatch(buckets)


class _TorchBatch:
    def __init__(self, buckets: list[_Bucket]) -> None:
        self._buckets = buckets

    def __call__(self, query: Tensor, keys: PagedTensor, values: PagedTensor) -> Tensor:
        parts = [attend_bucket(bucket, query[bucket.rows], keys, values) for bucket in self._buckets]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def attend_bucket(bucket: _Bucket, query: Tensor, keys: PagedTensor, values: PagedTensor) -> Tensor:
    """``query``: ``[sequences * queries, query_heads, head_size]``, and so is the result."""
    rows, heads, size = query.shape
    kv_heads = keys.content.shape[2]
    gathered = (bucket.sequences, -1, kv_heads, size)
    key = keys.gather(bucket.blocks, query.dtype).view(gathered).transpose(1, 2)
    value = values.gather(bucket.blocks, query.dtype).view(gathered).transpose(1, 2)
    asked = query.view(bucket.sequences, rows // bucket.sequences, heads, size).transpose(1, 2)
    mixed = F.scaled_dot_product_attention(asked, key, value, attn_mask=bucket.mask, enable_gqa=heads != kv_heads)
    return mixed.transpose(1, 2).reshape(rows, heads, size)


def decode_buckets(decode: DecodeRows, block_size: int, dtype: torch.dtype) -> list[_Bucket]:
    """Cut the rows, longest first, where padding to the longest would more than double a row's work."""
    sizes = [-(-length // block_size) for length in decode.lengths]
    buckets = []
    first = 0
    for row in range(1, len(sizes) + 1):
        longest = sizes[first]
        if row < len(sizes) and (2 * sizes[row] >= longest or longest <= PAD_FREELY_BLOCKS):
            continue
        blocks = decode.tables[first:row, :longest].long().flatten()
        lengths = torch.tensor(decode.lengths[first:row], device=blocks.device)
        seen = torch.arange(longest * block_size, device=blocks.device) < lengths[:, None]
        buckets.append(_Bucket(slice(first, row), row - first, blocks, _additive(seen, dtype)[:, None, None, :]))
        first = row
    return buckets


def prefill_buckets(layout: BatchLayout, dtype: torch.dtype) -> list[_Bucket]:
    """One call a span: lengths differ too much for padding to pay."""
    return [_prefill_bucket(span, layout.block_size, dtype) for span in layout.prefill]


def _prefill_bucket(span: PrefillSpan, block_size: int, dtype: torch.dtype) -> _Bucket:
    device = span.blocks.device
    tokens = torch.arange(len(span.blocks) * block_size, device=device)
    positions = torch.arange(span.start, span.start + span.count, device=device)
    mask = _additive(tokens <= positions[:, None], dtype)
    return _Bucket(slice(span.first_row, span.first_row + span.count), 1, span.blocks, mask)


def _additive(seen: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))
