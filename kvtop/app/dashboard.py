"""The panels of one engine's screen in their places, with the footer below and the divider between."""

from typing import TypeVar, cast

from textual.containers import Container
from textual.geometry import Size

from kvtop.app.keymap import Keymap
from kvtop.app.keys import EVERYWHERE_NAME
from kvtop.state import EngineState
from kvtop.views.glyphs import Glyphs
from panels.divider import DividerPanel
from panels.footer import FooterPanel
from panels.header import HeaderPanel
from panels.layout import WIDE, plan, too_small
from panels.panel import Panel, Tick, TitledPanel
from panels.registry import PANELS
from panels.too_small import TooSmallPanel

AnyPanel = TypeVar("AnyPanel", bound=Panel)


class Dashboard(Container):
    """``panels``: by their ids, in the order of the registry; ``state``: what they look at first."""

    def __init__(self, state: EngineState, keymap: Keymap, glyphs: Glyphs) -> None:
        self.panels: dict[str, Panel] = {kind.ID: kind(state, glyphs=glyphs) for kind in PANELS}
        for panel in self.panels.values():
            panel.actions = keymap.actions(panel.NAME) or panel.ACTIONS
        self.footer = FooterPanel(keymap.actions(EVERYWHERE_NAME), glyphs=glyphs)
        self._too_small = TooSmallPanel(id="too-small")
        self._placed = {**self.panels, "footer": self.footer, "divider": DividerPanel(glyphs=glyphs)}
        self._content: dict[str, int] = {}
        self._blocks = 0
        self._asked = ""
        self.full = ""
        """The panel that fills the screen; empty: all have their places."""
        super().__init__(*self._placed.values(), self._too_small, id="dashboard")

    def panel(self, kind: type[AnyPanel]) -> AnyPanel:
        """The panel of that kind."""
        return cast(AnyPanel, self.panels[kind.ID])

    @property
    def fits(self) -> bool:
        """The terminal is large enough for it."""
        return self.has_class("fits")

    # --- placing ---

    def place(self, size: Size) -> None:
        """Gives every panel its part of a terminal of ``size``."""
        if not self.is_mounted:
            return
        width, height = size
        small = too_small(width, height)
        self.set_class(not small, "fits")
        self.set_class(width >= WIDE and not self.full, "wide")
        titled = [panel for panel in self.panels.values() if isinstance(panel, TitledPanel)]
        if small:
            areas = {}
            self._too_small.update(width, height)
        else:
            areas = plan(width, height, [panel.tile for panel in titled], self._content, self._asked, self.full)
        for panel in self.panels.values():
            if panel.ID != HeaderPanel.ID:
                panel.display = panel.ID in areas
        for name, area in areas.items():
            placed = self._placed[name]
            placed.styles.offset = (area.x, area.y)
            placed.styles.width, placed.styles.height = area.width, area.height

    def ask_for(self, name: str) -> None:
        """Finds room for that panel, where there is not enough for all."""
        self._asked = name
        self.place(self.app.size)

    def fill(self, name: str) -> None:
        """That panel fills the screen from now on; with an empty name each has its place again."""
        self.full = name
        for panel in self.panels.values():
            panel.full = name == panel.ID
        self.place(self.app.size)

    def follow(self, state: EngineState) -> None:
        """Places all anew where the rows that contents need, or the pool's size, are others than before."""
        content = {name: panel.content_rows(state) for name, panel in self.panels.items()}
        blocks = state.blocks.total if state.blocks is not None else 0
        if (content, blocks) != (self._content, self._blocks):
            self._content, self._blocks = content, blocks
            self.place(self.app.size)

    @property
    def blocks(self) -> int:
        """Of the pool that it was placed for."""
        return self._blocks

    # --- drawing ---

    def take(self, tick: Tick, *, moving: bool, counting: bool) -> None:
        """Tells the panels what there is to see: those of the map's rate while the picture is ``moving``, the others where
        texts are due, of which, while only seconds are ``counting``, those that show seconds alone."""
        for panel in self.panels.values():
            if moving if panel.EVERY_FRAME else tick.texts and (not counting or panel.COUNTS):
                panel.take(tick)

    def begin_run(self) -> None:
        """The engine has been restarted."""
        for panel in self.panels.values():
            panel.begin_run()
