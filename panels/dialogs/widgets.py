"""What dialogs are made of: Textual's widgets, with the looks of the panels and without its detours.

A press or a choice calls back at once, in the key's or the click's own handler: the next key, typed ahead, already finds
what the first one opened. What is chosen shows by a mark or brackets too, so without colour as well.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, cast

from rich.text import Text
from textual import events
from textual.containers import VerticalScroll
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from kvtop.term.cell_panel import CellPanel
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import HIGHLIGHT, Role, Row, clean
from panels.dialogs.confirm_form import Paragraph
from panels.dialogs.wrapping import wrapped


class Words(VerticalScroll, can_focus=False):
    """Paragraphs, wrapped to the width there is; scrolled where they are longer than the room."""

    DEFAULT_CSS = """
    Words { height: 1fr; width: 1fr; }
    Words > CellPanel { width: 1fr; height: auto; }
    """

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        self._cells = CellPanel()
        super().__init__(self._cells, id=id)
        self._glyphs = glyphs
        self._said: Sequence[Paragraph] = ()

    def say(self, paragraphs: Sequence[Paragraph]) -> None:
        if paragraphs != self._said:
            self._said = list(paragraphs)
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        if width < 8:
            return
        rows: list[Row] = []
        for text, role in self._said:
            mark = "· " if text.startswith("· ") else ""
            rows += wrapped(text.removeprefix(mark), width, role, mark) if text else [Row("", b"")]
        self._cells.styles.height = len(rows)
        self._cells.show(self._glyphs.rows(rows))


class Line(Static):
    """One line in a role's colours. Saying the same again costs nothing: Textual would lay out the screen anew."""

    DEFAULT_CSS = """
    Line { height: 1; width: 1fr; }
    """

    def __init__(self, glyphs: Glyphs, *, id: str) -> None:
        super().__init__(id=id, markup=False)
        self._glyphs = glyphs
        self._said: tuple[str, int] | None = None

    def say(self, text: str, role: int) -> None:
        if (text, role) != self._said:
            self._said = text, role
            palette = cast("FrontBufferApp[object]", self.app).palette
            line = Text(self._glyphs.text(clean(text)), palette.style(role), no_wrap=True, overflow="ellipsis", end="")
            self.update(line)


class Choice(Button, inherit_css=False):
    """A button of one line: ``[ Cancel ]``, and ``> Cancel <`` where Enter would press it."""

    DEFAULT_CSS = """
    Choice { width: auto; height: 1; margin-left: 2; background: ansi_default; color: ansi_default; }
    Choice:focus { text-style: bold reverse; }
    Choice:disabled { text-style: dim; }
    """

    def __init__(self, name: str, on_press: Callable[[], None], *, id: str | None = None) -> None:
        super().__init__(Text(f"[ {name} ]"), id=id)
        self._word, self._on_press = name, on_press
        self.active_effect_duration = 0

    @property
    def word(self) -> str:
        return self._word

    @word.setter
    def word(self, name: str) -> None:
        if name != self._word:
            self._word = name
            self._relabel()

    def get_content_width(self, *_: object) -> int:
        return len(self._word) + 4

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self._relabel()

    def _relabel(self) -> None:
        self.label = Text(f"> {self._word} <" if self.has_focus else f"[ {self._word} ]")

    def press(self) -> "Choice":
        if not self.disabled and self.display:
            self._on_press()
        return self


class Entry(NamedTuple):
    """One thing to choose: its line in parts, and what it means, in smaller print below."""

    key: str
    line: tuple[tuple[str, int], ...]
    meaning: str = ""


class Menu(OptionList, inherit_css=False):
    """A list to choose from, by keys or by the mouse; the chosen line has a mark and a bar."""

    DEFAULT_CSS = """
    Menu { height: 1fr; width: 1fr; background: ansi_default; color: ansi_default; overflow-x: hidden; }
    """
    COMPONENT_CLASSES = OptionList.COMPONENT_CLASSES

    def __init__(self, glyphs: Glyphs, on_choose: Callable[[str], None], *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._glyphs, self._on_choose = glyphs, on_choose
        self._entries: list[Entry] = []
        self.on_move: Callable[[], None] = lambda: None

    @property
    def key(self) -> str | None:
        """Of the entry under the bar."""
        place = self.highlighted
        return self._entries[place].key if place is not None and place < len(self._entries) else None

    def offer(self, entries: Iterable[Entry], at: str | None = None) -> None:
        """Shows ``entries``; the bar goes to the one with the key ``at``, else stays on the one it was on."""
        entries = list(entries)
        wanted = self.key if at is None else at
        if entries == self._entries and wanted == self.key:
            return
        place = next((place for place, entry in enumerate(entries) if entry.key == wanted), 0)
        if [entry.key for entry in entries] == [entry.key for entry in self._entries]:
            self._entries = entries
        else:
            self._entries = entries
            self.set_options([Option("") for _ in entries])
        self.highlighted = place if entries else None
        self._write()

    def action_select(self) -> None:
        if (key := self.key) is not None:
            self._on_choose(key)

    def watch_highlighted(self, highlighted: int | None) -> None:
        self._write()
        super().watch_highlighted(highlighted)
        self.on_move()

    def on_resize(self, _event: events.Resize) -> None:
        self._write()
        self.call_after_refresh(self.scroll_to_highlight)

    def _write(self) -> None:
        """All lines anew, cut and wrapped to the width; there are a few dozen at most."""
        width = self.scrollable_content_region.width or 72
        for place, entry in enumerate(self._entries[: self.option_count]):
            self.replace_option_prompt_at_index(place, self._prompt(entry, place == self.highlighted, width))

    def _prompt(self, entry: Entry, here: bool, width: int) -> Text:
        palette = cast("FrontBufferApp[object]", self.app).palette
        bar = HIGHLIGHT if here else 0
        line = Text(no_wrap=True, end="")
        for text, role in (("▸ " if here else "  ", Role.KEY), *entry.line):
            line.append(self._glyphs.text(text), palette.style(role | bar))
        line.truncate(width)
        line.append(" " * (width - line.cell_len), palette.style(Role.TEXT | bar))
        if entry.meaning:
            for row in self._glyphs.rows(wrapped(entry.meaning, width, Role.DIM, "      ")):
                line.append("\n" + row.text, palette.style(Role.DIM))
        return line
