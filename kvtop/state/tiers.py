"""Tiers of KV memory: which blocks are theirs, and what is believed of what an engine says about them."""

from collections.abc import Callable, Iterable, Sequence

from kvtop.protocol import PoolFacts, TierLevel
from kvtop.state.request_row import MAX_NUMBER

MAX_LEVELS = 64
"""Tiers (times KV groups) kept of one engine."""

TOTALS = (
    "bytes_in",
    "bytes_out",
    "hit_tokens",
    "miss_tokens",
    "stalls",
    "stall_ms",
    "drops",
    "failures",
    "prefetched_blocks",
    "prefetch_used_blocks",
)
"""Fields of a `TierLevel` that count since the engine's start."""


def tier_spans(pools: Iterable[PoolFacts]) -> list[tuple[str, range]]:
    """Name and block numbers of each tier; numbers run on from pool to pool in the order of the hello."""
    spans: list[tuple[str, range]] = []
    start = 0
    for pool in pools:
        stop = start + pool.blocks
        if spans and spans[-1][0] == pool.tier:
            spans[-1] = (pool.tier, range(spans[-1][1].start, stop))
        else:
            spans.append((pool.tier, range(start, stop)))
        start = stop
    return spans


def known_levels(levels: Sequence[TierLevel], complain: Callable[[str], None]) -> tuple[TierLevel, ...]:
    """``levels`` without numbers beyond all measure, which count as not exposed, and at most `MAX_LEVELS` of them."""
    if len(levels) > MAX_LEVELS:
        complain(f"{len(levels)} tiers; this viewer keeps {MAX_LEVELS}")
    kept = []
    for level in levels[:MAX_LEVELS]:
        wild = [name for name, value in level if isinstance(value, int | float) and value > MAX_NUMBER]
        if wild:
            complain(f"tier {level.tier}: {wild[0]} is beyond all measure")
            level = level.model_copy(update={name: 0 if name == "group" else None for name in wild})
        kept.append(level)
    return tuple(kept)


def total_name(level: TierLevel, field: str) -> str:
    """What a total of this tier and group is called among rates."""
    return f"{level.tier}/{level.group}/{field}"


def tier_totals(levels: Iterable[TierLevel]) -> dict[str, int | float]:
    """All totals that are exposed, by `total_name`."""
    return {
        total_name(level, field): value
        for level in levels
        for field in TOTALS
        if (value := getattr(level, field)) is not None
    }
