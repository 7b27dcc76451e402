"""The waiting queue: why its head waits, and who comes next."""

from kvtop.state import EngineState
from kvtop.term.keys import bindings, scrolling
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import fit, part
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.limit import limit, work_rows
from kvtop.views.numbers import REQUESTS
from kvtop.views.queue import queue_rows, queue_title
from kvtop.views.refused import refusal_parts
from kvtop.views.rows import Role, Row
from kvtop.views.trends import OLDEST, QUEUE, trend_rows
from panels.layout import Need, Room
from panels.panel import TitledPanel

BESIDE_TITLE = 8
"""Cells of a title's row that are neither title nor note."""

ROOMY = 8
"""Rows from which on one tells what an iteration holds and where its time goes."""


class QueuePanel(TitledPanel):
    """The keys scroll through those who wait. Beside the title stands what holds the engine back."""

    ID, NAME, DIGIT = "queue", "queue", 3
    NUMBERS = REQUESTS
    ACTIONS = scrolling("waiting request")
    BINDINGS = bindings(ACTIONS, NAME)

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.first = 0

    @staticmethod
    def need(room: Room) -> Need | None:
        """None while the tiers are asked for and there is room for one of the two."""
        if room.content.get("tiers") and room.asked == "tiers" and not room.for_all:
            return None
        return Need(4, room.rest, 1.0) if room.wide else Need(2 if room.height < 22 else 3, 6, 1.6)

    @property
    def _known(self) -> int:
        return len(self.state.queue.order) if self.state.queue is not None else 0

    def compose_rows(self) -> list[Row]:
        self.first = max(0, min(self.first, self._known - 1))
        width, height = self.size.width, self.body_height
        work = work_rows(self.state, width, self.glyphs) if height >= ROOMY else []
        if height >= ROOMY:
            refused = [part(99, "refused", role=Role.DIM), *refusal_parts(self.state, self.now)]
            work += self.glyphs.rows([fit(refused, width)])
        if self.full:
            work += trend_rows(self.state, (QUEUE, OLDEST), width, self.now, self.glyphs)
        rows = queue_rows(self.state, width, height - len(work), self.now, self.glyphs, first=self.first)
        rows = [*work, *rows]
        title = queue_title(self.state, self.now)
        found = limit(self.state)
        if found is None:
            return self.framed(title, rows)
        room = self.size.width - len(title) - BESIDE_TITLE
        note = next((form for form in found.forms() if len(form) <= room), "")
        return self.framed(title, rows, note, found.role)

    def _scroll(self, by: int) -> None:
        before = self.first
        self.first = max(0, min(self.first + by, self._known - 1))
        if self.first == before:
            self.hint(self._end_reached(by))
        self.draw()

    def _end_reached(self, by: int) -> str:
        if self.state.queue is None:
            return not_exposed(self.state, "the queue")
        return f"this is the {'end' if by > 0 else 'head'} of the queue" if self._known else "nobody waits"

    def begin_run(self) -> None:
        self.first = 0

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
