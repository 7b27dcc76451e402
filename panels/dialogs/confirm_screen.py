"""The screen around a question: what will happen, Cancel and the verb; then what did, and Close."""

from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget

from kvtop.state import EngineState
from kvtop.term.keys import Actions
from kvtop.views.answer import Answer, Ask
from kvtop.views.glyphs import UNICODE, Glyphs
from panels.dialogs.confirm_form import ConfirmForm
from panels.dialogs.dialog import DIALOG_ACTIONS, Dialog
from panels.dialogs.widgets import Choice, Words


class ConfirmScreen(Dialog):
    """Asks ``form``'s question. Enter is Cancel until one goes to the other button."""

    def __init__(
        self, form: ConfirmForm, ask: Ask, *, glyphs: Glyphs = UNICODE, keys: Actions = DIALOG_ACTIONS
    ) -> None:
        super().__init__(ask, rows=14, glyphs=glyphs, keys=keys)
        self.form = form
        self._words = Words(glyphs)
        self._cancel, self._verb = Choice("Cancel", self.action_close), Choice(form.verb, self._confirm)

    def body(self) -> ComposeResult:
        yield self._words

    def buttons(self) -> list[Widget]:
        return [self._cancel, self._verb]

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self._cancel)

    def follow(self, state: EngineState) -> None:
        self.form.follow(state)
        self.draw()

    def answered(self, command: Any, answer: Answer) -> None:
        self.form.answered(command, answer)

    def _confirm(self) -> None:
        self.send(self.form.confirm())
        self.draw()

    def draw(self) -> None:
        form = self.form
        over = form.asked or bool(form.void)
        self._words.say(form.paragraphs())
        if over:
            # Nothing is left to be done here but to close it.
            self.set_focus(self._cancel)
        self._verb.display = not over
        self._cancel.word = "Close" if over else "Cancel"
        self.head(
            form.title, "Enter close" if over else f"{self.key('next')} button · Enter · {self.key('back')} cancel"
        )
