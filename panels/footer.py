"""One line of keys, those of the focused panel among them; and for some seconds, in their place, what there is to say.

Notes stand here and not in a box over the panels: at 24 rows a box hides what one looks at, a line of keys can be missed.
"""

from typing import NamedTuple

from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Actions, footer_actions
from kvtop.views.format import short
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder

_NOTE_ROLES = {"information": Role.STRONG, "warning": Role.WARN, "error": Role.BAD}


def footer_row(everywhere: Actions, local: Actions, width: int) -> Row:
    """As many keys as fit, the most useful first, so that help and quit stay on the narrowest line."""
    builder = RowBuilder()
    for action in footer_actions(everywhere, local):
        text = f"{action.footer_key} {action.footer}"
        if builder.width + len(text) + 2 > width:
            break
        builder.add(" ").add(action.footer_key, Role.KEY).add(f" {action.footer} ", Role.DIM)
    return builder.row(width)


class Note(NamedTuple):
    """What the footer says for some seconds. ``times``: how often it was said in a row."""

    text: str
    severity: str
    times: int = 1


def note_row(note: Note, width: int) -> Row:
    """The note in one line, and behind it how often it was said."""
    times = f" ×{note.times}" if note.times > 1 else ""
    role = _NOTE_ROLES.get(note.severity, Role.WARN)
    return RowBuilder().add(f" {short(note.text, width - 2 - len(times))}{times}", role).row(width)


class FooterPanel(CellPanel):
    """``everywhere``: the actions that work whatever has the focus."""

    def __init__(self, everywhere: Actions, *, id: str = "footer", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self._everywhere, self._local = everywhere, everywhere[:0]
        self.note: Note | None = None
        self._hidden: Note | None = None
        """What the last key took away: said again by what that key does, it is counted on."""

    def update(self, local: Actions) -> None:
        """``local``: the actions of what has the focus now."""
        self._local = local
        self._draw()

    def say(self, text: str, severity: str = "warning") -> None:
        """Shows ``text`` in place of the keys, and how often it was said; the keys again when it is empty."""
        before, self._hidden = self.note or self._hidden, None
        again = before is not None and (before.text, before.severity) == (text, severity)
        self.note = Note(text, severity, before.times + 1 if before is not None and again else 1) if text else None
        self._draw()

    def hide(self) -> None:
        """The keys again."""
        self._hidden, self.note = self.note, None
        if self._hidden is not None:
            self._draw()

    def _draw(self) -> None:
        if self.size.width:
            width = self.size.width
            row = note_row(self.note, width) if self.note else footer_row(self._everywhere, self._local, width)
            self.show(self.glyphs.rows([row]))

    def on_resize(self) -> None:
        self._draw()
