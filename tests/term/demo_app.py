"""A small app with what a kvtop screen has: panels of cells, text of Textual's own, dialogs, notices."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Footer, Label, Static

from kvtop.term.cell_panel import CellPanel
from kvtop.term.front_buffer import FrontBufferApp


class Dialog(ModalScreen[None]):
    CSS = "Dialog {align: center middle} Dialog Static {width: 40; height: 7; border: solid red}"

    def compose(self) -> ComposeResult:
        yield Static("Shall it be done?")


class DemoApp(FrontBufferApp[None]):
    CSS = """
    #head {height: 1}
    #map {height: 1fr; width: 1fr}
    #side {width: 24; height: 1fr}
    #list {height: 5}
    .hidden {display: none}
    """
    BINDINGS: ClassVar = [("q", "quit", "Quit"), ("d", "count", "Count")]
    counted = 0

    def compose(self) -> ComposeResult:
        yield Label("head", id="head")
        with Horizontal():
            yield CellPanel(id="map")
            yield Static("side", id="side", markup=False)
        yield CellPanel(id="list")
        yield Footer()

    def action_count(self) -> None:
        self.counted += 1

    def panel(self, name: str) -> CellPanel:
        return self.screen_stack[0].query_one(f"#{name}", CellPanel)
