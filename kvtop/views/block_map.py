"""The map of physical blocks: some blocks a cell, one cell a block, or several cells a block with what is in it.

Only the cells of changed blocks are looked at, so a frame costs the same at a thousand blocks and at a million; a change
of layout or mode, and the ageing of the recency mode and of families (once a second at most), look at all of them at once.
"""

from codecs import charmap_decode
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtop.state import Changes, EngineState
from kvtop.views.block_content import content_row
from kvtop.views.cells import MODES, Look, look
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.families import Families
from kvtop.views.flash import Flash
from kvtop.views.format import count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.map_cells import MapCells, Places
from kvtop.views.rows import HIGHLIGHT, Role, Row
from kvtop.views.zoom import CONTENT, ZOOMS, Zoom

RECENCY_PERIOD = 1.0
"""Seconds between two looks at the age, or the family, of all blocks."""

_AGEING = frozenset({"recency", "prefix"})


class BlockMap:
    """``height`` rows of ``width`` cells; ``per_cell`` blocks each, in the order of their numbers, row by row. Where that is
    one, a cell may be several columns wide, as ``zoom`` says. Of a map that is higher the rows from ``top`` on are shown.

    Of several tiers it shows one (``tier``, counted from the device), in the mode *tier* all: ``total`` blocks from number
    ``first`` on. Blocks and the cursor keep their numbers among the blocks of all tiers.

    `update` and everything that changes the picture return the rows that differ; `row` keeps giving the same object
    while a row is unchanged.
    """

    def __init__(self, state: EngineState, glyphs: Glyphs = UNICODE) -> None:
        self.state = state
        self.glyphs = glyphs
        self.width = self.height = self.top = 0
        self.tier = 0
        self.first = self.total = 0
        self.per_cell = 1
        self.zoom = ZOOMS[0]
        self.cursor: int | None = None
        self.flash = Flash()
        self._mode = MODES[0]
        self._look = look(self._mode, glyphs)
        self._cells = MapCells()
        self._selected: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._picked: Places = np.empty(0, dtype=np.int64)
        self._rows: list[Row | None] = []
        self._stale: set[int] = set()
        self._aged: float | None = None
        self._now = 0.0
        self._message: str | None = None

    # -- shape and mode -----------------------------------------------------------------------------------------

    def layout(self, total: int, width: int, height: int, per_cell: int | None = None, zoom: Zoom = ZOOMS[0]) -> None:
        """Lays ``total`` blocks out in rows of ``width`` cells and draws everything anew. Without ``per_cell`` they all
        fit into ``height`` rows."""
        self.width, self.height, self.total = max(0, width), max(0, height), max(0, total)
        cells = self.width * self.height
        self.per_cell = max(1, -(-self.total // max(1, cells)) if per_cell is None else per_cell)
        self.zoom = zoom
        self.first = self.shown.start
        self._cells.layout(self.first, self.total, self.per_cell, max(cells, self.lines * self.width))
        self._cells.name_states(self.state)
        self.flash.fit(len(self._cells.codes))
        self._selected = np.zeros(len(self._cells.codes), dtype=np.bool_)
        self._rows = [None] * self.height
        self._stale = set(range(self.height))
        self._message = None
        self._look = self._looks()
        if self.cursor is not None and not 0 <= self.cursor - self.first < self.total:
            self.cursor = None
        self.top = max(0, min(self.top, self.lines - self.height))
        self._mark(self._picked)
        self._all(self._now)

    @property
    def lines(self) -> int:
        """Rows of the whole map, those out of sight included."""
        return -(-self._cells_used // self.width) if self.width else 0

    @property
    def _cells_used(self) -> int:
        return -(-self.total // self.per_cell)

    @property
    def in_sight(self) -> range:
        """The blocks of the rows that are shown."""
        row = self.width * self.per_cell
        start, stop = (min(line * row, self.total) for line in (self.top, self.top + self.height))
        return range(self.first + start, self.first + stop)

    @property
    def mode(self) -> str:
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
        self._mode = mode
        self._look = self._looks()
        if self._fits_shown():
            self.flash.fit(len(self._cells.codes))
            self._all(self._now)
        else:
            self.top = 0
            self.layout(len(self.shown), self.width, self.height)
        if self._message is None:
            # The same codes mean other glyphs now.
            self._stale = set(range(self.height))

    def _looks(self) -> Look:
        return look(self._mode, self.glyphs, [name for name, _ in self.state.tier_spans()])

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
        if len(spans) < 2 or self._mode == "tier":
            return range(blocks.total)
        span = spans[min(self.tier, len(spans) - 1)][1]
        return range(min(span.start, blocks.total), min(span.stop, blocks.total))

    def _fits_shown(self) -> bool:
        return (self.shown.start, len(self.shown)) == (self.first, self.total)

    @property
    def tier_name(self) -> str | None:
        """Of the tier shown; None where there is but one, or all are shown."""
        spans = self.state.tier_spans()
        return spans[min(self.tier, len(spans) - 1)][0] if len(spans) > 1 and self._mode != "tier" else None

    def next_tier(self) -> str | None:
        """Goes on to the next tier and returns its name; None where there is but one. A new `layout` is due."""
        if self._mode == "tier":
            self._mode = MODES[0]
        self.tier = (self.tier + 1) % max(1, len(self.state.tier_spans()))
        self.top = 0
        return self.tier_name

    def show_tier_of(self, block: int) -> bool:
        """Goes to the tier that ``block`` belongs to; whether that is another one, so that a new `layout` is due."""
        spans = self.state.tier_spans()
        tier = next((place for place, (_, span) in enumerate(spans) if block in span), self.tier)
        if tier == self.tier or self._mode == "tier":
            return False
        self.tier, self.top = tier, 0
        return True

    def counts(self) -> dict[str, int]:
        """The shown blocks by the name of their state."""
        blocks = self.state.blocks
        if blocks is None or not self.first:
            return self.state.counts() or {}
        codes = np.bincount(blocks.state[self.first : self.first + self.total], minlength=256)
        return {name: int(codes[code]) for code, name in enumerate(self.state.state_names())}

    @property
    def tally(self) -> npt.NDArray[np.int64]:
        """The shown blocks by their code in this mode (`kvtop.views.cells`)."""
        return self._cells.tally

    @property
    def families(self) -> Families:
        return self._cells.families

    @property
    def scale(self) -> str:
        return "1 cell = 1 block" if self.per_cell == 1 else f"1 cell = {count(self.per_cell)} blocks"

    # -- what changes -------------------------------------------------------------------------------------------

    def update(self, changes: Changes, now: float) -> set[int]:
        """Takes over ``changes`` of the state at ``now`` (viewer's clock); returns the rows that differ."""
        self._now = now
        blocks, shown = self.state.blocks, self.shown
        if not self._fits_shown():
            self.layout(len(shown), self.width, self.height)
            return set(range(self.height))
        if changes.full or changes.hello:
            self._cells.name_states(self.state)
            self._look = self._looks()
            return self._all(now)
        if blocks is None:
            return self._say()
        if not len(changes.blocks) or not len(self._cells.codes):
            return set()
        places = changes.blocks - self.first
        if self.first or len(shown) != blocks.total:
            places = places[(places >= 0) & (places < self.total)]
        cells = self._cells.follow(self.state, places, self._mode, self._look.weights, now)
        if self.flash.on:
            near = cells[(cells >= self.top * self.width) & (cells < (self.top + self.height) * self.width)]
            self.flash.begin(near, self._look.weights[self._cells.codes[near]], now)
        # A large block shows more of itself than its code.
        return self._redraw(places if self.zoom.glyphs >= CONTENT else cells)

    def tick(self, now: float) -> set[int]:
        """Lets flashes fade, and in recency mode the blocks age, once a second at most; returns the rows that differ."""
        self._now = now
        rows = self._redraw(self.flash.fade(now)) if self.flash.going else set()
        if self._mode not in _AGEING or self._aged is None or 0 <= now - self._aged < RECENCY_PERIOD:
            return rows
        return rows | self._all(now)

    def select(self, blocks: Sequence[int] | None) -> set[int]:
        """Highlights the cells of these blocks (a request's table) and no others."""
        picked = np.array(blocks if blocks is not None else (), dtype=np.int64)
        if np.array_equal(picked, self._picked):
            return set()
        self._picked = picked
        before = self._selected
        self._selected = np.zeros(len(self._cells.codes), dtype=np.bool_)
        self._mark(picked)
        return self._redraw(np.flatnonzero(before != self._selected))

    def _mark(self, picked: Places) -> None:
        picked = picked - self.first
        picked = picked[(picked >= 0) & (picked < self.total)]
        if len(self._selected):
            self._selected[picked // self.per_cell] = True

    @property
    def picked(self) -> Places:
        """The blocks that are highlighted, in the order of their request's table."""
        return self._picked

    def _all(self, now: float) -> set[int]:
        blocks = self.state.blocks
        if blocks is None or not self._fits_shown() or not len(self._cells.codes):
            return self._say()
        if self._mode == "prefix":
            self._cells.families.read(self.state)
        self._aged = now
        changed = self._redraw(self._cells.read(self.state, self._mode, self._look.weights, now))
        if self.zoom.glyphs >= CONTENT:
            self._stale = set(range(self.height))
            changed = set(range(self.height))
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

    def _redraw(self, cells: Places) -> set[int]:
        if self._message is not None or not self.width or not len(cells):
            return set()
        lines = np.unique(cells // self.width) - self.top
        rows = set(lines[(lines >= 0) & (lines < self.height)].tolist())
        self._stale |= rows
        return rows

    # -- rows ---------------------------------------------------------------------------------------------------

    def row(self, y: int) -> Row:
        """Row ``y``; the same object as before when nothing in it changed."""
        if y not in self._stale:
            row = self._rows[y]
            if row is not None:
                return row
        self._stale.discard(y)
        row = self._compose((self.top + y) * self.width)
        known = self._rows[y]
        if known == row:
            return known
        self._rows[y] = row
        return row

    def _compose(self, start: int) -> Row:
        part = slice(start, start + self.width)
        codes = self._cells.codes[part].tobytes()
        text = charmap_decode(codes, "strict", self._look.glyphs)[0]
        roles = codes.translate(self._look.roles)
        bright = self.flash.steps[part]
        if bright.any():
            shades, shapes = bytearray(roles), list(text)
            for x in np.flatnonzero(bright).tolist():
                shades[x] = Role.FLASH0 + int(bright[x]) - 1
                shapes[x] = self._lit_shape(shapes[x])
            roles, text = bytes(shades), "".join(shapes)
        at = self._cursor_cell()
        at = None if at is None or not part.start <= at < part.stop else at - part.start
        chosen = self._selected[part]
        if self.zoom.columns > 1:
            blocks = range(self.first + start, self.first + min(part.stop, self.total))
            row = content_row(self.state, blocks, Row(text, roles), self._mode, self.zoom, self.glyphs)
            if not chosen.any() and at is None:
                return row
            columns, glyphs = self.zoom.columns, self.zoom.glyphs
            chosen = np.repeat(chosen, columns) & (np.arange(len(chosen) * columns) % columns < glyphs)
            at, (text, roles) = None if at is None else at * columns, row
            chosen = chosen[: len(text)]
        elif not chosen.any() and at is None:
            return Row(text, roles)
        lit, shapes = bytearray(roles), list(text)
        for x in np.flatnonzero(chosen).tolist():
            lit[x] |= HIGHLIGHT
            shapes[x] = self._lit_shape(shapes[x])
        if at is not None:
            lit[at], shapes[at] = Role.KEY | HIGHLIGHT, self.glyphs.cursor
        return Row("".join(shapes), bytes(lit))

    def _lit_shape(self, shape: str) -> str:
        """A full block in reverse is a hole, and hides a background: it gets a shape that shows both."""
        return self.glyphs.chosen if shape and shape == self.glyphs.solid else shape

    def rows(self) -> list[Row]:
        return [self.row(y) for y in range(self.height)]

    # -- moving over it -----------------------------------------------------------------------------------------

    def scroll(self, top: int) -> set[int]:
        """Shows the rows from ``top`` on, or the nearest that fill it."""
        top = max(0, min(top, self.lines - self.height))
        if top == self.top or self._message is not None:
            return set()
        self.top = top
        self._stale = set(range(self.height))
        return set(self._stale)

    def bring(self, block: int) -> set[int]:
        """Scrolls until ``block`` is in sight: by as little as that takes, or to have it in the middle where it is far."""
        line = (block - self.first) // self.per_cell // max(1, self.width)
        if not 0 <= block - self.first < self.total or self.top <= line < self.top + self.height:
            return set()
        off = self.top - line if line < self.top else line - self.top - self.height + 1
        if off > 2:
            return self.scroll(line - self.height // 2)
        return self.scroll(line if line < self.top else line - self.height + 1)

    # -- cursor and places --------------------------------------------------------------------------------------

    def _cursor_cell(self) -> int | None:
        return None if self.cursor is None else (self.cursor - self.first) // self.per_cell

    def set_cursor(self, block: int | None) -> set[int]:
        """Puts the cursor on one of the blocks shown (the nearest there is) and in sight, or takes it away."""
        before = self._cursor_cell()
        last = self.first + self.total - 1
        self.cursor = None if block is None or not self.total else max(self.first, min(block, last))
        after = self._cursor_cell()
        moved = set() if self.cursor is None else self.bring(self.cursor)
        if before == after:
            return moved
        return moved | self._redraw(np.array([cell for cell in (before, after) if cell is not None], dtype=np.int64))

    def move(self, dx: int, dy: int) -> set[int]:
        """Moves the cursor by cells; it stays in its column at the upper and lower edge. The first move shows it."""
        cell = self._cursor_cell()
        if cell is None or not self.width:
            return self.set_cursor(self.in_sight.start)
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
        first = ((self.top + y) * self.width + x) * self.per_cell
        stop = min(first + self.per_cell, self.total)
        return range(self.first + min(first, self.total), self.first + stop)

    def cell_blocks(self, block: int) -> range:
        """Blocks of the cell that ``block`` is in."""
        start = (block - self.first) // self.per_cell * self.per_cell
        return range(self.first + start, self.first + min(start + self.per_cell, self.total))

    @property
    def cursor_line(self) -> int:
        """The row of the whole map that the cursor is in; without one, the first in sight."""
        cell = self._cursor_cell()
        return self.top if cell is None else cell // max(1, self.width)

    @property
    def last_line(self) -> int:
        """The last row that has a cell below the cursor."""
        cell, last = self._cursor_cell() or 0, self._cells_used - 1
        return (last - cell % max(1, self.width)) // max(1, self.width)

    def block_at(self, x: int, y: int) -> int | None:
        """The first block of a cell."""
        return next(iter(self.blocks_at(x, y)), None)

    def cell_of(self, block: int) -> tuple[int, int]:
        """``(x, y)`` of the cell that shows ``block``; ``y`` is none of a row where it is out of sight."""
        y, x = divmod((block - self.first) // self.per_cell, max(1, self.width))
        return x, y - self.top
