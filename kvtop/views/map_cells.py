"""The blocks of a map as codes, a code a block, and merged where a cell stands for several; how many have which."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kvtop.state import EngineState
from kvtop.views.cells import BLANK, CODES, FIRST, VOTES, VOTING, Codes, block_codes, state_codes
from kvtop.views.families import Families

Places = npt.NDArray[np.int64]


class MapCells:
    """``total`` blocks from number ``first`` on, ``per_cell`` a cell. `follow` and `read` keep what is shown up to date.

    Attributes:
        codes: A code a cell.
        tally: Blocks by code.
        families: Of requests, as the prefix mode shows them.
    """

    def __init__(self) -> None:
        self.first = self.total = 0
        self.per_cell = 1
        self.families = Families()
        self.codes: Codes = np.empty(0, dtype=np.uint8)
        self.tally: npt.NDArray[np.int64] = np.zeros(CODES, dtype=np.int64)
        self._blocks: Codes = np.empty(0, dtype=np.uint8)
        self._states: Codes = state_codes(())

    @property
    def used(self) -> int:
        """Cells that stand for any block."""
        return -(-self.total // self.per_cell)

    def layout(self, first: int, total: int, per_cell: int, cells: int) -> None:
        """Takes these blocks and at least so many cells; all blank until they are `read`."""
        self.first, self.total, self.per_cell = first, total, per_cell
        self._blocks = np.full(self.used * per_cell, BLANK, dtype=np.uint8)
        self.codes = np.full(max(cells, self.used), BLANK, dtype=np.uint8)
        self.tally[:] = 0

    def name_states(self, state: EngineState) -> None:
        """Takes over which code an engine gives which state."""
        self._states = state_codes(state.state_names())

    def read(self, state: EngineState, mode: str, weights: npt.NDArray[np.int64], now: float) -> Places:
        """Looks at all blocks; the cells whose code changed."""
        codes = self._codes(state, mode, slice(self.first, self.first + self.total), now)
        self._blocks[: self.total] = codes
        self.tally = np.bincount(codes, minlength=CODES)
        used = self.used
        merged = codes if self.per_cell == 1 else self._merge(self._blocks.reshape(used, self.per_cell), mode, weights)
        changed = np.flatnonzero(self.codes[:used] != merged)
        self.codes[:used] = merged
        return changed

    def follow(
        self, state: EngineState, places: Places, mode: str, weights: npt.NDArray[np.int64], now: float
    ) -> Places:
        """Looks at the blocks at ``places``, sorted and counted from the first; the cells whose code changed."""
        codes = self._codes(state, mode, places + self.first, now)
        moved = codes != self._blocks[places]
        places, codes = places[moved], codes[moved]
        if not len(places):
            return places
        self.tally -= np.bincount(self._blocks[places], minlength=CODES)
        self.tally += np.bincount(codes, minlength=CODES)
        self._blocks[places] = codes
        if self.per_cell > 1:
            places = np.unique(places // self.per_cell)
            grid = self._blocks.reshape(self.used, self.per_cell)
            codes = self._merge(grid[places], mode, weights)
        changed: Places = places[self.codes[places] != codes]
        self.codes[places] = codes
        return changed

    def _codes(self, state: EngineState, mode: str, index: Places | slice, now: float) -> Codes:
        blocks = state.blocks
        assert blocks is not None
        size = state.hello.geometry.block_size if state.hello else None
        family: Callable[[npt.NDArray[np.int32]], Codes] = lambda owners: self.families.codes(state, owners)  # noqa: E731
        return block_codes(mode, blocks, index, self._states, state.mono_now(now), size=size, family=family)

    def _merge(self, codes: Codes, mode: str, weights: npt.NDArray[np.int64]) -> Codes:
        """One code a row of ``codes``; those beyond the pool are blank, and have no say."""
        if mode == "fill":
            return _mean(codes)
        if mode not in VOTING:
            merged: Codes = np.where(codes == BLANK, 0, codes).max(axis=1)
            return merged
        place = (np.arange(len(codes), dtype=np.int64)[:, None] * VOTES + codes).ravel()
        votes = np.bincount(place, minlength=len(codes) * VOTES).reshape(len(codes), VOTES)
        votes *= weights[:VOTES]
        # argmax takes the first of equals, so look from the highest code down.
        winner: Codes = (VOTES - 1 - votes[:, ::-1].argmax(axis=1)).astype(np.uint8)
        return winner


def _mean(codes: Codes) -> Codes:
    """The mean fill of those that have one; where none has, the highest of the others."""
    filled = (codes >= FIRST) & (codes != BLANK)
    number = filled.sum(axis=1)
    sums = np.where(filled, codes, 0).sum(axis=1, dtype=np.int64)
    others = np.where(codes == BLANK, 0, codes).max(axis=1)
    mean: Codes = np.where(number > 0, (2 * sums + number) // np.maximum(1, 2 * number), others).astype(np.uint8)
    return mean
