"""The memory that block tables point into: per plane, keys and values of every block in the pool."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.model.paged_tensor import KV_DTYPES, KVDtype, PagedTensor


class KVCacheError(MemoryError):
    """The pool does not fit into the device's memory; the text says how big it would be."""


class KVCache:
    """Keys and values as ``[blocks, block_size, kv_heads, head_size]`` for each plane.

    A block holds the tokens of as many layers as there are planes: all, or those of one KV group (`engine.memory.groups`).
    What it held for an earlier owner stays until it is overwritten: whoever reads it reads its own tokens alone.

    Position ``p`` of a request lies in slot ``table[p // block_size] * block_size + p %
    block_size`` of the flattened blocks, where ``table`` is what its table says of the group.
    """

    def __init__(
        self,
        *,
        layers: int,
        blocks: int,
        block_size: int,
        kv_heads: int,
        head_size: int,
        dtype: KVDtype = KV_DTYPES["float32"],
        device: torch.device | str = "cpu",
    ) -> None:
        """Raises ValueError for a size below 1 and `KVCacheError` when the device cannot hold the pool."""
        for name, size in (("layers", layers), ("blocks", blocks), ("block_size", block_size)):
            if size < 1:
                raise ValueError(f"KV cache: {name} is {size}, must be at least 1")
        self.blocks = blocks
        self.block_size = block_size
        self.dtype = dtype
        self.device = torch.device(device)
        self._sizes = {"layers": layers, "blocks": blocks, "block_size": block_size}
        self._sizes |= {"kv_heads": kv_heads, "head_size": head_size}
        self.bytes_per_token = kv_bytes_per_token(layers, kv_heads, head_size, dtype)
        shape = (layers, 2, blocks, block_size, kv_heads)
        try:
            content = torch.zeros((*shape, head_size), dtype=dtype.storage, device=device)
            scales = torch.zeros(shape, dtype=torch.float32, device=device) if dtype.scaled else None
        except RuntimeError:
            raise KVCacheError(
                f"a KV pool of {blocks} blocks needs {self.total_bytes / 2**30:.1f} GiB, which {device} does not have; "
                "ask for fewer blocks"
            ) from None
        self.parts: tuple[Tensor, ...] = (content,) if scales is None else (content, scales)
        """All that blocks hold, each ``[planes, 2, blocks, …]``. Whoever moves a block moves its share of every part."""
        self._planes = [
            tuple(PagedTensor(content[layer, side], None if scales is None else scales[layer, side]) for side in (0, 1))
            for layer in range(layers)
        ]

    @property
    def total_bytes(self) -> int:
        """Bytes of the whole pool."""
        return self.blocks * self.block_size * self.bytes_per_token

    def release(self) -> None:
        """Give the memory up. Nothing can be read or written any more; `anew` still works."""
        self.parts, self._planes = (), []

    def anew(self, dtype: KVDtype) -> "KVCache":
        """An empty cache of the same shape in this element type. Raises `KVCacheError` as the constructor does."""
        return KVCache(**self._sizes, dtype=dtype, device=self.device)

    def copy_blocks(self, pairs: Sequence[tuple[int, int]]) -> None:
        """Copy whole blocks, ``(source, target)``, in the order given: a target may be the source of a later pair.

        All layers at once; needs room for the copied blocks for the time it takes. Raises ValueError, before anything
        is written, for a block outside the pool.
        """
        if not pairs:
            return
        # What each target holds in the end, named by the block that held it at the start: so one gather, which reads
        # everything before anything is written, does the work of copies one after another.
        origins: dict[int, int] = {}
        for source, target in pairs:
            if not (0 <= source < self.blocks and 0 <= target < self.blocks):
                raise ValueError(f"copy of block {source} to {target}: the pool has blocks 0 to {self.blocks - 1}")
            origins[target] = origins.get(source, source)
        device = self.parts[0].device
        targets = torch.tensor(list(origins), device=device)
        sources = torch.tensor(list(origins.values()), device=device)
        for part in self.parts:
            # Bytes for the types that torch stores but does not index.
            memory = part.view(torch.uint8) if part.dtype.itemsize == 1 else part
            memory.index_copy_(2, targets, memory.index_select(2, sources))

    def plane(self, number: int) -> tuple[PagedTensor, PagedTensor]:
        """Keys and values of one plane, views to be read and written in place."""
        keys, values = self._planes[number]
        return keys, values


def kv_bytes_per_token(layers: int, kv_heads: int, head_size: int, dtype: KVDtype) -> int:
    """Bytes that the keys and values of one token take over so many layers, scales included."""
    return layers * 2 * kv_heads * dtype.bytes_per_vector(head_size)
