"""Runs the Triton kernel in Triton's interpreter and prints, as JSON, how far it is from its references.

A program of its own because the interpreter is chosen when triton is first imported:
``TRITON_INTERPRET=1 python -m tests.engine.interpreted``.
"""

import itertools
import json
import math
import sys
from typing import Any

import torch
from torch import Tensor

from engine.model.attention import TorchAttention, attention_backend
from engine.model.kernels.paged_decode import TILE, paged_decode
from engine.model.load import random_model, with_windows
from engine.model.paged_tensor import KV_DTYPES
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from tests.engine.poison import serve
from tests.engine.served import generate, make_request, make_runner, scattered_table

SHAPES = [*itertools.product((8, 16, 32), (1, 3, 4), (64, 128)), (16, 20, 64), (16, 3, 80), (1, 1, 16)]
"""Block size, query heads a KV head, head size; at the end the odd ones: a wide group, a size that needs padding."""

POOL = 256
KV_HEADS = 2


WINDOWS = [*itertools.product((8, 16), (1, 7, TILE, TILE + 3))]
"""Block size and window: within a block, of a tile, over the edges of both."""

MIXED = ("bfloat16", "float16")
"""Element types of the cache under float32 queries."""

ISOLATED = ("float32", "bfloat16", "float16")
"""Element types of the cache whose serving is compared with that over poison."""


SCORED: dict[str, dict[str, float]] = {"scale": {"scale": 0.3}, "cap": {"cap": 1.5}, "both": {"scale": 3.0, "cap": 0.7}}
"""Scores of another scale than usual, and such that approach a cap."""


def reference(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    table: Tensor,
    length: int,
    window: int | None = None,
    scale: float | None = None,
    cap: float | None = None,
) -> Tensor:
    """One sequence's attention from the definition, in float64."""
    first = 0 if window is None else max(0, length - window)
    kv_heads, size = keys.shape[2:]
    group = query.shape[0] // kv_heads
    key = keys[table.long()].reshape(-1, kv_heads, size)[first:length].double().repeat_interleave(group, dim=1)
    value = values[table.long()].reshape(-1, kv_heads, size)[first:length].double().repeat_interleave(group, dim=1)
    scores = torch.einsum("hd,thd->ht", query.double(), key) * (1 / math.sqrt(size) if scale is None else scale)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    return torch.einsum("ht,thd->hd", scores.softmax(dim=-1), value)


def kernel_error(
    block_size: int,
    group: int,
    head_size: int,
    window: int | None = None,
    dtype: torch.dtype = torch.float32,
    asked: torch.dtype = torch.float32,
    **scored: float,
) -> float:
    """Largest difference over ragged lengths: 1, around a block and a tile, exact multiples, several tiles. ``dtype``: of
    the cache, ``asked``: of the queries. ``scored``: see `SCORED`.

    Everything the kernel must not look at is NaN, so that a read too many shows in the result.
    """
    torch.manual_seed(block_size * 1000 + group * 100 + head_size)
    lengths = [1, block_size, block_size + 1, 3 * block_size, TILE, 2 * TILE + 5]
    blocks = [-(-length // block_size) for length in lengths]
    # No block is in two tables, and what no sequence may look at leads nowhere.
    shuffled = (torch.randperm(POOL - 1) + 1).int().split([*blocks, POOL - 1 - sum(blocks)])
    tables = torch.full((len(lengths), max(blocks)), 2**30, dtype=torch.int32)
    for row, own in enumerate(shuffled[:-1]):
        tables[row, : len(own)] = own
    heads = KV_HEADS * group
    # A slice of a wider tensor, as the model passes it: rows are not contiguous.
    query = torch.randn(len(lengths), heads + 2 * KV_HEADS, head_size).to(asked)[:, :heads]
    keys, values = (torch.randn(POOL, block_size, KV_HEADS, head_size).to(dtype) for _ in range(2))
    hidden = torch.ones(POOL, block_size, dtype=torch.bool)
    for row, length in enumerate(lengths):
        for position in range(0 if window is None else max(0, length - window), length):
            hidden[int(tables[row, position // block_size]), position % block_size] = False
    keys[hidden] = values[hidden] = torch.nan

    def outputs(rows: slice) -> Tensor:
        asked_of = torch.tensor(lengths[rows], dtype=torch.int32)
        return paged_decode(query[rows], keys, values, tables[rows], asked_of, window, **scored)

    together, alone = outputs(slice(None)), outputs(slice(len(lengths) - 1, None))
    worst = _distance(alone[0], together[-1])
    for row, (length, count) in enumerate(zip(lengths, blocks, strict=True)):
        expected = reference(query[row], keys, values, tables[row, :count], length, window, **scored)
        worst = max(worst, _distance(together[row].double(), expected))
    return worst


def _distance(left: Tensor, right: Tensor) -> float:
    difference = (left - right).abs().max().item()
    return math.inf if math.isnan(difference) else difference


def model_outputs(backend: str) -> list[list[int]]:
    """Greedy tokens of a random model with one sliding layer, hence two KV groups: a mixed batch, prefill in chunks, scattered blocks."""
    model = with_windows(random_model(seed=3), (None, 10))
    attention = TorchAttention() if backend == "torch" else attention_backend("triton", "cpu", KV_DTYPES["float32"])
    runner = make_runner(model, blocks=POOL, block_size=8, attention=attention)
    free = scattered_table(POOL, POOL * 8, 8, seed=1)
    requests = []
    for number, prompt in enumerate(("a", "longer than a block", "x" * 40)):
        ids = model.tokenizer.encode(prompt)
        table, free = free[:16], free[16:]
        requests.append(make_request(number, ids, 12, table=table))
    return generate(runner, requests, chunk=16)


def isolation(dtype: str) -> str:
    """Serves in chunks, preempting, with samples, beams and two KV groups: clean and over poison. What differs, or nothing."""
    model = with_windows(random_model(seed=3), (None, 10))
    attention = attention_backend("triton", "cpu", KV_DTYPES[dtype])
    runs = []
    for poisons in (False, True):
        work = [make_request(num, [(31 * num + 7 * i) % 211 for i in range(9 + 7 * num)], 6) for num in range(3)]
        add_samples(work[1], [11])
        add_beams(work[2], [12])
        policies = {"token_budget": 16, "partial_reuse": "copy"}
        runs.append(serve(model, work, policies, poisons=poisons, dtype=dtype, blocks=9, attention=attention))
    clean, poisoned = runs
    if not poisoned.preemptions or not poisoned.copies:
        return "nothing was contended"
    if poisoned.outputs != clean.outputs:
        return f"{poisoned.outputs} instead of {clean.outputs}"
    same = [torch.equal(*pair) for pair in zip(poisoned.logits, clean.logits, strict=True)]
    return "" if all(same) else f"logits of batch {same.index(False)}"


def mend_dots() -> None:
    """Triton's interpreter keeps bfloat16 as whole numbers of 16 bits, and multiplies those. Products of bfloat16 are exact
    in float32, in which a GPU sums them."""
    from triton.language import bfloat16, float32
    from triton.runtime.interpreter import InterpreterBuilder

    dot = InterpreterBuilder.create_dot

    def mended(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        a, b = (self.cast_impl(each, float32) if each.dtype.scalar == bfloat16 else each for each in (a, b))
        return dot(self, a, b, *rest)

    InterpreterBuilder.create_dot = mended


def main() -> None:
    mend_dots()
    errors = {
        f"block {block_size}, group {group}, head {head_size}": kernel_error(block_size, group, head_size)
        for block_size, group, head_size in SHAPES
    }
    errors |= {f"block {size}, window {window}": kernel_error(size, 3, 64, window) for size, window in WINDOWS}
    errors |= {f"cache of {name}": kernel_error(16, 3, 64, dtype=getattr(torch, name)) for name in MIXED}
    errors |= {name: kernel_error(16, 3, 64, 67, **scored) for name, scored in SCORED.items()}
    for name in MIXED:
        half = getattr(torch, name)
        errors |= {f"queries of {name}": kernel_error(16, 3, 64, dtype=half, asked=half)}
        errors |= {f"queries of {name}, window": kernel_error(16, 3, 64, 67, dtype=half, asked=half)}
    outputs = {backend: model_outputs(backend) for backend in ("torch", "triton")}
    json.dump({"errors": errors, "isolation": {name: isolation(name) for name in ISOLATED}, **outputs}, sys.stdout)


if __name__ == "__main__":
    main()
