"""How keys or values lie in memory: by blocks, as one of several element types, some with scales.

Element types that are narrower than the model's are converted on the way in and out. Every value depends on its own
token alone, never on what else is in its block or on the order in which the block filled: so a token's KV is the same
whether it came in a chunk, by itself, or again after a preemption, and a cached prefix serves as a computed one does.

``int8`` is symmetric with one scale for each KV head and slot, kept beside the block's content: the largest magnitude
of a head's vector falls on 127. One scale for a whole block would have to grow as the block fills, and what is stored
already would be rounded a second time. Scales by head and token are those of LMDeploy's int8 KV cache (symmetric here)
and follow the per-token quantisation of activations in ZeroQuant (Yao et al., 2022). ``fp8_e4m3`` (Micikevicius
et al., "FP8 formats for deep learning", 2022) is kept without scales, its exponent being what a scale is for.

A type that is not the model's own saturates as it is written: magnitudes above its largest (fp8_e4m3 448, float16 65504),
infinity included, become that. NaN stays NaN, in int8 too, and concerns the request whose token it is, nobody else.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

INT8_LIMIT = 127


@dataclass(frozen=True, slots=True)
class KVDtype:
    """An element type of the cache. ``scaled``: a float32 scale for each KV head and slot beside the elements."""

    name: str
    storage: torch.dtype
    scaled: bool = False

    def bytes_per_vector(self, head_size: int) -> int:
        """Bytes of one head's keys or values of one token, its scale included."""
        return head_size * self.storage.itemsize + (torch.float32.itemsize if self.scaled else 0)


KV_DTYPES = {
    dtype.name: dtype
    for dtype in (
        KVDtype("float32", torch.float32),
        KVDtype("bfloat16", torch.bfloat16),
        KVDtype("float16", torch.float16),
        KVDtype("int8", torch.int8, scaled=True),
        KVDtype("fp8_e4m3", torch.float8_e4m3fn),
    )
}


def kv_dtype(name: str) -> KVDtype:
    """Raises ValueError, in a sentence, for a name that is not known."""
    if name not in KV_DTYPES:
        raise ValueError(f"KV data type {name!r} is not one of {', '.join(KV_DTYPES)}")
    return KV_DTYPES[name]


@dataclass(frozen=True, slots=True)
class PagedTensor:
    """Keys or values of one layer. ``content``: ``[blocks, block_size, kv_heads, head_size]``; ``scales``: float32
    ``[blocks, block_size, kv_heads]``, None for types that have none. Both are views into the cache."""

    content: Tensor
    scales: Tensor | None = None

    def write(self, slots: Tensor, rows: Tensor) -> None:
        """``rows``: ``[n, kv_heads, head_size]`` in any float type, to ``slots`` (int64) of the flattened blocks."""
        flat = self.content.flatten(0, 1)
        if self.scales is not None:
            rows = rows.float()
            scales = rows.abs().amax(dim=-1) / INT8_LIMIT
            # A vector of zeros has the scale 0 and must not be divided by it.
            steps = rows / scales.clamp_min(torch.finfo(torch.float32).tiny)[..., None]
            flat.index_copy_(0, slots, steps.round_().clamp_(-INT8_LIMIT, INT8_LIMIT).to(flat.dtype))
            self.scales.flatten(0, 1).index_copy_(0, slots, scales)
            return
        if flat.dtype != rows.dtype:
            # Conversions do not saturate by themselves; bfloat16 cannot name float16's limit.
            limit = torch.finfo(flat.dtype).max
            rows = rows.float().clamp(-limit, limit).to(flat.dtype)
        if flat.dtype == torch.float8_e4m3fn:
            # Indexing wants a type that torch computes with.
            flat, rows = flat.view(torch.uint8), rows.view(torch.uint8)
        flat.index_copy_(0, slots, rows)

    def gather(self, blocks: Tensor, dtype: torch.dtype) -> Tensor:
        """Whole blocks as ``dtype``: ``[len(blocks), block_size, kv_heads, head_size]``, a copy."""
        if self.scales is not None:
            scales = self.scales.index_select(0, blocks)[..., None]
            return (self.content.index_select(0, blocks) * scales).to(dtype)
        if self.content.dtype == torch.float8_e4m3fn:
            eights = self.content.view(torch.uint8).index_select(0, blocks)
            return eights.view(torch.float8_e4m3fn).to(dtype)
        return self.content.index_select(0, blocks).to(dtype)
