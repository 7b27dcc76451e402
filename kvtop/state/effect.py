"""What came of a change of policy: the same figures over equal windows before and after it."""

from math import ceil, floor
from typing import Final, NamedTuple

from kvtop.state.comparison import (
    LEAST_S,
    LONGEST_S,
    Comparison,
    block_length,
    block_means,
    block_percentiles,
    compare,
)
from kvtop.state.engine_state import EngineState
from kvtop.state.policy_log import PolicyChange

_COLUMNS: Final = (
    ("tok/s", "decode_tokens", 1.0),
    ("preempt/min", "preemptions", 60.0),
    ("queue", "waiting", 1.0),
    ("KV used", "kv_used", 1.0),
)
"""Figures taken second by second: name, column of the history, and what makes its unit of that."""

_LATENCIES: Final = (("ttft p50", "ttft", 0.5), ("ttft p90", "ttft", 0.9), ("tpot p50", "tpot", 0.5))
"""Figures taken as percentiles in each block."""

FIGURES: Final = ("tok/s", "ttft p50", "ttft p90", "tpot p50", "preempt/min", "queue", "KV used")
HIGHER_IS_BETTER: Final = frozenset({"tok/s"})
NEITHER: Final = frozenset({"KV used"})
"""More of it is neither better nor worse."""


class Effect(NamedTuple):
    """``seconds`` of either window, ``wanted`` before anything can be said; ``cut``: what made the windows no longer."""

    seconds: int
    wanted: int
    block: int
    figures: dict[str, Comparison]
    cut: str = ""

    @property
    def enough(self) -> bool:
        return self.seconds >= self.wanted


def effect_of(state: EngineState, change: PolicyChange, now: float) -> Effect | None:
    """None before anything was seen. Neither window reaches beyond another change, or what this viewer has seen."""
    end, first = state.trend_end(now), state.history.first
    if end is None or first is None:
        return None
    others = [other.at for other in state.policies.changes if other is not change]
    earlier = [at for at in others if at < change.at]
    later = [at for at in others if at > change.at]
    # The second of the change belongs to neither.
    before, after = floor(change.at), ceil(change.at)
    start = max([first, *(ceil(at) for at in earlier)])
    stop = min([end, *(floor(at) for at in later)])
    room_before, room_after = before - start, stop - after
    seconds = max(0, min(room_before, room_after, LONGEST_S))
    cut = ""
    if room_before < min(room_after, LONGEST_S):
        cut = "the change before it" if earlier and start > first else "when this viewer came"
    elif later and stop < end and room_after < LONGEST_S:
        cut = "the change after it"
    block = block_length(seconds)
    spans = ((before - seconds, before), (after, after + seconds))
    figures = {}
    for name, column, times in _COLUMNS:
        parts = [block_means(state.trends([column], *span)[0] * times, block) for span in spans]
        figures[name] = compare(*parts)
    for name, source, share in _LATENCIES:
        latencies = state.ttft if source == "ttft" else state.tpot
        means = []
        for low, high in spans:
            # Samples are dated by the engine's own clock.
            shift = state.history.at(0.0)
            dates, values = latencies.dated(low - shift, high - shift)
            means.append(block_percentiles(dates, values, low - shift, seconds, block, share))
        figures[name] = compare(*means)
    return Effect(seconds, LEAST_S, block, {name: figures[name] for name in FIGURES}, cut)
