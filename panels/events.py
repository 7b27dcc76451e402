"""What happened, newest at the bottom."""

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings, scrolling
from kvtop.views.events import event_rows, events_title, shown_events
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import Tick, TitledPanel

FEW_ROWS = 5
"""Up to so many rows show what is notable only, unless told otherwise."""


class EventsPanel(TitledPanel):
    """Follows the newest event until scrolled; then it stays with the events one reads while new ones come.

    ``all_kinds``: whether routine events are shown too; None leaves it to the room there is.
    """

    ID, NAME, DIGIT = "events", "events", 4
    COLUMN = "right"
    ACTIONS = (
        Action("follow", ("f",), "f", "follow: stay at the newest event", "follow"),
        Action(
            "kinds",
            ("v",),
            "v",
            "show all events, or only notable ones (no admissions, ends, evictions, copies)",
            "all/notable",
        ),
        *scrolling("event"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.back = 0
        self.all_kinds: bool | None = None

    @staticmethod
    def need(room: Room) -> Need:
        return Need(4, room.rest, 2.0) if room.wide else Need(3, room.rest, 4.0)

    def update(self, tick: Tick) -> None:
        if self.back and self.shows_all:
            self.back += tick.arrived
        super().update(tick)

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
        before = self.back
        self.back = max(0, min(self.back + back, self._most))
        if self.back == before:
            newest = f"this is the newest {'event' if self.shows_all else 'notable event'}"
            self.hint(newest if back <= 0 else "there are no older events")
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
