"""What all panels have in common: what they are told at each frame, their title rule with its focus mark."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from textual.message import Message

from kvtop.state import Changes, EngineState
from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Actions, key_of
from kvtop.views.definition import Section
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import HIGHLIGHT, Role, Row, RowBuilder
from panels.layout import Column, Need, Room, Tile

_GAP = re.compile(r" {4,}")


def title_row(
    title: str, width: int, focused: bool, digit: int | None = None, note: str = "", role: int = Role.DIM
) -> Row:
    """``▸1 requests ──── note``: thin while unfocused; focus shows by mark and reverse, not by colour alone."""
    builder = RowBuilder()
    number = "" if digit is None else f"{digit} "
    if focused:
        builder.add(f"▸{number}{title} ", Role.STRONG | HIGHLIGHT)
    else:
        builder.add("─", Role.BORDER).add(number, Role.KEY).add(f"{title} ", Role.TITLE)
    note = f" {note} " if note else ""
    rule = width - builder.width - len(note) - 1
    if rule < 1:
        note, rule = "", width - builder.width - 1
    return builder.add("─" * max(0, rule), Role.BORDER).add(note, role).add("─", Role.BORDER).row(width)


def with_rule(row: Row) -> Row:
    """``row`` with its long gaps drawn as the rule of a title."""
    builder, last = RowBuilder(), 0
    for gap in _GAP.finditer(row.text):
        start, stop = gap.start() + 1, gap.end() - 1
        builder.add(row.text[last:start]).add("─" * (stop - start))
        last = stop
    text = builder.add(row.text[last:]).row().text
    roles = bytes(Role.BORDER if c == "─" else role for c, role in zip(text, row.roles, strict=True))
    return Row(text, roles)


@dataclass(frozen=True, slots=True)
class Tick:
    """What there is to see at one frame.

    Attributes:
        state: The engine as it is to be shown: live, or held still.
        now: The viewer's monotonic clock, seconds.
        changes: What is new in ``state`` since the panel's last frame.
        texts: Whether numerals and tables are due too, which change too often to be read at the map's own rate.
        arrived: Events that came since the last frame with ``texts``.
        held: Seconds the view stands still; None where it is live.
        warning: The screen is slow, and why; empty where it is not.
    """

    state: EngineState
    now: float
    changes: Changes = field(default_factory=Changes)
    texts: bool = True
    arrived: int = 0
    held: float | None = None
    warning: str = ""


class Hint(Message):
    """Why a key did nothing, in a sentence for the footer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class LeaveFull(Message):
    """Esc had nothing to do in a panel that fills the screen."""


class Panel(CellPanel):
    """A panel of an engine's screen (`panels.registry`).

    Attributes:
        ID: Its id, and its widget's.
        NAME: What the help calls it.
        DIGIT: The key that goes to it; None for a panel that takes no focus.
        GO_TO: What the help says of that key beyond the name.
        ACTIONS: What its keys do while it has the focus; its bindings are made from them.
        COUNTS: Shows how long the view has been held, or the engine gone.
        NUMBERS: What its numbers mean.
        EVERY_FRAME: Drawn at the map's rate, and not only when texts are due.
    """

    ID: ClassVar[str]
    NAME: ClassVar[str] = ""
    DIGIT: ClassVar[int | None] = None
    GO_TO: ClassVar[str] = ""
    ACTIONS: ClassVar[Actions] = ()
    COUNTS: ClassVar[bool] = False
    NUMBERS: ClassVar[Section | None] = None
    EVERY_FRAME: ClassVar[bool] = False

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=self.ID)
        self.state = state
        self.glyphs = glyphs
        self.actions: Actions = self.ACTIONS
        """The same with the keys that a keymap gives them."""
        self.full = False
        """Whether it fills the screen: then it shows more."""
        self._tick: Tick | None = None

    def update(self, tick: Tick) -> None:
        """Takes over what there is to see, and draws it."""
        raise NotImplementedError

    def begin_run(self) -> None:
        """The engine has been restarted: what was chosen by a number of the old run is chosen no more."""

    def key(self, name: str) -> str:
        """How the key of one of its actions is spelled."""
        return key_of(self.actions, name)

    def hint(self, text: str) -> None:
        """Says why the key just pressed does nothing."""
        self.post_message(Hint(text))

    def take(self, tick: Tick) -> None:
        """`update`, and again when its size changes: nothing else may happen for a while."""
        self._tick = tick
        self.update(tick)

    def on_resize(self) -> None:
        if self._tick is not None:
            self.update(replace(self._tick, changes=Changes(), arrived=0))

    def content_rows(self, state: EngineState) -> int:
        """Rows that its whole content takes, where the layout asks for that; 0 where it has none."""
        return 0

    def absence(self, state: EngineState) -> str | None:
        """Why this panel has nothing to show of such an engine, in a sentence; None where it has."""
        return None


class TitledPanel(Panel, can_focus=True):
    """A panel with a title row above ``body_height`` rows. Subclasses say what stands in them."""

    COLUMN: ClassVar[Column] = "left"

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.now = 0.0

    @staticmethod
    def need(room: Room) -> Need | None:
        """The rows it asks of its column; None where it has no place there."""
        raise NotImplementedError

    def fill(self, room: Room, width: int, rows: int) -> int:
        """Of ``rows`` offered at ``width``, how many it can make use of."""
        return rows

    @property
    def tile(self) -> Tile:
        return Tile(self.ID, self.COLUMN, self.need, self.fill)

    def update(self, tick: Tick) -> None:
        self.state, self.now = tick.state, tick.now
        self.draw()

    @property
    def body_height(self) -> int:
        return max(0, self.size.height - 1)

    def framed(self, title: str, body: Sequence[Row], note: str = "", role: int = Role.DIM) -> list[Row]:
        """Title and body, in characters of the glyph set."""
        title_line = title_row(title, self.size.width, self.has_focus, self.DIGIT, note, role)
        return [*self.glyphs.rows([title_line]), *body]

    def copied(self) -> tuple[str, Sequence[str]]:
        """What is copied: its name, and its lines."""
        return f"the {self.NAME} panel", [row.text for row in self.rows]

    def draw(self) -> None:
        """Shows the present state; does nothing while the panel has no place on the screen."""
        if self.size.width and self.size.height and self.display:
            self.show(self.compose_rows())

    def compose_rows(self) -> list[Row]:
        """All rows, the title first."""
        raise NotImplementedError

    def watch_has_focus(self, has_focus: bool) -> None:
        """The mark of the focus follows at once, not at the next tick."""
        super().watch_has_focus(has_focus)
        self.draw()

    def on_resize(self) -> None:
        self.draw()
