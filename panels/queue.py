"""The waiting queue: why its head waits, and who comes next."""

from kvtop.state import EngineState
from kvtop.term.keys import Where, bindings
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.queue import queue_rows, queue_title
from kvtop.views.rows import Row
from panels.panel import TitledPanel


class QueuePanel(TitledPanel):
    """The keys scroll through those who wait."""

    DIGIT = 3
    BINDINGS = bindings(Where.QUEUE)

    def __init__(self, state: EngineState, *, id: str = "queue", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id, glyphs=glyphs)
        self.state = state
        self.now = 0.0
        self.first = 0

    def update(self, state: EngineState, now: float) -> None:
        self.state, self.now = state, now
        self.draw()

    @property
    def _known(self) -> int:
        return len(self.state.queue.order) if self.state.queue is not None else 0

    def compose_rows(self) -> list[Row]:
        self.first = max(0, min(self.first, self._known - 1))
        rows = queue_rows(self.state, self.size.width, self.body_height, self.now, self.glyphs, first=self.first)
        return self.framed(queue_title(self.state, self.now), rows)

    def _scroll(self, by: int) -> None:
        self.first = max(0, min(self.first + by, self._known - 1))
        self.draw()

    def action_down(self) -> None:
        self._scroll(1)

    def action_up(self) -> None:
        self._scroll(-1)

    def action_page_down(self) -> None:
        self._scroll(max(1, self.body_height - 1))

    def action_page_up(self) -> None:
        self._scroll(-max(1, self.body_height - 1))

    def action_top(self) -> None:
        self._scroll(-self._known)

    def action_bottom(self) -> None:
        self._scroll(self._known)
