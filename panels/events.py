"""What happened, newest at the bottom."""

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings, scrolling
from kvtop.views.event_tally import tally_row
from kvtop.views.events import event_rows, events_title, scrolled, still_there
from kvtop.views.format import count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import EVENTS
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import TitledPanel

FEW_ROWS = 5
"""Up to so many rows show what is notable only, unless told otherwise."""


EVERY = 1 << 30
"""Rows to scroll by for getting to an end."""


class EventsPanel(TitledPanel):
    """Follows the newest event until scrolled; then it stays with the events one reads while new ones come.

    ``at``: the number in the log of the last event shown; None follows. ``all_kinds``: whether routine events are shown too; None leaves it to the room there is.
    """

    ID, NAME, DIGIT = "events", "events", 4
    NUMBERS = EVENTS
    COLUMN = "right"
    ACTIONS = (
        Action("follow", ("F",), "F", "follow: stay at the newest event", "follow"),
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
        self.at: int | None = None
        self.all_kinds: bool | None = None

    @staticmethod
    def need(room: Room) -> Need:
        return Need(4, room.rest, 2.0) if room.wide else Need(3, room.rest, 4.0)

    @property
    def following(self) -> bool:
        return self.at is None

    @property
    def back(self) -> int:
        """Events that have come after those one reads."""
        return 0 if self.at is None else self.state.events.newer(self.at, self.shows_all)

    @property
    def shows_all(self) -> bool:
        return self.body_height > FEW_ROWS if self.all_kinds is None else self.all_kinds

    @property
    def list_height(self) -> int:
        """Rows of events; where the panel fills the screen, one above them counts those of the last minute."""
        return max(1, self.body_height - 1) if self.full else self.body_height

    def compose_rows(self) -> list[Row]:
        self.at = still_there(self.state, self.list_height, self.shows_all, self.at)
        note = "following" if self.following else f"{count(self.back)} newer below · {self.key('follow')} follows"
        if not self.following and self.state.events.dropped(self.shows_all) and self._at_the_oldest():
            note = f"the oldest kept · {note}"
        note = f"{'all' if self.shows_all else 'notable'} ({self.key('kinds')}) · {note}"
        rows = event_rows(
            self.state, self.size.width, self.list_height, self.glyphs, at=self.at, routine=self.shows_all
        )
        if self.full:
            rows = [tally_row(self.state, self.size.width, self.now, self.glyphs), *rows]
        return self.framed(events_title(self.state), rows, note)

    def _at_the_oldest(self) -> bool:
        return scrolled(self.state, self.list_height, self.shows_all, self.at, 1) == self.at

    def _scroll(self, back: int) -> None:
        before = self.at
        self.at = scrolled(self.state, self.list_height, self.shows_all, self.at, back)
        if self.at == before:
            newest = f"this is the newest {'event' if self.shows_all else 'notable event'}"
            dropped = ": those before are no longer kept" if self.state.events.dropped(self.shows_all) else ""
            self.hint(newest if back <= 0 else f"there are no older events{dropped}")
        self.draw()

    def action_kinds(self) -> None:
        self.all_kinds = not self.shows_all
        self.at = None
        self.draw()

    def action_follow(self) -> None:
        self._scroll(-EVERY)

    def action_down(self) -> None:
        self._scroll(-1)

    def action_up(self) -> None:
        self._scroll(1)

    def action_page_down(self) -> None:
        self._scroll(-max(1, self.list_height - 1))

    def action_page_up(self) -> None:
        self._scroll(max(1, self.list_height - 1))

    def action_top(self) -> None:
        self._scroll(EVERY)

    def action_bottom(self) -> None:
        self._scroll(-EVERY)
