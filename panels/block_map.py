"""The map of physical blocks with its cursor, its legend, and below it figures and a line about the block under the cursor."""

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Input

from kvtop.state import Changes, EngineState
from kvtop.term.depth import ColourDepth
from kvtop.term.keys import Action, bindings
from kvtop.views.block_detail import block_detail_rows, block_line_row
from kvtop.views.block_map import BlockMap
from kvtop.views.exposure import not_exposed
from kvtop.views.find_block import found_block
from kvtop.views.format import called, count, serial
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.holders import holder_rows
from kvtop.views.legend import legend_entries, legend_line, legend_rows
from kvtop.views.numbers import MAP
from kvtop.views.rows import Role, Row, clean
from kvtop.views.slack import Slack, slack_of, slack_row
from kvtop.views.tier_strips import TierStrips
from kvtop.views.zoom import Scale, fitting, nearest, scales
from panels.find_input import FIND_TITLE, FindInput
from panels.layout import ROOM_FOR_ALL, Need, Room
from panels.panel import Tick, TitledPanel, title_row, with_rule

_BLANK = Row("", b"")

FULL_DETAIL = 6
"""Rows about a block, and about who holds the most, where the map fills the screen."""

ROOM_FOR_FIGURES = 28
"""Rows of a terminal from which on there are figures below the map, and two rows about a block."""

SMALL_POOL = 16_384
"""Blocks up to which all are looked at for the figures whenever texts are due."""

FIGURES_S = 1.0
"""Seconds between two such looks at a larger pool, at least."""

BLOCKS_A_SECOND = 250_000
"""So many are looked at for them in a second, on average."""


def frame_rows(height: int) -> int:
    """Rows of the panel that are not map, on a terminal of ``height``: its title, and one or two about a block."""
    return 2 if height < ROOM_FOR_FIGURES else 3


def _laid_over(row: Row, legend: Row, start: int) -> Row:
    """A title with a legend in its rule, from the column ``start`` on."""
    stop = start + len(legend.text) + 2
    text = f"{row.text[:start]} {legend.text} {row.text[stop:]}"
    paper = bytes((Role.TEXT,))
    return Row(text, row.roles[:start] + paper + legend.roles + paper + row.roles[stop:])


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
        Action("page_down", ("pagedown", "ctrl+f"), "PgDn ctrl+f", "as many rows down as are in sight"),
        Action("page_up", ("pageup", "ctrl+b"), "PgUp ctrl+b", "as many rows up"),
        Action("top", ("g", "home"), "g Home", "first block"),
        Action("bottom", ("G", "end"), "G End", "last block"),
        Action("open", ("enter",), "Enter", "select the request that owns the block", "owner"),
        Action("zoom_in", ("plus",), "+", "go in: fewer blocks a cell, then one, then larger cells", "in"),
        Action("zoom_out", ("minus",), "-", "go out, up to the whole pool", "out"),
        Action("whole", ("z",), "z", "the whole pool again"),
        Action("find", ("number_sign",), "#", "find a block by its number", "find"),
        Action(
            "follow", ("F",), "F", "follow the request that owns the block, or the selected one; again: stop", "follow"
        ),
        Action("flash", ("b",), "b", "let cells flash when they change, or not"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    class OwnerChosen(Message):
        """The user wants to see the request that owns the block under the cursor."""

        def __init__(self, num: int) -> None:
            super().__init__()
            self.num = num

    class FollowWanted(Message):
        """The user wants the blocks of that request marked, and kept in sight."""

        def __init__(self, num: int) -> None:
            super().__init__()
            self.num = num

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.map = BlockMap(state, glyphs)
        self.find = FindInput()
        self.following = False
        self._lower = TierStrips(state, glyphs)
        self._chosen: Scale | None = None
        """How near the user went; None: the whole pool."""
        self._flash: bool | None = None
        """Whether the user wants cells to flash; None: where there are colours."""
        self._marked = ""
        """Of the request whose blocks are marked."""
        self._top = _BLANK
        self._legend: list[Row] = []
        self._legend_for: tuple[object, ...] = ()
        self._legend_height = 0
        self._slack: Slack | None = None
        self._slack_at = float("-inf")
        self._figures: list[Row] = []
        self._below: list[Row] = []

    def compose(self) -> ComposeResult:
        yield self.find

    # --- how much room there is ---

    @property
    def detail_height(self) -> int:
        """Rows below the map: about the block under the cursor, or about who holds the most."""
        return FULL_DETAIL if self.full else frame_rows(self.app.size.height) - 1

    @property
    def map_height(self) -> int:
        frame = self.detail_height + self._legend_height + self._figure_rows(self.app.size.height)
        return max(1, self.body_height - frame)

    def _figure_rows(self, height: int) -> int:
        """Rows of figures and of strips of lower tiers, on a terminal of so many."""
        if self.state.blocks is None or not (self.full or height >= ROOM_FOR_FIGURES):
            return 0
        return 1 + (TierStrips.height(self.state) if self.full or height >= ROOM_FOR_ALL else 0)

    @staticmethod
    def need(room: Room) -> Need:
        return Need(frame_rows(room.height) + 1, room.rest, 3.0 if room.wide else 7.0)

    def fill(self, room: Room, width: int, rows: int) -> int:
        frame = frame_rows(room.height) + self._legend_height + self._figure_rows(room.height)
        total, rows = self._total, max(1, rows - frame)
        return frame + (min(rows, fitting(total, width, rows).rows(total, width)) if total else min(rows, 3))

    def content_rows(self, state: EngineState) -> int:
        """Of what stands around the map: where that changes, all are placed anew."""
        return self._legend_height + (TierStrips.height(state) << 8)

    @property
    def _total(self) -> int:
        return len(self.map.shown)

    # --- what comes in ---

    def update(self, tick: Tick) -> None:
        """Takes over what changed and draws it; the texts around the map only when they are due."""
        self.state, self.now = tick.state, tick.now
        self.map.state = tick.state
        if tick.held is not None or tick.changes.full:
            self._slack_at = float("-inf")  # another moment, however near
        flash = self.map.flash
        # What is slow already is not given more to do.
        flash.on = self._flashes and not tick.warning
        if not (tick.changes or tick.texts or flash.going or self.map.mode in ("recency", "prefix")):
            return
        before = self.map.first, self.map.total
        self.map.update(tick.changes, tick.now)
        self.map.tick(tick.now)
        if (self.map.first, self.map.total) != before:
            self._fit()
        if self._figure_rows(self.app.size.height) > 1:
            self._lower.update(tick.state, tick.changes, self.size.width, tick.now)
        self._draw_map(tick.texts)

    @property
    def _flashes(self) -> bool:
        return self.palette.depth is not ColourDepth.NONE if self._flash is None else self._flash

    def begin_run(self) -> None:
        self.following = False

    def select(self, blocks: Sequence[int] | None, name: str = "") -> None:
        """Makes the blocks of a request stand out; where it is followed, its newest one stays in sight."""
        changed = bool(self.map.select(blocks)) or name != self._marked
        self._marked = name
        if self.following and blocks is None:
            self.following = False
            self.hint("nothing is followed any more: the request is gone, or is not selected")
            changed = True
        if self.following:
            changed = bool(self._keep_in_sight()) or changed
        if changed:
            self.draw()

    def go_to(self, block: int) -> bool:
        """Puts the cursor on that block, of whatever tier; False where there is none of that number."""
        blocks = self.state.blocks
        if blocks is None or not 0 <= block < blocks.total:
            return False
        if self.map.show_tier_of(block):
            self._fit()
        self.map.set_cursor(block)
        self.draw()
        return True

    def _keep_in_sight(self) -> set[int]:
        """Scrolls to the newest block of what is followed, if it is out of sight."""
        newest = next((block for block in reversed(self.map.picked.tolist()) if block in self.map.shown), None)
        return set() if newest is None else self.map.bring(newest)

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

    @property
    def scales(self) -> list[Scale]:
        """How near one can go, the whole pool first."""
        return scales(self._total, self.size.width, self.map_height)

    def _fit(self) -> None:
        """Lays the map out for the room there is, as near as the user went."""
        width, height, total = self.size.width, self.map_height, self._total
        if not total:
            self.map.layout(0, width, height)
        elif width:
            found = self.scales
            scale = found[nearest(found, self._chosen)]
            at = self.map.in_sight.start
            self.map.layout(total, scale.zoom.per_row(width), height, scale.per_cell, scale.zoom)
            self.map.bring(at if self.map.cursor is None else self.map.cursor)
        self.map.update(Changes(full=True), self.now)

    # --- looks ---

    def compose_rows(self) -> list[Row]:
        body = self.map.rows()[: self.map_height]
        body += [_BLANK] * (self.map_height - len(body))
        return [self._top, *self._legend, *body, *self._figures, *self._below]

    def _write_texts(self) -> None:
        """Title, legend and the rows below the map; numbers change too often to be read at the map's own rate."""
        width = self.size.width
        self._write_head(width)
        height = self._figure_rows(self.app.size.height)
        self._figures = []
        if height:
            pool = 0 if self.state.blocks is None else self.state.blocks.total
            period = 0.0 if pool <= SMALL_POOL else max(FIGURES_S, pool / BLOCKS_A_SECOND)
            if not 0 <= self.now - self._slack_at < period:
                self._slack, self._slack_at = slack_of(self.state), self.now
            self._figures = [slack_row(self.state, self._slack, width, self.glyphs)]
        if height > 1:
            self._lower.update(self.state, Changes(), width, self.now)
            self._figures += self._lower.rows(width)
        self._figures = (self._figures + [_BLANK] * height)[:height]
        self._below = self._detail(width, self.detail_height)

    def _write_head(self, width: int) -> None:
        """The title with the legend in it, or with rows of its own below, as many as this mode has needed so far.

        Which of the two does not depend on where one is, so that the map keeps its place while one moves over it.
        """
        title, places = self._title()
        entries = legend_entries(self.map, self.glyphs)
        start = len(title_row(title, width, self.has_focus, self.DIGIT).text.rstrip("─"))
        key = (self.map.mode, self.map.first, width, self.following)
        kept = self._legend_height if key == self._legend_for else 0
        inside = None
        if not kept and not self.following:
            inside = legend_line(entries, width - start - self._longest_place - 5, self.glyphs)
        room = width - start - 3 - (0 if inside is None else len(inside.text) + 2)
        note = next((place for place in places if len(place) <= room), places[-1])
        self._top = self.glyphs.rows([title_row(title, width, self.has_focus, self.DIGIT, note)])[0]
        if inside is not None and inside.text:
            self._top = _laid_over(self._top, with_rule(inside), start)
        rows = [] if inside is not None else legend_rows(entries, width, self.glyphs)
        height = max(kept, len(rows))
        self._legend = rows + [_BLANK] * (height - len(rows))
        self._legend_for = key
        if height != self._legend_height:
            self._legend_height = height
            self._fit()

    @property
    def _longest_place(self) -> int:
        """Cells that the shortest form of where one is may take."""
        last = serial(self.map.first + self.map.total)
        return len(f"{last}–{last}")

    def _title(self) -> tuple[str, list[str]]:
        """What is shown, and where one is in it, from long to short."""
        if self.find.display:
            return FIND_TITLE, [""]
        shown = self.map
        tier = shown.tier_name
        what = "blocks" if tier is None else f"{clean(tier, 16)} blocks"
        title = f"{what} by {shown.mode}"
        if not shown.total:
            return title, [""]
        seen = shown.in_sight
        places = [shown.scale, f"{count(shown.per_cell)}/cell"]
        if len(seen) < shown.total:
            first, last = serial(seen.start), serial(max(seen.start, seen.stop - 1))
            place = f"{first}–{last} of {count(shown.total)}"
            places = [f"blocks {place} · {places[0]}", f"{place} · {places[1]}", place, f"{first}–{last}"]
        if self.following:
            picked = [block for block in shown.picked.tolist() if block >= 0]
            near, of = count(sum(block in seen for block in picked)), count(len(picked))
            long = f"follows {called(self._marked, 20)}, {near} of its {of} blocks in sight"
            short = f"follows {called(self._marked, 12)} {near}/{of}"
            places = [f"{long} · {places[0]}", f"{short} · {places[-2]}", f"{short} · {places[-1]}", short]
        return title, places

    def _detail(self, width: int, height: int) -> list[Row]:
        """About the block under the cursor, else about who holds the most."""
        state, cursor = self.map.state, self.map.cursor
        if cursor is None:
            return holder_rows(state, width, height, self.glyphs)
        cell = range(cursor, cursor + 1)
        if self.map.per_cell > 1:
            cell = self.map.cell_blocks(cursor)
        if height == 1:
            return [block_line_row(state, cursor, width, self.now, self.glyphs, cell=cell)]
        rows = block_detail_rows(state, cursor, width, self.now, self.glyphs, cell=cell)
        return rows + (holder_rows(state, width, height - len(rows), self.glyphs) if self.full else [])

    def copied(self) -> tuple[str, Sequence[str]]:
        """What is said of the block under the cursor."""
        if self.map.cursor is None or not self._below:
            return super().copied()
        return f"block {self.map.cursor}", [row.text for row in self._below]

    # --- keys and mouse ---

    def on_click(self, event: events.Click) -> None:
        line = event.y - 1 - self._legend_height
        block = self.map.block_at(event.x // self.map.zoom.columns, line) if 0 <= line < self.map_height else None
        if block is not None:
            self.map.set_cursor(block)
            self.draw()

    def action_colour(self) -> None:
        self.map.next_mode()
        self._recoloured()

    def colour_by(self, mode: str) -> None:
        """Colours the map by that mode."""
        self.map.mode = mode
        self._recoloured()

    def _recoloured(self) -> None:
        self._fit()
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

    # --- how near, and where ---

    def _go(self, by: int) -> None:
        found = self.scales
        at = nearest(found, self._chosen)
        to = max(0, min(at + by, len(found) - 1))
        self._chosen = found[to] if to else None
        if not self.map.total or to == at:
            self.hint(self._no_blocks() or ("blocks are drawn no larger" if by > 0 else "this is the whole pool"))
            return
        self._fit()
        self.draw()

    def action_zoom_in(self) -> None:
        self._go(1)

    def action_zoom_out(self) -> None:
        self._go(-1)

    def action_whole(self) -> None:
        self._go(-len(self.scales))

    def action_page_down(self) -> None:
        self._begin()
        self._move(0, max(1, min(self.map.height, self.map.last_line - self.map.cursor_line)))

    def action_page_up(self) -> None:
        self._begin()
        self._move(0, -max(1, min(self.map.height, self.map.cursor_line)))

    def _begin(self) -> None:
        """A page is turned from the first block in sight, where no block is chosen."""
        if self.map.cursor is None and self.map.total:
            self.map.set_cursor(self.map.in_sight.start)

    def action_follow(self) -> None:
        if self.following:
            self.following = False
            self.hint("nothing is followed any more")
            self.draw()
            return
        cursor, blocks = self.map.cursor, self.map.state.blocks
        owner = -1 if cursor is None or blocks is None or cursor >= blocks.total else int(blocks.owner[cursor])
        if self.map.state.request(owner) is not None:
            self.following = True
            self.post_message(self.FollowWanted(owner))
        elif len(self.map.picked):
            self.following = True
            self._keep_in_sight()
        else:
            self.hint(self._no_blocks() or "choose a block that a request owns, or select a request, to follow it")
        self.draw()

    def action_flash(self) -> None:
        self._flash = not self._flashes
        self.map.flash.on = self._flash
        self.hint("cells flash when they change" if self._flash else "cells do not flash")

    # --- finding a block ---

    def action_find(self) -> None:
        if reason := self._no_blocks():
            self.hint(reason)
            return
        self.find.value = ""
        self.find.display = True
        self.screen.set_focus(self.find)
        self.hint("a block's number · Enter goes there · Esc leaves it")
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """What is no block stays in the field, until it is put right or left."""
        event.stop()
        if not event.value.strip():
            self.screen.set_focus(self)
            return
        found = found_block(event.value, self.map.state)
        if isinstance(found, str):
            self.hint(found)
            return
        self.screen.set_focus(self)
        self.go_to(found)

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        self.find.display = False
        self.draw()

    # --- the cursor ---

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
