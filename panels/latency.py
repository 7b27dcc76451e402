"""How long requests take; it has a place of its own on the largest screens, and fills any other."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from kvtop.state import EngineState
from kvtop.state.service_level import service_level, spelled
from kvtop.term.keys import Action, bindings
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.latency import METRICS, WINDOWS, latency_rows, latency_title
from kvtop.views.numbers import LATENCY
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import TitledPanel
from panels.text_input import TextInput

_LEVEL_TITLE = "service level:"
LONGEST_LEVEL = 80


class LevelInput(TextInput):
    """The field over the panel's title, there while a service level is typed. Enter sets it, Esc leaves it as it was."""

    DEFAULT_CSS = """
    LevelInput { position: absolute; display: none; offset: 19 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "drop", show=False)]

    def __init__(self) -> None:
        super().__init__(id="level", longest=LONGEST_LEVEL)

    def action_drop(self) -> None:
        self.display = False
        if isinstance(self.parent, LatencyPanel):
            self.screen.set_focus(self.parent)


class LatencyPanel(TitledPanel):
    """``level``: what goodput is counted against, seconds by name; empty: nothing is asked."""

    ID, NAME, DIGIT = "latency", "latency", 7
    NUMBERS = LATENCY
    COLUMN = "right"
    ACTIONS = (
        Action("metric", ("o",), "o", "histogram of the next: ttft, tpot, queue, latency", "next"),
        Action("window", ("w",), "w", "histogram of the next window: 1 min, 5 min, all seen", "window"),
        Action("level", ("L",), "L", "set the service level that goodput is counted against", "level"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.metric = 0
        self.window = 0
        self.level: dict[str, float] = {}
        self.field = LevelInput()

    @staticmethod
    def need(room: Room) -> Need | None:
        return None

    def compose(self) -> ComposeResult:
        yield self.field

    def compose_rows(self) -> list[Row]:
        metric, window = METRICS[self.metric], WINDOWS[self.window]
        rows = latency_rows(
            self.state,
            self.size.width,
            self.body_height,
            self.now,
            self.glyphs,
            metric=metric,
            window=window,
            level=self.level,
            key=self.key("level"),
        )
        return self.framed(_LEVEL_TITLE if self.field.display else latency_title(metric, window), rows)

    def action_metric(self) -> None:
        self.metric = (self.metric + 1) % len(METRICS)
        self.draw()

    def action_window(self) -> None:
        self.window = (self.window + 1) % len(WINDOWS)
        self.draw()

    def action_level(self) -> None:
        self.field.value = spelled(self.level)
        self.field.display = True
        self.screen.set_focus(self.field)
        self.hint(
            "ttft=1,tpot=0.1 in seconds, queue and latency too · Enter sets it, empty takes it away · Esc leaves it"
        )
        self.draw()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.level = service_level(event.value)
        except ValueError as wrong:
            self.hint(str(wrong))
            return
        self.screen.set_focus(self)

    def on_descendant_blur(self, _event: events.DescendantBlur) -> None:
        """The level stays as it was, however one leaves the field."""
        self.field.display = False
        self.draw()
