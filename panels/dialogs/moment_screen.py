"""Asks for a moment in words."""

from collections.abc import Callable
from typing import Any

from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Input

from kvtop.state import EngineState
from kvtop.term.keys import Actions
from kvtop.views.answer import Answer
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role
from panels.dialogs.dialog import DIALOG_ACTIONS, Dialog
from panels.dialogs.widgets import Words
from panels.text_input import TextInput

LONGEST = 64


class MomentScreen(Dialog):
    """A field for a moment. ``go`` goes there, or says in a sentence why not, which leaves the field open; ``forms``: what
    can be typed."""

    def __init__(
        self, go: Callable[[str], str | None], forms: str, *, glyphs: Glyphs = UNICODE, keys: Actions = DIALOG_ACTIONS
    ) -> None:
        super().__init__(lambda command, done: None, rows=8, glyphs=glyphs, keys=keys)
        self._go, self._forms = go, forms
        self._field = TextInput(id="moment", longest=LONGEST)
        self._words = Words(glyphs)
        self._trouble = ""

    def body(self) -> ComposeResult:
        yield self._field
        yield self._words

    def buttons(self) -> list[Widget]:
        return []

    def on_mount(self) -> None:
        super().on_mount()
        self.set_focus(self._field)

    def draw(self) -> None:
        forms = (f"as in {self._forms}", Role.DIM)
        self._words.say([(self._trouble, Role.WARN), forms] if self._trouble else [forms])
        self.head("go to a moment", f"Enter go · {self.key('back')} cancel")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        trouble = self._go(event.value)
        if trouble is None:
            self.dismiss()
        else:
            self._trouble = trouble
            self.draw()

    def follow(self, state: EngineState) -> None:
        """Of the engine nothing is shown."""

    def answered(self, command: Any, answer: Answer) -> None:
        """Nothing is asked of the engine."""
