"""What stands on a terminal too small for panels."""

from kvtop.term.cell_panel import CellPanel
from kvtop.views.fit import wrap
from kvtop.views.rows import Role
from panels.layout import MIN_HEIGHT, MIN_WIDTH


class TooSmallPanel(CellPanel):
    """Says what is needed and what there is."""

    def update(self, width: int, height: int) -> None:
        text = f"kvtop needs {MIN_WIDTH}x{MIN_HEIGHT}, this terminal is {width}x{height}"
        self.show(wrap([(text, Role.WARN)], width, height))
