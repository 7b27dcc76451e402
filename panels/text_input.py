"""A field of one line to type and paste into."""

from textual import events
from textual.widgets import Input


class TextInput(Input, inherit_css=False):
    """Textual's field without a frame, and with a cursor that keeps still: a screen at rest sends nothing.

    Of what is pasted, the printable characters are inserted; line ends and tabs become spaces.
    """

    DEFAULT_CSS = """
    TextInput { height: 1; width: 1fr; padding: 0; background: ansi_default; color: ansi_default; text-style: bold; }
    TextInput > .input--cursor { text-style: reverse; }
    TextInput > .input--selection { text-style: reverse; }
    """
    COMPONENT_CLASSES = Input.COMPONENT_CLASSES

    def __init__(self, *, id: str, longest: int) -> None:
        super().__init__(id=id, max_length=longest, select_on_focus=False)
        self.cursor_blink = False

    def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text, left_out = printable(event.text)
        room = (self.max_length or 0) - len(self.value) + abs(self.selection[1] - self.selection[0])
        self.replace(text[: max(0, room)], *self.selection)
        if left_out or len(text) > room:
            what = "what cannot be printed" if left_out else f"what was beyond {self.max_length} characters"
            self.notify(f"pasted without {what}", severity="warning", markup=False)


def printable(text: str) -> tuple[str, int]:
    """``text`` as one line of what can be shown, and how many characters were left out of it."""
    line = " ".join(text.split())
    kept = "".join(character for character in line if character.isprintable())
    return kept, len(line) - len(kept)
