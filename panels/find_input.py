"""The field for the number of a block, over the map's title."""

from typing import ClassVar

from textual.binding import Binding, BindingType

from panels.text_input import TextInput

FIND_TITLE = "find block"
_AT = len(FIND_TITLE) + 4
"""The column in which the field begins."""


class FindInput(TextInput):
    """There while a number is typed. Enter goes to the block, Esc leaves the field."""

    DEFAULT_CSS = f"""
    FindInput {{ position: absolute; display: none; offset: {_AT} 0; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "drop", show=False)]

    def __init__(self) -> None:
        super().__init__(id="find", longest=24)

    def action_drop(self) -> None:
        self.value = ""
        self.post_message(self.Submitted(self, ""))
