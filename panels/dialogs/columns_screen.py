"""The screen around the choice of columns: a list of all, ticked and moved by keys. The table follows at once."""

from collections.abc import Callable
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from kvtop.state import EngineState
from kvtop.term.keys import Actions
from kvtop.views.answer import Answer
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role
from panels.dialogs.columns_form import TITLES, ColumnsForm, meaning
from panels.dialogs.dialog import DIALOG_ACTIONS, Dialog
from panels.dialogs.widgets import Choice, Entry, Line, Menu, Words

_RESET = ""
"""Key of the entry below the columns."""

Change = Callable[[tuple[str, ...]], set[str]]
"""Takes over the columns that are shown now; returns which of them there is room for."""


class ColumnsScreen(Dialog):
    """Enter shows a column or leaves it out; the keys of the buttons move it. ``on_change`` is told of each choice."""

    DEFAULT_CSS = """
    ColumnsScreen #help { height: 3; }
    """

    def __init__(
        self, form: ColumnsForm, on_change: Change, *, glyphs: Glyphs = UNICODE, keys: Actions = DIALOG_ACTIONS
    ) -> None:
        super().__init__(lambda _command, _done: None, rows=22, glyphs=glyphs, keys=keys)
        self.form, self._on_change = form, on_change
        self._fitting: set[str] = set()
        self._list = Menu(glyphs, self._choose, id="columns")
        self._list.on_move = self._tell
        self._help, self._note = Words(glyphs, id="help"), Line(glyphs, id="note")

    def body(self) -> ComposeResult:
        yield from (self._list, self._help, self._note)

    def buttons(self) -> list[Widget]:
        return [Choice("Close", self.action_close)]

    def on_mount(self) -> None:
        self._fitting = self._on_change(self.form.chosen)
        super().on_mount()
        self.set_focus(self._list)

    def follow(self, state: EngineState) -> None:
        """Columns do not depend on the engine."""

    def answered(self, command: Any, answer: Answer) -> None:
        """Nothing is asked of it."""

    def _choose(self, name: str) -> None:
        if name == _RESET:
            self.form.reset()
        else:
            self.form.toggle(name)
        self._changed()

    def _move(self, by: int) -> None:
        if self._list.key:
            self.form.move(self._list.key, by)
            self._changed()

    def action_next(self) -> None:
        self._move(1)

    def action_previous(self) -> None:
        self._move(-1)

    def _changed(self) -> None:
        self._fitting = self._on_change(self.form.chosen)
        self.draw()

    def draw(self) -> None:
        self._list.offer(
            [*map(self._entry, self.form.names), Entry(_RESET, (("all of them, as at first", Role.TEXT),))]
        )
        self._tell()
        keys = f"{self.key('down', 'up')} choose · Enter show or not · {self.key('previous', 'next')} move"
        self.head("columns of the requests table", f"{keys} · {self.key('back')} close")

    def _entry(self, name: str) -> Entry:
        shown = name in self.form.shown
        title = TITLES[name]
        return Entry(
            name,
            (
                ("[x] " if shown else "[ ] ", Role.GOOD),
                (name.ljust(14), Role.STRONG if shown else Role.DIM),
                ("" if title == name else f"shown as {title}", Role.DIM),
                ("  no room for it" if shown and name not in self._fitting else "", Role.WARN),
            ),
        )

    def _tell(self) -> None:
        """What the column under the bar shows."""
        name = self._list.key
        self._help.say([(meaning(name), Role.DIM)] if name else [])
        self._note.say(self.form.note, Role.WARN)
