"""Whether what an engine says adds up. The viewer checks it with its own copy of the facts."""

from collections.abc import Iterable

import numpy as np

from kvtop.state.engine_state import EngineState

_MAIN = ("free", "cached", "active", "shared")
"""States with a gauge that every engine of ours tells; whatever others there are, all together make the pool."""

_NAMED = 5
"""Blocks named in one sentence; the rest are counted."""


def contradictions(state: EngineState) -> list[str]:
    """The part of `check` that costs nothing worth counting, however many blocks and requests there are."""
    return [] if state.resync else [*_gauges_add_up(state), *_counts_match(state)]


def check(state: EngineState) -> list[str]:
    """Sentences about what contradicts itself; empty when all is well or too little is exposed to tell.

    Blocks by state = the gauges; all states together = the pool; references = places in block tables.
    """
    return [] if state.resync else [*contradictions(state), *_references_match(state)]


def _gauges_add_up(state: EngineState) -> Iterable[str]:
    parts = [state.gauges.get(f"kv_blocks_{name}") for name in _MAIN]
    total = state.gauges.get("kv_blocks_total")
    if total is None or any(part is None for part in parts):
        return
    known = sum(part for part in parts if part is not None)
    counts = state.counts()
    others = 0 if counts is None else sum(number for name, number in counts.items() if name not in _MAIN)
    if known + others != total:
        yield f"free + cached + active + shared (+ {others} in other states) = {known + others}, but the pool has {total}"


def _counts_match(state: EngineState) -> Iterable[str]:
    counts = state.counts()
    if counts is None or state.blocks is None:
        return
    for name in _MAIN:
        gauge = state.gauges.get(f"kv_blocks_{name}")
        if gauge is not None and name in counts and counts[name] != gauge:
            yield f"{counts[name]} blocks are {name}, but kv_blocks_{name} says {gauge}"
    total = state.gauges.get("kv_blocks_total")
    if total is not None and total != state.blocks.device:
        yield f"the map has {state.blocks.device} blocks, but kv_blocks_total says {total}"


def _references_match(state: EngineState) -> Iterable[str]:
    if state.blocks is None or state.requests is None:
        return
    # Table by table, so that another thread gets its turn between two of them.
    tables = [np.array(row.table, dtype=np.int64) for row in state.requests.values() if row.table]
    places = np.concatenate(tables) if tables else np.empty(0, dtype=np.int64)
    # A table told before the pool was known can name blocks beyond it, and any table places without a block; lower
    # tiers have no tables.
    device = state.blocks.device
    places = places[(places >= 0) & (places < device)]
    counted = np.bincount(places, minlength=device)
    wrong = np.flatnonzero(counted != state.blocks.refs[:device])
    for block in wrong[:_NAMED]:
        yield f"block {block} is in {counted[block]} tables, but has {state.blocks.refs[block]} references"
    if len(wrong) > _NAMED:
        yield f"and {len(wrong) - _NAMED} more blocks whose references differ from the tables"
