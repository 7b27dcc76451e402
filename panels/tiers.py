"""The tiers of KV memory: contents, flow, hits, what a block costs to move, what went wrong."""

from kvtop.state import EngineState
from kvtop.views.numbers import TIERS
from kvtop.views.rows import Row
from kvtop.views.tiers import WINDOWS, no_lower_tiers, table_height, tier_rows, tiers_title
from kvtop.views.trends import MOVED, trend_rows
from panels.layout import Need, Room
from panels.panel import TitledPanel


class TiersPanel(TitledPanel):
    """There only for engines with more than one tier; on small terminals in the place of the queue."""

    ID, NAME, DIGIT = "tiers", "tiers", 5
    NUMBERS = TIERS
    GO_TO = "tiers; on a small screen they take the queue's place, whose key brings it back"

    @staticmethod
    def need(room: Room) -> Need | None:
        rows = room.content.get("tiers", 0)
        if not rows or not (room.for_all or room.asked == "tiers"):
            return None
        least = 2 if room.height < 22 and not room.wide else min(rows + 1, 5)
        return Need(least, rows + 2, 2.0 if room.wide else 3.0)

    def content_rows(self, state: EngineState) -> int:
        return table_height(state)

    def absence(self, state: EngineState) -> str | None:
        return no_lower_tiers(state)

    def compose_rows(self) -> list[Row]:
        width, height = self.size.width, self.body_height
        moved = trend_rows(self.state, (MOVED,), width, self.now, self.glyphs) if self.full else []
        rows = [*moved, *tier_rows(self.state, width, height - len(moved), self.now, self.glyphs)]
        return self.framed(tiers_title(self.state), rows, WINDOWS)
