"""A modal screen around a form: the card, the keys, and the question to the engine."""

from functools import partial
from typing import Any, Protocol

from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from kvtop.term.panel import CellPanel
from kvtop.views.answer import Answer, Ask
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from panels.dialogs.card import card


class Form(Protocol):
    """A dialog without its terminal."""

    closed: bool

    @property
    def title(self) -> str: ...

    @property
    def keys(self) -> str: ...

    def key(self, key: str, character: str | None) -> Any: ...

    def answered(self, command: Any, answer: Answer) -> None: ...

    def rows(self, width: int, height: int) -> list[Row]: ...


class FormScreen(ModalScreen[None]):
    """Shows ``form`` in the middle of the screen until it is closed. Every key goes to the form and nowhere else."""

    def __init__(self, form: Form, ask: Ask, *, width: int = 76, height: int = 18, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(classes="dialog")
        self.form, self._ask, self._wanted, self._glyphs = form, ask, (width, height), glyphs

    def compose(self) -> ComposeResult:
        yield CellPanel(id="card")

    def on_mount(self) -> None:
        self._place()

    def on_resize(self, _event: events.Resize) -> None:
        self._place()

    def on_key(self, event: events.Key) -> None:
        event.stop()
        command = self.form.key(event.key, event.character)
        if command is not None:
            self._ask(command, partial(self._answered, command))
        if self.form.closed:
            self.dismiss()
        else:
            self._draw()

    def _answered(self, command: Any, answer: Answer) -> None:
        """The answer may come after the dialog was closed; the event log shows it then."""
        self.form.answered(command, answer)
        if self.is_mounted and not self.form.closed:
            self._draw()

    def _place(self) -> None:
        width, height = self._card_size()
        panel = self.query_one("#card", CellPanel)
        panel.styles.width, panel.styles.height = width, height
        self._draw()

    def _card_size(self) -> tuple[int, int]:
        return min(self._wanted[0], self.app.size.width - 2), min(self._wanted[1], self.app.size.height)

    def _draw(self) -> None:
        width, height = self._card_size()
        if width < 20 or height < 5:
            return
        rows = card(self.form.title, self.form.rows(width - 4, height - 2), width, height, self.form.keys)
        self.query_one("#card", CellPanel).show(self._glyphs.rows(rows))
