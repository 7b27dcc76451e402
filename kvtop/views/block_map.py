"""The map of physical blocks: one cell a block where they fit, else several blocks a cell.

Only the cells of changed blocks are looked at, so a frame costs the same at a thousand blocks and at a million; a change
of layout or mode, and the ageing of the recency mode (once a second at most), look at all of them at once.
"""

from codecs import charmap_decode
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtop.state import Changes, EngineState
from kvtop.views.cells import BLANK, MODES, VOTES, VOTING, Codes, block_codes, look, state_codes
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.format import count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import HIGHLIGHT, Role, Row

RECENCY_PERIOD = 1.0
"""Seconds between two looks at the age of all blocks."""

_Places = npt.NDArray[np.int64]


class BlockMap:
    """``width`` x ``height`` cells; ``per_cell`` blocks each, in the order of their numbers, row by row.

    Of several tiers it shows one (``tier``, counted from the device): ``total`` blocks from number ``first`` on.
    Blocks and the cursor keep their numbers among the blocks of all tiers.

    `update` and everything that changes the picture return the rows that differ; `row` keeps giving the same object
    while a row is unchanged.
    """

    def __init__(self, state: EngineState, glyphs: Glyphs = UNICODE) -> None:
        self.state = state
        self.glyphs = glyphs
        self.width = self.height = 0
        self.tier = 0
        self.first = self.total = 0
        self.per_cell = 1
        self.cursor: int | None = None
        self._mode = MODES[0]
        self._look = look(self._mode, glyphs)
        self._states = state_codes(state.state_names())
        self._codes: Codes = np.empty(0, dtype=np.uint8)
        self._selected: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._picked: _Places = np.empty(0, dtype=np.int64)
        self._rows: list[Row | None] = []
        self._stale: set[int] = set()
        self._aged: float | None = None
        self._now = 0.0
        self._message: str | None = None

    # -- shape and mode -----------------------------------------------------------------------------------------

    def layout(self, total: int, width: int, height: int) -> None:
        """Fits ``total`` blocks into ``width`` x ``height`` cells and draws everything anew."""
        self.width, self.height, self.total = max(0, width), max(0, height), max(0, total)
        cells = max(1, self.width * self.height)
        self.per_cell = max(1, -(-self.total // cells))
        self._codes = np.full(self.width * self.height, BLANK, dtype=np.uint8)
        self._selected = np.zeros(self.width * self.height, dtype=np.bool_)
        self._rows = [None] * self.height
        self._stale = set(range(self.height))
        self._message = None
        self._states = state_codes(self.state.state_names())
        self.first = self.shown.start
        if self.cursor is not None and not 0 <= self.cursor - self.first < self.total:
            self.cursor = None
        self._mark(self._picked)
        self._all(self._now)

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        self._mode = mode
        self._look = look(mode, self.glyphs)
        self._all(self._now)
        if self._message is None:
            # The same codes mean other glyphs now.
            self._stale = set(range(self.height))

    def next_mode(self) -> str:
        """Goes on to the next mode and returns it."""
        self.mode = MODES[(MODES.index(self._mode) + 1) % len(MODES)]
        return self._mode

    @property
    def shown(self) -> range:
        """Numbers of the blocks it is to show: all, or those of one tier."""
        blocks = self.state.blocks
        if blocks is None:
            return range(0)
        spans = self.state.tier_spans()
        if len(spans) < 2:
            return range(blocks.total)
        span = spans[min(self.tier, len(spans) - 1)][1]
        return range(min(span.start, blocks.total), min(span.stop, blocks.total))

    @property
    def tier_name(self) -> str | None:
        """Of the tier shown; None where there is but one."""
        spans = self.state.tier_spans()
        return spans[min(self.tier, len(spans) - 1)][0] if len(spans) > 1 else None

    def next_tier(self) -> str | None:
        """Goes on to the next tier and returns its name; None where there is but one. A new `layout` is due."""
        self.tier = (self.tier + 1) % max(1, len(self.state.tier_spans()))
        return self.tier_name

    def counts(self) -> dict[str, int]:
        """The shown blocks by the name of their state."""
        blocks = self.state.blocks
        if blocks is None or not self.first:
            return self.state.counts() or {}
        codes = np.bincount(blocks.state[self.first : self.first + self.total], minlength=256)
        return {name: int(codes[code]) for code, name in enumerate(self.state.state_names())}

    @property
    def scale(self) -> str:
        return "1 cell = 1 block" if self.per_cell == 1 else f"1 cell = {count(self.per_cell)} blocks"

    # -- what changes -------------------------------------------------------------------------------------------

    def update(self, changes: Changes, now: float) -> set[int]:
        """Takes over ``changes`` of the state at ``now`` (viewer's clock); returns the rows that differ."""
        self._now = now
        blocks, shown = self.state.blocks, self.shown
        if len(shown) != self.total or shown.start != self.first:
            self.layout(len(shown), self.width, self.height)
            return set(range(self.height))
        if changes.full or changes.hello:
            self._states = state_codes(self.state.state_names())
            return self._all(now)
        if blocks is None:
            return self._say()
        if not len(changes.blocks) or not len(self._codes):
            return set()
        places = changes.blocks - self.first
        if self.first or len(shown) != blocks.total:
            places = places[(places >= 0) & (places < self.total)]
        cells = np.unique(places // self.per_cell)
        return self._put(cells, self._reduce(cells))

    def tick(self, now: float) -> set[int]:
        """Lets the blocks age in recency mode, once a second at most; returns the rows that differ."""
        self._now = now
        if self._mode != "recency" or self._aged is None or 0 <= now - self._aged < RECENCY_PERIOD:
            return set()
        return self._all(now)

    def select(self, blocks: Sequence[int] | None) -> set[int]:
        """Highlights the cells of these blocks (a request's table) and no others."""
        picked = np.array(blocks if blocks is not None else (), dtype=np.int64)
        if np.array_equal(picked, self._picked):
            return set()
        self._picked = picked
        before = self._selected
        self._selected = np.zeros(len(self._codes), dtype=np.bool_)
        self._mark(picked)
        return self._redraw(np.flatnonzero(before != self._selected))

    def _mark(self, picked: _Places) -> None:
        picked = picked - self.first
        picked = picked[(picked >= 0) & (picked < self.total)]
        if len(self._selected):
            self._selected[picked // self.per_cell] = True

    def _all(self, now: float) -> set[int]:
        blocks = self.state.blocks
        if blocks is None or len(self.shown) != self.total or not len(self._codes):
            return self._say()
        self._aged = now
        used = -(-self.total // self.per_cell)
        changed = self._put(np.arange(used, dtype=np.int64), self._reduce_all(used))
        if self._message is None:
            return changed
        self._message = None
        self._stale = set(range(self.height))
        return set(range(self.height))

    def _say(self) -> set[int]:
        """Without blocks to draw the map is a sentence."""
        message = not_exposed(self.state, "blocks") if self.state.blocks is None else "no blocks"
        if message == self._message:
            return set()
        self._message = message
        self._rows = list(message_rows(message, self.width, self.height, self.glyphs))
        self._stale = set()
        return set(range(self.height))

    def _put(self, cells: _Places, codes: Codes) -> set[int]:
        changed = cells[self._codes[cells] != codes]
        self._codes[cells] = codes
        return self._redraw(changed)

    def _redraw(self, cells: _Places) -> set[int]:
        if self._message is not None:
            return set()
        rows = set((cells // self.width).tolist()) if self.width else set()
        self._stale |= rows
        return rows

    # -- blocks to cells ----------------------------------------------------------------------------------------

    def _reduce(self, cells: _Places) -> Codes:
        """Codes of some cells, from the blocks in them."""
        blocks = self.state.blocks
        assert blocks is not None
        mono = self.state.mono_now(self._now)
        if self.per_cell == 1:
            return block_codes(self._mode, blocks, cells + self.first, self._states, mono)
        index = cells[:, None] * self.per_cell + np.arange(self.first, self.first + self.per_cell)
        beyond = index >= self.first + self.total
        codes = block_codes(self._mode, blocks, np.where(beyond, 0, index), self._states, mono)
        return self._merge(codes, beyond if beyond.any() else None)

    def _reduce_all(self, used: int) -> Codes:
        blocks = self.state.blocks
        assert blocks is not None
        part = slice(self.first, self.first + self.total)
        codes = block_codes(self._mode, blocks, part, self._states, self.state.mono_now(self._now))
        if self.per_cell == 1:
            return codes
        padded = np.full(used * self.per_cell, BLANK, dtype=np.uint8)
        padded[: self.total] = codes
        grid = padded.reshape(used, self.per_cell)
        return self._merge(grid, grid == BLANK if used * self.per_cell > self.total else None)

    def _merge(self, codes: Codes, beyond: npt.NDArray[np.bool_] | None) -> Codes:
        """One code a row of ``codes``; those ``beyond`` the pool have no say."""
        if self._mode not in VOTING:
            merged: Codes = (codes if beyond is None else np.where(beyond, 0, codes)).max(axis=1)
            return merged
        if beyond is not None:
            codes = np.where(beyond, BLANK, codes)
        place = (np.arange(len(codes), dtype=np.int64)[:, None] * VOTES + codes).ravel()
        votes = np.bincount(place, minlength=len(codes) * VOTES).reshape(len(codes), VOTES)
        votes *= self._look.weights[:VOTES]
        # argmax takes the first of equals, so look from the highest code down.
        winner: Codes = (VOTES - 1 - votes[:, ::-1].argmax(axis=1)).astype(np.uint8)
        return winner

    # -- rows ---------------------------------------------------------------------------------------------------

    def row(self, y: int) -> Row:
        """Row ``y``; the same object as before when nothing in it changed."""
        if y not in self._stale:
            row = self._rows[y]
            if row is not None:
                return row
        self._stale.discard(y)
        part = slice(y * self.width, (y + 1) * self.width)
        codes = self._codes[part].tobytes()
        text = charmap_decode(codes, "strict", self._look.glyphs)[0]
        roles = codes.translate(self._look.roles)
        chosen = self._selected[part]
        at = self._cursor_cell()
        if chosen.any() or (at is not None and part.start <= at < part.stop):
            lit, shapes = bytearray(roles), list(text)
            for x in np.flatnonzero(chosen).tolist():
                lit[x] |= HIGHLIGHT
                # A full block in reverse is a hole, and hides a background: it gets a shape that shows both.
                if shapes[x] == self.glyphs.solid:
                    shapes[x] = self.glyphs.chosen
            if at is not None and part.start <= at < part.stop:
                lit[at - part.start], shapes[at - part.start] = Role.KEY | HIGHLIGHT, self.glyphs.cursor
            roles, text = bytes(lit), "".join(shapes)
        row = Row(text, roles)
        known = self._rows[y]
        if known == row:
            return known
        self._rows[y] = row
        return row

    def rows(self) -> list[Row]:
        return [self.row(y) for y in range(self.height)]

    # -- cursor and places --------------------------------------------------------------------------------------

    def _cursor_cell(self) -> int | None:
        return None if self.cursor is None else (self.cursor - self.first) // self.per_cell

    def set_cursor(self, block: int | None) -> set[int]:
        """Puts the cursor on one of the blocks shown (the nearest there is), or takes it away."""
        before = self._cursor_cell()
        last = self.first + self.total - 1
        self.cursor = None if block is None or not self.total else max(self.first, min(block, last))
        after = self._cursor_cell()
        if before == after:
            return set()
        return self._redraw(np.array([cell for cell in (before, after) if cell is not None], dtype=np.int64))

    def move(self, dx: int, dy: int) -> set[int]:
        """Moves the cursor by cells; it stays in its column at the upper and lower edge. The first move shows it."""
        cell = self._cursor_cell()
        if cell is None or not self.width:
            return self.set_cursor(self.first)
        last = (self.total - 1) // self.per_cell
        target = cell + dx + dy * self.width
        if not 0 <= target <= last:
            target = cell if dy else max(0, min(target, last))
        return self.set_cursor(self.first + target * self.per_cell)

    def step(self, delta: int) -> set[int]:
        """Moves the cursor by blocks, within a cell of several too."""
        return self.set_cursor(self.first if self.cursor is None else self.cursor + delta)

    def blocks_at(self, x: int, y: int) -> range:
        """Blocks of a cell; empty beyond the pool."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            return range(0)
        first = (y * self.width + x) * self.per_cell
        stop = min(first + self.per_cell, self.total)
        return range(self.first + min(first, self.total), self.first + stop)

    def block_at(self, x: int, y: int) -> int | None:
        """The first block of a cell."""
        return next(iter(self.blocks_at(x, y)), None)

    def cell_of(self, block: int) -> tuple[int, int]:
        """``(x, y)`` of the cell that shows ``block``."""
        y, x = divmod((block - self.first) // self.per_cell, max(1, self.width))
        return x, y
