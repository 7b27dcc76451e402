"""The tiers of KV memory: contents, flow, hits, what a block costs to move, what went wrong."""

from kvtop.state import EngineState
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from kvtop.views.tiers import WINDOWS, tier_rows, tiers_title
from panels.panel import TitledPanel


class TiersPanel(TitledPanel):
    """There only for engines with more than one tier; on small terminals in the place of the queue."""

    DIGIT = 5

    def __init__(self, state: EngineState, *, id: str = "tiers", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id, glyphs=glyphs)
        self.state = state
        self.now = 0.0

    def update(self, state: EngineState, now: float) -> None:
        self.state, self.now = state, now
        self.draw()

    def compose_rows(self) -> list[Row]:
        rows = tier_rows(self.state, self.size.width, self.body_height, self.now, self.glyphs)
        return self.framed(tiers_title(self.state), rows, WINDOWS)
