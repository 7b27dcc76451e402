"""One query token a sequence against its paged keys and values, in one pass over the tokens.

Online softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax" (2018), as in FlashAttention (Dao et
al., 2022); block tables: Kwon et al., "PagedAttention" (2023). One program serves one sequence and one KV head with all
query heads of its group, so that keys and values are read once a group.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 64
"""Tokens handled at once; a tile may span several blocks or a part of one."""

NO_WINDOW = 2**31 - 1

MIN_GROUP = 16
"""`tl.dot` wants at least 16 rows; the missing query heads are masked."""


@triton.jit  # type: ignore[untyped-decorator]
def paged_decode_kernel(  # type: ignore[no-untyped-def]
    out_ptr,
    query_ptr,
    key_ptr,
    value_ptr,
    table_ptr,
    length_ptr,
    scale,
    cap,
    window,
    out_row_stride,
    out_head_stride,
    query_row_stride,
    query_head_stride,
    block_stride,
    slot_stride,
    kv_head_stride,
    table_row_stride,
    BLOCK_SIZE: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PADDED: tl.constexpr,
    HEAD_SIZE: tl.constexpr,
    HEAD_PADDED: tl.constexpr,
    TILE: tl.constexpr,
    CAPPED: tl.constexpr,
):
    """Grid ``(sequences, kv_heads)``. The last dimension of every tensor is contiguous."""
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    length = tl.load(length_ptr + sequence)
    member = tl.arange(0, GROUP_PADDED)
    element = tl.arange(0, HEAD_PADDED)
    in_head = element < HEAD_SIZE
    query_head = kv_head * GROUP + member
    in_query = (member < GROUP)[:, None] & in_head[None, :]
    query = tl.load(
        query_ptr + sequence * query_row_stride + query_head[:, None] * query_head_stride + element[None, :],
        mask=in_query,
        other=0.0,
    )
    highest = tl.full([GROUP_PADDED], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PADDED], tl.float32)
    mixed = tl.zeros([GROUP_PADDED, HEAD_PADDED], tl.float32)
    # The first tile holds the first position that is seen, so no tile is without any: the sums stay finite.
    begin = tl.maximum(length - window, 0)
    for first in range(begin // TILE * TILE, length, TILE):
        position = first + tl.arange(0, TILE)
        seen = (position >= begin) & (position < length)
        block = tl.load(table_ptr + sequence * table_row_stride + position // BLOCK_SIZE, mask=seen, other=0)
        # 64 bits: a pool may hold more elements than 32 bits count.
        offset = block.to(tl.int64) * block_stride + (position % BLOCK_SIZE) * slot_stride + kv_head * kv_head_stride
        key = tl.load(key_ptr + offset[None, :] + element[:, None], mask=in_head[:, None] & seen[None, :], other=0.0)
        key = key.to(query.dtype)
        score = tl.dot(query, key, input_precision="ieee") * scale
        if CAPPED:
            # tanh by the sigmoid, which stays finite whatever the score is.
            score = cap * (2.0 * tl.sigmoid(2.0 * score / cap) - 1.0)
        score = tl.where(seen[None, :], score, float("-inf"))
        new_highest = tl.maximum(highest, tl.max(score, axis=1))
        shrink = tl.exp(highest - new_highest)
        weight = tl.exp(score - new_highest[:, None])
        value = tl.load(
            value_ptr + offset[:, None] + element[None, :], mask=seen[:, None] & in_head[None, :], other=0.0
        )
        total = total * shrink + tl.sum(weight, axis=1)
        value = value.to(query.dtype)
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(query.dtype), value, input_precision="ieee")
        highest = new_highest
    result = mixed / total[:, None]
    tl.store(
        out_ptr + sequence * out_row_stride + query_head[:, None] * out_head_stride + element[None, :],
        result.to(out_ptr.dtype.element_ty),
        mask=in_query,
    )


def paged_decode(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    lengths: Tensor,
    window: int | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """Attention of one token a sequence.

    ``query``: ``[sequences, query_heads, head_size]``. ``keys``, ``values``: ``[blocks, block_size, kv_heads,
    head_size]`` with equal strides, of a float type of 16 or 32 bits, converted to the query's as they are read.
    ``tables``: int32 ``[sequences, most blocks]``. ``lengths``: int32 ``[sequences]``, tokens of each, at least 1.
    ``window``: of these the last so many are seen, None for all. ``scale``: factor on the scores, one by the square root
    of the head's size unless given; ``cap``: they become ``cap * tanh(score / cap)``. Returns the query's shape and dtype; sums are float32.
    """
    sequences, query_heads, head_size = query.shape
    block_size, kv_heads = keys.shape[1], keys.shape[2]
    group = query_heads // kv_heads
    out = torch.empty((sequences, query_heads, head_size), dtype=query.dtype, device=query.device)
    paged_decode_kernel[(sequences, kv_heads)](
        out,
        query,
        keys,
        values,
        tables,
        lengths,
        head_size**-0.5 if scale is None else scale,
        1.0 if cap is None else cap,
        NO_WINDOW if window is None else window,
        out.stride(0),
        out.stride(1),
        query.stride(0),
        query.stride(1),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        tables.stride(0),
        BLOCK_SIZE=block_size,
        GROUP=group,
        GROUP_PADDED=max(MIN_GROUP, triton.next_power_of_2(group)),
        HEAD_SIZE=head_size,
        HEAD_PADDED=max(MIN_GROUP, triton.next_power_of_2(head_size)),
        TILE=TILE,
        CAPPED=cap is not None,
    )
    return out
