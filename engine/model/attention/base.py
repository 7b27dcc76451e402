"""How a batch lies over the cache, and what an attention backend does with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from engine.model.paged_tensor import PagedTensor
from engine.requests.batch import BatchItem


class AttentionError(RuntimeError):
    """The backend cannot run here; the text says what it needs."""


@dataclass(frozen=True, slots=True)
class DecodeRows:
    """The first ``len(lengths)`` rows of the batch: one query token each, longest first.

    ``tables``: int32 ``[rows, most blocks]``, physical blocks in logical order, padded with 0.
    ``lengths``: tokens each attends to, its own included; never 0.
    """

    tables: Tensor
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class PrefillSpan:
    """Rows ``first_row … first_row+count-1``: positions ``start …`` of one sequence whose blocks are ``blocks``."""

    first_row: int
    count: int
    start: int
    blocks: Tensor


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The rows of one flat batch over the blocks of one KV group. ``order[i]`` is the item whose rows come i-th: decode
    rows first, then prefill.

    ``positions``, ``slots``: int64 ``[rows]``, place in the sequence and in the flattened cache. ``reach``: all positions
    lie below it. ``sample_rows``: int64, the rows of each item whose logits are wanted, in the order of the *items*.
    """

    order: list[int]
    block_size: int
    positions: Tensor
    reach: int
    slots: Tensor
    sample_rows: Tensor
    decode: DecodeRows | None
    prefill: tuple[PrefillSpan, ...]


class BatchAttention(Protocol):
    """Attention of one batch, called once a layer."""

    def __call__(self, query: Tensor, keys: PagedTensor, values: PagedTensor, window: int | None = None) -> Tensor:
        """``query``: ``[rows, query_heads, head_size]``; ``keys``, ``values``: a layer of the cache, in which the
        batch's own KV is written already. Returns the query's shape. The row at position p sees positions 0 … p, of
        these the last ``window`` where one is given."""
        ...


class AttentionBackend(Protocol):
    """Turns a layout into what its kernels want, once a batch (masks, tables, splits)."""

    name: str

    def prepare(
        self, layout: BatchLayout, dtype: torch.dtype, scale: float | None = None, cap: float | None = None
    ) -> BatchAttention:
        """``dtype`` is that of the queries; keys and values are read as it, whatever the cache stores. ``scale``: factor on
        the scores, one by the square root of the head's size unless given. ``cap``: they become ``cap * tanh(score / cap)``."""
        ...


def lay_out_groups(
    items: Sequence[BatchItem], block_size: int, device: torch.device | str, groups: int
) -> list[BatchLayout]:
    """The layouts of a batch by KV group; they differ in slots and blocks only. Raises ValueError as `lay_out`."""
    return [lay_out(items, block_size, device, group, groups) for group in range(groups)]


def lay_out(
    items: Sequence[BatchItem], block_size: int, device: torch.device | str, group: int = 0, groups: int = 1
) -> BatchLayout:
    """The layout of a batch: items of one token are decode rows, sorted by length so that neighbours pad alike. Of the
    requests' tables, the places of one group of so many.

    Raises ValueError when an item is empty or its request's block table does not reach the item's last position.
    """
    tables: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    for item in items:
        needed = -(-(item.start + item.count) // block_size)
        held = len(item.request.block_table) // groups
        if item.count < 1 or item.start < 0:
            raise ValueError(
                f"request {item.request.id}: {item.count} tokens from position {item.start} is no batch item"
            )
        if held < needed:
            raise ValueError(f"request {item.request.id}: {held} blocks in its table, {needed} needed")
        # Places without a block lie before the group's window: whatever stands there is not read.
        table = item.request.block_table[group : needed * groups : groups]
        tables.append(np.maximum(np.asarray(table, dtype=np.int64), 0))

    decoding = [i for i, item in enumerate(items) if item.count == 1]
    decoding.sort(key=lambda i: -items[i].start)
    order = decoding + [i for i, item in enumerate(items) if item.count > 1]
    positions = np.concatenate([np.arange(items[i].start, items[i].start + items[i].count) for i in order])
    slots = np.empty_like(positions)
    first_rows: dict[int, int] = {}
    row = 0
    for i in order:
        where = positions[row : row + items[i].count]
        slots[row : row + items[i].count] = tables[i][where // block_size] * block_size + where % block_size
        first_rows[i] = row
        row += items[i].count
    return BatchLayout(
        order=order,
        block_size=block_size,
        positions=torch.from_numpy(positions).to(device),
        reach=int(positions.max()) + 1,
        slots=torch.from_numpy(slots).to(device),
        sample_rows=torch.tensor(
            [first_rows[i] + position - item.start for i, item in enumerate(items) for position in item.rows],
            dtype=torch.int64,
            device=device,
        ),
        decode=_decode_rows([tables[i] for i in decoding], [items[i].start + 1 for i in decoding], device),
        prefill=tuple(
            PrefillSpan(first_rows[i], items[i].count, items[i].start, torch.from_numpy(tables[i]).to(device))
            for i in order[len(decoding) :]
        ),
    )


def _decode_rows(
    tables: list[np.ndarray[tuple[int], np.dtype[np.int64]]], lengths: list[int], device: torch.device | str
) -> DecodeRows | None:
    if not tables:
        return None
    padded = np.zeros((len(tables), max(len(table) for table in tables)), dtype=np.int32)
    for row, table in enumerate(tables):
        padded[row, : len(table)] = table
    return DecodeRows(torch.from_numpy(padded).to(device), lengths)
