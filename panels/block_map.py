"""The map of physical blocks with its cursor, its legend and a line about the block under the cursor."""

from collections.abc import Sequence

from textual import events
from textual.message import Message

from kvtop.state import Changes, EngineState
from kvtop.term.keys import Action, bindings
from kvtop.views.block_detail import block_detail_rows, block_line_row
from kvtop.views.block_map import BlockMap
from kvtop.views.exposure import not_exposed
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.holders import holder_rows
from kvtop.views.legend import legend_rows
from kvtop.views.numbers import MAP
from kvtop.views.rows import Row, clean
from panels.layout import Need, Room
from panels.panel import Tick, TitledPanel, title_row, with_rule
from panels.zoom import ZOOMS, fitting

_BLANK = Row("", b"")

FULL_DETAIL = 6
"""Rows about a block, and about who holds the most, where the map fills the screen."""


def frame_rows(height: int) -> int:
    """Rows of the panel that are not map, on a terminal of ``height``: its title, and one or two about a block."""
    return 2 if height < 28 else 3


class BlockMapPanel(TitledPanel):
    """Keys move the cursor; ``Enter`` asks for the owner of the block under it."""

    ID, NAME, DIGIT = "map", "block map", 1
    NUMBERS = MAP
    EVERY_FRAME = True
    ACTIONS = (
        Action("left", ("h", "left"), "h ←", "one cell to the left"),
        Action("down", ("j", "down"), "j ↓", "one row down"),
        Action("up", ("k", "up"), "k ↑", "one row up"),
        Action("right", ("l", "right"), "l →", "one cell to the right"),
        Action("top", ("g", "home"), "g Home", "first block"),
        Action("bottom", ("G", "end"), "G End", "last block"),
        Action("open", ("enter",), "Enter", "select the request that owns the block", "owner"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    class OwnerChosen(Message):
        """The user wants to see the request that owns the block under the cursor."""

        def __init__(self, num: int) -> None:
            super().__init__()
            self.num = num

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.map = BlockMap(state, glyphs)
        self.zoom = ZOOMS[0]
        self._widened: list[tuple[Row, Row]] = []
        self._top = _BLANK
        self._below: list[Row] = []

    @property
    def detail_height(self) -> int:
        """Rows below the map: about the block under the cursor, or about who holds the most."""
        return FULL_DETAIL if self.full else frame_rows(self.app.size.height) - 1

    @property
    def map_height(self) -> int:
        return max(1, self.body_height - self.detail_height)

    @staticmethod
    def need(room: Room) -> Need:
        return Need(frame_rows(room.height) + 1, room.rest, 3.0 if room.wide else 7.0)

    def fill(self, room: Room, width: int, rows: int) -> int:
        frame, total = frame_rows(room.height), self._total
        rows -= frame
        return frame + (min(rows, fitting(total, width, rows).rows(total, width)) if total else min(rows, 3))

    @property
    def _total(self) -> int:
        return len(self.map.shown)

    # --- what comes in ---

    def update(self, tick: Tick) -> None:
        """Takes over what changed and draws it; the texts around the map only when they are due."""
        self.state, self.now = tick.state, tick.now
        self.map.state = tick.state
        if not (tick.changes or tick.texts or self.map.mode == "recency"):
            return
        before = self.map.first, self.map.total
        self.map.update(tick.changes, tick.now)
        self.map.tick(tick.now)
        if (self.map.first, self.map.total) != before:
            self._fit()
        self._draw_map(tick.texts)

    def select(self, blocks: Sequence[int] | None) -> None:
        """Makes the blocks of a request stand out."""
        if self.map.select(blocks):
            self.draw()

    def go_to(self, block: int) -> bool:
        """Puts the cursor on that block, of whatever tier; False where there is none of that number."""
        for _ in range(max(1, len(self.state.tier_spans()))):
            if block in self.map.shown:
                self.map.set_cursor(block)
                self.draw()
                return True
            self.next_tier()
        return False

    def on_resize(self) -> None:
        self._fit()
        super().on_resize()

    def draw(self) -> None:
        self._draw_map(texts=True)

    def _draw_map(self, texts: bool) -> None:
        if self.size.width and self.size.height and self.display:
            if texts:
                self._write_texts()
            self.show(self.compose_rows())

    def _fit(self) -> None:
        width, height = self.size.width, self.map_height
        total = self._total
        self.zoom = fitting(total, width, height) if total else ZOOMS[0]
        lines = -(-(height + self.zoom.gap_rows) // (1 + self.zoom.gap_rows))
        self.map.layout(total, self.zoom.per_row(width), lines)
        if not total:
            self.map.layout(0, width, height)
        self.map.update(Changes(full=True), self.now)

    # --- looks ---

    def compose_rows(self) -> list[Row]:
        body = self._map_rows()[: self.map_height]
        body += [_BLANK] * (self.map_height - len(body))
        return [self._top, *body, *self._below]

    def _write_texts(self) -> None:
        """Title and the rows below the map; numbers change too often to be read at the map's own rate."""
        width = self.size.width
        state, cursor, height = self.map.state, self.map.cursor, self.detail_height
        tier = self.map.tier_name
        what = "blocks" if tier is None else f"{clean(tier, 16)} blocks"
        left = title_row(f"{what} by {self.map.mode}", width, self.has_focus, self.DIGIT)
        title = left.text.rstrip("─")
        room = width - len(title) - 2
        legend = _BLANK
        if room > 10 and self.map.total:
            legend = self.glyphs.rows([with_rule(legend_rows(self.map, room, self.glyphs)[0])])[0]
        plain = self.glyphs.rows([left])[0]
        kept = width - len(legend.text) - 1
        end = plain.text[-1]
        self._top = (
            Row(plain.text[:kept] + legend.text + end, plain.roles[:kept] + legend.roles + plain.roles[-1:])
            if legend.text
            else plain
        )
        if cursor is not None:
            cell = range(cursor, cursor + 1)
            if self.map.per_cell > 1:
                cell = self.map.blocks_at(*self.map.cell_of(cursor))
            if height > 1:
                self._below = block_detail_rows(state, cursor, width, self.now, self.glyphs, cell=cell)
                if self.full:
                    self._below += holder_rows(state, width, height - len(self._below), self.glyphs)
            else:
                self._below = [block_line_row(state, cursor, width, self.now, self.glyphs, cell=cell)]
        else:
            self._below = holder_rows(state, width, height, self.glyphs)

    def _map_rows(self) -> list[Row]:
        rows = self.map.rows()
        if self.zoom.columns == 1 or not self.map.total:
            return rows
        # A row that is the same object as before was widened already.
        known = self._widened
        same = len(known) == len(rows)
        self._widened = [
            known[y] if same and known[y][0] is row else (row, self.zoom.widen(row)) for y, row in enumerate(rows)
        ]
        spaced: list[Row] = []
        for _, wide in self._widened:
            spaced += [wide, *[_BLANK] * self.zoom.gap_rows]
        return spaced

    def copied(self) -> tuple[str, Sequence[str]]:
        """What is said of the block under the cursor."""
        if self.map.cursor is None or not self._below:
            return super().copied()
        return f"block {self.map.cursor}", [row.text for row in self._below]

    # --- keys and mouse ---

    def on_click(self, event: events.Click) -> None:
        column, line = event.x // self.zoom.columns, (event.y - 1) // (1 + self.zoom.gap_rows)
        block = self.map.block_at(column, line) if 0 < event.y <= self.map_height else None
        if block is not None:
            self.map.set_cursor(block)
            self.draw()

    def action_colour(self) -> None:
        self.map.next_mode()
        self.draw()

    def next_tier(self) -> bool:
        """Shows the next tier; False where there is but one."""
        if self.map.next_tier() is None:
            return False
        self._fit()
        self.draw()
        return True

    def _move(self, columns: int, rows: int) -> None:
        before = self.map.cursor
        self.map.move(columns, rows)
        self._moved(before)

    def _go_to(self, block: int) -> None:
        before = self.map.cursor
        self.map.set_cursor(block)
        self._moved(before)

    def _moved(self, before: int | None) -> None:
        cursor = self.map.cursor
        if cursor == before:
            edge = "the edge" if cursor not in (self.map.first, self.map.first + self.map.total - 1) else "the end"
            self.hint(self._no_blocks() or f"this is {edge} of the map")
        self.draw()

    def _no_blocks(self) -> str | None:
        return None if self.map.total else not_exposed(self.map.state, "blocks")

    def action_left(self) -> None:
        self._move(-1, 0)

    def action_right(self) -> None:
        self._move(1, 0)

    def action_up(self) -> None:
        self._move(0, -1)

    def action_down(self) -> None:
        self._move(0, 1)

    def action_top(self) -> None:
        self._go_to(self.map.first)

    def action_bottom(self) -> None:
        self._go_to(self.map.first + self.map.total - 1)

    def action_open(self) -> None:
        state, cursor = self.map.state, self.map.cursor
        if state.blocks is None or cursor is None or cursor >= len(state.blocks.owner):
            self.hint(
                self._no_blocks() or f"choose a block first: {' '.join(map(self.key, ('left', 'down', 'up', 'right')))}"
            )
            return
        owner = int(state.blocks.owner[cursor])
        if owner < 0:
            names, code = state.state_names(), int(state.blocks.state[cursor])
            what = clean(names[code], 24) if code < len(names) else "of a state unknown here"
            self.hint(f"block {cursor} is {what}: no request owns it")
        elif state.request(owner) is None:
            self.hint(f"the owner of block {cursor}, request #{owner}, is not among those that are shown")
        else:
            self.post_message(self.OwnerChosen(owner))
