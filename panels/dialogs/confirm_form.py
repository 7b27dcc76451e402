"""A question before a command, without its terminal: what will happen, Cancel first, then what did."""

from collections.abc import Sequence
from dataclasses import dataclass

from kvtop.protocol import Command
from kvtop.views.answer import Answer, outcome
from kvtop.views.rows import Role, Row
from panels.dialogs.card import buttons, filled, wrapped


@dataclass
class ConfirmForm:
    """State of the dialog. ``verb`` labels the button that does it."""

    title: str
    sentences: Sequence[str]
    verb: str
    command: Command
    button: int = 0
    asked: bool = False
    result: Answer | None = None
    closed: bool = False

    @property
    def keys(self) -> str:
        return "Enter close" if self.result else "Tab button · Enter · Esc cancel"

    def key(self, key: str, _character: str | None) -> Command | None:
        """Handles one key; a returned command is to be sent."""
        if key in ("q", "escape"):
            self.closed = True
        elif self.result is not None:
            self.closed = key in ("enter", "space")
        elif self.asked:
            return None
        elif key in ("left", "right", "tab", "shift+tab", "h", "l"):
            self.button = 1 - self.button
        elif key == "enter":
            if self.button == 0:
                self.closed = True
            else:
                self.asked = True
                return self.command
        return None

    def answered(self, _command: Command, answer: Answer) -> None:
        self.result = answer

    def rows(self, width: int, height: int) -> list[Row]:
        """The inside of the card: ``height`` rows, the buttons last."""
        body: list[Row] = []
        for sentence in self.sentences:
            body += wrapped(sentence, width)
        body.append(Row("", b""))
        last = buttons(("Cancel", self.verb), self.button, width)
        if self.result is not None:
            role = Role.GOOD if self.result.ok else Role.BAD
            body = [
                row
                for i, text in enumerate(outcome(self.result))
                for row in wrapped(text, width, Role.TEXT if i else role)
            ]
            last = buttons(("Close",), 0, width)
        elif self.asked:
            body += wrapped("asked the engine; waiting for its answer…", width, Role.WARN)
            last = Row("", b"")
        return filled(body, last, width, height)
