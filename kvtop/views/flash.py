"""Cells that changed just now are drawn brighter for a moment, in two steps."""

import numpy as np
import numpy.typing as npt

FLASH_STEPS = 2
STEP_S = 0.25
"""Seconds of a step."""

MOST = 16
"""Cells that begin to flash in a frame, at most. Each is drawn twice more than the change itself: more of them would take
a slow line more than the kilobyte that a frame of the map may have, and where much changes nobody follows single cells."""

Cells = npt.NDArray[np.int64]
_NONE: Cells = np.empty(0, dtype=np.int64)


class Flash:
    """``on``: whether cells flash. ``steps``: of each cell, 0 where it does not, else how bright."""

    def __init__(self) -> None:
        self.on = False
        self.steps: npt.NDArray[np.uint8] = np.empty(0, dtype=np.uint8)
        self._lit: list[tuple[float, Cells]] = []

    def fit(self, cells: int) -> None:
        """For a map of so many cells, none of which has changed."""
        self.steps = np.zeros(cells, dtype=np.uint8)
        self._lit.clear()

    @property
    def going(self) -> bool:
        return bool(self._lit)

    def begin(self, cells: Cells, weights: npt.NDArray[np.int64], now: float) -> None:
        """``cells`` changed at ``now`` (seconds); of more than `MOST` the weightiest flash, the first of equals."""
        if not self.on or not len(cells):
            return
        if len(cells) > MOST:
            cells = cells[np.sort(np.argsort(-weights, kind="stable")[:MOST])]
        self.steps[cells] = FLASH_STEPS
        self._lit.append((now, cells))

    def fade(self, now: float) -> Cells:
        """Cells that look different at ``now``, by time alone. A clock that went back ends them."""
        if not self._lit:
            return _NONE
        cells = np.unique(np.concatenate([cells for _, cells in self._lit]))
        before = self.steps[cells]
        self.steps[cells] = 0
        lit = [(began, cells) for began, cells in self._lit if self.on and 0 <= now - began < FLASH_STEPS * STEP_S]
        for began, recent in lit:
            self.steps[recent] = FLASH_STEPS - int((now - began) / STEP_S)
        self._lit = lit
        changed: Cells = cells[before != self.steps[cells]]
        return changed
