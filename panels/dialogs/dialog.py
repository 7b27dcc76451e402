"""What all dialogs have in common: a card in the middle of the screen, its keys, and the question to the engine."""

from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from kvtop.protocol import Command
from kvtop.state import EngineState
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.term.keys import Action, Actions, bindings, key_of
from kvtop.views.answer import Answer, Ask
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role

DIALOG_ACTIONS = (
    Action("close", ("q",), "q", "close the dialog; nothing more is changed"),
    Action("back", ("escape",), "Esc", "go back, or close"),
    Action("next", ("tab", "right", "l"), "Tab → l", "next button"),
    Action("previous", ("shift+tab", "left", "h"), "shift+Tab ← h", "previous button"),
    Action("down", ("j", "down"), "j ↓", "next choice, or further down"),
    Action("up", ("k", "up"), "k ↑", "previous choice, or further up"),
    Action("transition", ("t",), "t", "the other transition, where a policy asks for one"),
)


class Dialog(ModalScreen[None]):
    """A card with a title, a body, a row of buttons and a line about its keys.

    Args:
        ask: Sends a command; the answer comes back to `answered`.
        rows: How high the card is where there is room.
        keys: The actions with the keys that work.
    """

    BINDINGS = bindings(DIALOG_ACTIONS, "dialogs")
    AUTO_FOCUS: ClassVar[str | None] = ""

    DEFAULT_CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog #card { width: 76; max-width: 100%; max-height: 100%; padding: 0 1; background: ansi_default; }
    Dialog #buttons { height: 1; width: 1fr; align-horizontal: right; }
    Dialog.ascii Words, Dialog.ascii Menu { scrollbar-size: 0 0; }
    """

    def __init__(self, ask: Ask, *, rows: int, glyphs: Glyphs = UNICODE, keys: Actions = DIALOG_ACTIONS) -> None:
        super().__init__(classes="ascii" if glyphs.plain else None)
        self._ask, self._rows, self.glyphs, self._keys = ask, rows, glyphs, keys
        self.card = Vertical(id="card")
        self._said = ("", "")

    def compose(self) -> ComposeResult:
        with self.card:
            yield from self.body()
            yield Horizontal(*self.buttons(), id="buttons")

    def on_mount(self) -> None:
        palette = self._front.palette
        edge = palette.style(Role.BORDER).color
        colour = Color.from_rich_color(edge) if edge is not None else Color.parse("ansi_default")
        self.card.styles.height = self._rows
        self.card.styles.border = ("ascii" if self.glyphs.plain else "solid", colour)
        self.draw()

    @property
    def _front(self) -> FrontBufferApp[Any]:
        assert isinstance(self.app, FrontBufferApp)
        return self.app

    # --- what a dialog is made of ---

    def body(self) -> ComposeResult:
        """The widgets above the buttons."""
        raise NotImplementedError

    def buttons(self) -> list[Widget]:
        """From left to right."""
        raise NotImplementedError

    def draw(self) -> None:
        """Shows what the dialog says now."""
        raise NotImplementedError

    def follow(self, state: EngineState) -> None:
        """Takes over what has become of the engine meanwhile."""
        raise NotImplementedError

    def answered(self, command: Any, answer: Answer) -> None:
        """Takes over what the engine says to ``command``."""
        raise NotImplementedError

    # --- what they share ---

    def key(self, *names: str) -> str:
        """How the keys of these actions are spelled."""
        return " ".join(key_of(self._keys, name) for name in names)

    def head(self, title: str, keys: str) -> None:
        """The title above, and below the keys that work."""
        if (title, keys) != self._said:
            self._said = title, keys
            self.card.border_title = self._line(title, Role.TITLE)
            self.card.border_subtitle = self._line(keys, Role.DIM)

    def _line(self, text: str, role: Role) -> Any:
        from textual.content import Content
        from textual.style import Style

        style = Style.from_rich_style(self._front.palette.style(role))
        return Content.styled(self.glyphs.text(text), style)

    def send(self, command: Command | None) -> None:
        if command is not None:
            self._ask(command, partial(self._answer, command))

    def _answer(self, command: Command, answer: Answer) -> None:
        """The answer may come after the dialog was closed; the event log shows it then."""
        self.answered(command, answer)
        if self.is_mounted and self.is_attached:
            self.draw()

    def action_close(self) -> None:
        self.dismiss()

    def action_back(self) -> None:
        self.dismiss()

    def action_next(self) -> None:
        self.focus_next()

    def action_previous(self) -> None:
        self.focus_previous()

    def action_down(self) -> None:
        self._scroll(1)

    def action_up(self) -> None:
        self._scroll(-1)

    def _scroll(self, by: int) -> None:
        from textual.widgets import OptionList

        focused = self.focused
        if isinstance(focused, OptionList):
            focused.action_cursor_down() if by > 0 else focused.action_cursor_up()
            return
        for words in self.query("Words"):
            words.scroll_relative(y=by, animate=False)

    def action_transition(self) -> None:
        """Only policies have one."""
