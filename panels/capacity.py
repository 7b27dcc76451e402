"""Is memory the limit? The pool as one bar and its numbers."""

from kvtop.state import EngineState
from kvtop.term.panel import CellPanel
from kvtop.views.capacity import capacity_rows
from kvtop.views.glyphs import UNICODE, Glyphs


class CapacityPanel(CellPanel):
    """Two rows over the whole width; where there is room for one, the numbers."""

    def __init__(self, *, id: str = "capacity", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs

    def update(self, state: EngineState) -> None:
        if self.size.width and self.display:
            self.show(capacity_rows(state, self.size.width, self.glyphs)[-self.size.height :])
