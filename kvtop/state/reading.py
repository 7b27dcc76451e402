"""What of an engine's levels and totals its history keeps."""

from collections.abc import Iterable, Mapping, Sequence
from math import nan
from typing import Final

import numpy as np

from kvtop.protocol import TierLevel
from kvtop.state.history import LEVELS, TOTALS, Reading, Values

_STATES: Final = ("active", "shared", "cached", "free")

Numbers = Mapping[str, int | float]


def reading(
    at: float,
    gauges: Numbers,
    totals: Mapping[str, float],
    *,
    counts: Mapping[str, int] | None,
    waiting: int | None,
    oldest_wait: float | None,
    lower: Iterable[TierLevel],
) -> Reading:
    """How it is at ``at``, a second of the history's clock.

    Args:
        counts: The device's blocks by state, where blocks are exposed; else gauges say.
        waiting: Length of the queue, where that is exposed; else gauges say.
        lower: The tiers below the device.
    """
    used, cached, free = _kv_shares(gauges, counts)
    levels = {
        "kv_used": used,
        "kv_cached": cached,
        "kv_free": free,
        "running": gauges.get("running"),
        "waiting": gauges.get("waiting") if waiting is None else waiting,
        "oldest_wait": oldest_wait,
    }
    moved = [total for level in lower for total in (level.bytes_in, level.bytes_out) if total is not None]
    return Reading(
        at, _values(LEVELS, levels), _values(TOTALS, {**totals, **({"tier_bytes": sum(moved)} if moved else {})})
    )


def _kv_shares(gauges: Numbers, counts: Mapping[str, int] | None) -> tuple[float | None, float | None, float | None]:
    """Used (active and shared), cached and free, of the device's pool."""
    blocks: dict[str, float | None]
    if counts is not None and (total := float(sum(counts.values()))):
        blocks = {name: counts.get(name) for name in _STATES}
    else:
        total = float(gauges.get("kv_blocks_total", 0))
        blocks = {name: gauges.get(f"kv_blocks_{name}") for name in _STATES}
    active, cached, free = blocks["active"], blocks["cached"], blocks["free"]
    if not total or active is None:
        return gauges.get("kv_usage"), None, None
    used = (active + (blocks["shared"] or 0)) / total
    return used, None if cached is None else cached / total, None if free is None else free / total


def _values(names: Sequence[str], known: Mapping[str, float | None]) -> Values:
    """By name, NaN where it is not known."""
    return np.array([nan if (value := known.get(name)) is None else value for name in names], dtype=np.float64)
