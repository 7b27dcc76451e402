"""Is memory the limit? The pool as one bar and its numbers."""

from kvtop.views.capacity import capacity_rows
from panels.panel import Panel, Tick


class CapacityPanel(Panel):
    """Two rows over the whole width; where there is room for one, the numbers."""

    ID = "capacity"

    def update(self, tick: Tick) -> None:
        if self.size.width and self.display:
            self.show(capacity_rows(tick.state, self.size.width, self.glyphs)[-self.size.height :])
