"""Two results side by side: ratios with intervals that say how far chance alone can have brought them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvtop.load.result import LoadResult, Request

RESAMPLES = 2000
BLOCK = 4
"""Slices that are drawn together: what one second holds depends on the second before."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ratio:
    """``b`` over ``a`` with a 95 % bootstrap interval; None where it cannot be told."""

    name: str
    unit: str
    less_is_better: bool
    a: float | None
    b: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 1."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def compare(a: LoadResult, b: LoadResult, seed: int = 0) -> list[Ratio]:
    """Requests are drawn with each other where both runs sent the same ones, else each run's for itself."""
    draw = np.random.default_rng(seed)
    paired = a.asked.digest == b.asked.digest
    ratios = []
    for field, statistic, what in _MEASURES:
        mine, others = _values(a.requests, b.requests, field, paired)
        ratios.append(_ratio(what, "s", True, mine, others, statistic, draw, paired=paired))
    ratios.append(_of_slices(a, b, draw))
    return ratios


def differences(a: LoadResult, b: LoadResult) -> list[str]:
    """What else was not the same, so that a ratio is not put down to the servers alone."""
    found = []
    for name in type(a.asked).model_fields:
        left, right = getattr(a.asked, name), getattr(b.asked, name)
        if left != right:
            found.append(f"{name}: {left} against {right}")
    for name in ("cpu", "cores", "memory_bytes", "platform", "python", "httpx", "kvtop"):
        left, right = getattr(a.client, name), getattr(b.client, name)
        if left != right:
            found.append(f"client's {name}: {left} against {right}")
    if a.server.model != b.server.model:
        found.append(f"model: {a.server.model} against {b.server.model}")
    for name in sorted({*a.notes, *b.notes}):
        if a.notes.get(name) != b.notes.get(name):
            found.append(f"{name}: {a.notes.get(name, '–')} against {b.notes.get(name, '–')}")
    return found


def _median(values: Array) -> Array:
    found: Array = np.quantile(values, 0.5, axis=-1)
    return found


def _p90(values: Array) -> Array:
    found: Array = np.quantile(values, 0.9, axis=-1)
    return found


def _mean(values: Array) -> Array:
    found: Array = values.mean(axis=-1)
    return found


_MEASURES: tuple[tuple[str, Callable[[Array], Array], str], ...] = (
    ("ttft", _mean, "first token, mean"),
    ("ttft", _median, "first token, p50"),
    ("ttft", _p90, "first token, p90"),
    ("tpot", _mean, "per output token, mean"),
    ("tpot", _median, "per output token, p50"),
    ("tpot", _p90, "per output token, p90"),
    ("latency", _median, "whole answer, p50"),
    ("latency", _p90, "whole answer, p90"),
)


def _values(a: Sequence[Request], b: Sequence[Request], field: str, paired: bool) -> tuple[Array, Array]:
    """One of each request that has it; where paired, of the requests that have it in both runs."""
    mine = {(row.session, row.turn): value for row in a if (value := getattr(row, field)) is not None}
    others = {(row.session, row.turn): value for row in b if (value := getattr(row, field)) is not None}
    if paired:
        both = [key for key in mine if key in others]
        mine, others = {key: mine[key] for key in both}, {key: others[key] for key in both}
    return np.array(list(mine.values()), dtype=np.float64), np.array(list(others.values()), dtype=np.float64)


def _ratio(
    name: str, unit: str, less_is_better: bool, a: Array, b: Array, statistic: Callable[[Array], Array],
    draw: np.random.Generator, *, paired: bool,
) -> Ratio:  # fmt: skip
    if not len(a) or not len(b):
        return Ratio(name, unit, less_is_better, _figure(statistic, a), _figure(statistic, b))
    left, right = float(statistic(a)), float(statistic(b))
    if left <= 0 or min(len(a), len(b)) < 2:
        return Ratio(name, unit, less_is_better, left, right, right / left if left > 0 else None)
    chosen = draw.integers(0, len(a), (RESAMPLES, len(a)))
    others = chosen if paired else draw.integers(0, len(b), (RESAMPLES, len(b)))
    return _with_interval(Ratio(name, unit, less_is_better, left, right), statistic(a[chosen]), statistic(b[others]))


def _of_slices(a: LoadResult, b: LoadResult, draw: np.random.Generator) -> Ratio:
    """Of the throughput: runs of slices are drawn, as many as there were."""
    bare = Ratio("output tokens a second", "1/s", False, a.rates.output_tokens, b.rates.output_tokens)
    drawn = []
    if min(result.window[1] - result.window[0] for result in (a, b)) <= 0:
        return bare
    for result in (a, b):
        tokens = np.array(result.slices, dtype=np.float64)
        if len(tokens) < 2 * BLOCK or result.rates.output_tokens <= 0:
            return bare
        starts = draw.integers(0, len(tokens), (RESAMPLES, -(-len(tokens) // BLOCK)))
        places = (starts[:, :, None] + np.arange(BLOCK)) % len(tokens)
        means = tokens[places.reshape(RESAMPLES, -1)[:, : len(tokens)]].mean(axis=-1)
        drawn.append(means / (result.window[1] - result.window[0]) * len(tokens))
    return _with_interval(bare, drawn[0], drawn[1])


def _with_interval(bare: Ratio, a: Array, b: Array) -> Ratio:
    if bare.a is None or bare.b is None:
        return bare
    ratios = b[a > 0] / a[a > 0]
    if not len(ratios):
        return bare
    low, high = np.quantile(ratios, (0.025, 0.975))
    return Ratio(bare.name, bare.unit, bare.less_is_better, bare.a, bare.b, bare.b / bare.a, float(low), float(high))


def _figure(statistic: Callable[[Array], Array], values: Array) -> float | None:
    return float(statistic(values)) if len(values) else None
