"""How the latest finished requests fared, each with all of its times: what goodput is counted from."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.state.request_row import RequestRow
from kvtop.state.service_level import ASKED

KEPT: Final = 4096
ENDED_WELL: Final = ("stop", "length")
"""Reasons of an end that a request came to by itself; all others are told apart."""


class Goodput(NamedTuple):
    """Of requests that finished in a window: those ``within`` the level, of those ``judged``; ``unknown``: finished, but a
    time that is asked for was not told; ``failed``: ended otherwise."""

    within: int
    judged: int
    unknown: int
    failed: int

    @property
    def share(self) -> float | None:
        return self.within / self.judged if self.judged else None


class Outcomes:
    """A ring of the latest `KEPT`, dated by the engine's monotonic clock."""

    def __init__(self) -> None:
        self._dates = np.zeros(KEPT)
        self._times: npt.NDArray[np.float64] = np.full((len(ASKED), KEPT), np.nan)
        self._well = np.zeros(KEPT, dtype=np.bool_)
        self._count = 0

    def add(self, mono: float, row: RequestRow, queue: float | None) -> None:
        """``row`` has finished at ``mono``; ``queue``: seconds it waited before its first token."""
        times = {"ttft": row.ttft_s, "tpot": row.tpot_s, "queue": queue, "latency": latency_of(row)}
        place = self._count % KEPT
        self._dates[place] = mono
        self._times[:, place] = [np.nan if (value := times[name]) is None else value for name in ASKED]
        self._well[place] = row.finish_reason in ENDED_WELL
        # One token has no time between two: there is nothing to exceed.
        if row.tpot_s is None and row.output_tokens is not None and row.output_tokens <= 1:
            self._times[ASKED.index("tpot"), place] = 0.0
        self._count += 1

    def clear(self) -> None:
        self._count = 0

    def goodput(self, level: Mapping[str, float], start: float, stop: float) -> Goodput:
        """Of those that finished from ``start`` up to ``stop``, by the engine's monotonic clock."""
        known = min(self._count, KEPT)
        inside = (self._dates[:known] >= start) & (self._dates[:known] < stop)
        well = inside & self._well[:known]
        failed = int((inside & ~self._well[:known]).sum())
        told, good = well.copy(), well.copy()
        for name, seconds in level.items():
            times = self._times[ASKED.index(name), :known]
            told &= np.isfinite(times)
            # An unknown time is within nothing.
            good &= times <= seconds
        return Goodput(int((good & told).sum()), int(told.sum()), int((well & ~told).sum()), failed)


def latency_of(row: RequestRow) -> float | None:
    """From arrival to end, as the sum of its phases; None where one of them was not told."""
    parts = (row.queue_s, row.prefill_s, row.decode_s)
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)
