"""What happened, newest at the bottom."""

from kvtop.state import EngineState
from kvtop.term.keys import Where, bindings
from kvtop.views.events import event_rows, events_title, shown_events
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from panels.panel import TitledPanel

FEW_ROWS = 5
"""Up to so many rows show what is notable only, unless told otherwise."""


class EventsPanel(TitledPanel):
    """Follows the newest event until scrolled; then it stays with the events one reads while new ones come.

    ``all_kinds``: whether routine events are shown too; None leaves it to the room there is.
    """

    DIGIT = 4
    BINDINGS = bindings(Where.EVENTS)

    def __init__(self, state: EngineState, *, id: str = "events", glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id=id, glyphs=glyphs)
        self.state = state
        self.back = 0
        self.all_kinds: bool | None = None

    def update(self, state: EngineState, arrived: int = 0) -> None:
        """``arrived``: events that came since the last call."""
        self.state = state
        if self.back:
            self.back += arrived if self.shows_all else 0
        self.draw()

    @property
    def following(self) -> bool:
        return self.back == 0

    @property
    def shows_all(self) -> bool:
        return self.body_height > FEW_ROWS if self.all_kinds is None else self.all_kinds

    @property
    def _most(self) -> int:
        """How far back one can scroll."""
        return max(0, len(shown_events(self.state, self.shows_all)) - self.body_height)

    def compose_rows(self) -> list[Row]:
        self.back = max(0, min(self.back, self._most)) if self.back else 0
        note = "following" if self.following else f"{self.back} newer below · f follows"
        note = f"{'all' if self.shows_all else 'notable'} (v) · {note}"
        rows = event_rows(
            self.state, self.size.width, self.body_height, self.glyphs, offset=self.back, routine=self.shows_all
        )
        return self.framed(events_title(self.state), rows, note)

    def _scroll(self, back: int) -> None:
        self.back = max(0, min(self.back + back, self._most))
        self.draw()

    def action_kinds(self) -> None:
        self.all_kinds = not self.shows_all
        self.back = 0
        self.draw()

    def action_follow(self) -> None:
        self._scroll(-self.back)

    def action_down(self) -> None:
        self._scroll(-1)

    def action_up(self) -> None:
        self._scroll(1)

    def action_page_down(self) -> None:
        self._scroll(-max(1, self.body_height - 1))

    def action_page_up(self) -> None:
        self._scroll(max(1, self.body_height - 1))

    def action_top(self) -> None:
        self._scroll(self._most)

    def action_bottom(self) -> None:
        self._scroll(-self.back)
