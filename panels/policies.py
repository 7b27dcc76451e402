"""Policies: who set what when, and whether it helped; it fills the screen."""

from kvtop.state import EngineState
from kvtop.term.keys import Action, bindings
from kvtop.views.exposure import not_exposed
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import POLICIES
from kvtop.views.policy_effects import changes_newest_first, policies_title, policy_rows
from kvtop.views.rows import Row
from panels.layout import Need, Room
from panels.panel import TitledPanel


class PoliciesPanel(TitledPanel):
    """``chosen``: the change whose effect is shown, 0 the latest; ``first``: the first axis of the list."""

    ID, NAME, DIGIT = "policies", "policies", 8
    NUMBERS = POLICIES
    ACTIONS = (
        Action("older", ("h", "left"), "h ←", "effect of the change before", "older"),
        Action("newer", ("l", "right"), "l →", "effect of the change after", "newer"),
        Action("down", ("j", "down"), "j ↓", "next axis"),
        Action("up", ("k", "up"), "k ↑", "previous axis"),
    )
    BINDINGS = bindings(ACTIONS, NAME)

    def __init__(self, state: EngineState, *, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(state, glyphs=glyphs)
        self.chosen = self.first = 0
        self._second: tuple[object, ...] = ()
        self._rows_drawn: list[Row] = []

    @staticmethod
    def need(room: Room) -> Need | None:
        return None

    def begin_run(self) -> None:
        self.chosen = self.first = 0

    def compose_rows(self) -> list[Row]:
        """What is compared changes with the second."""
        state, size = self.state, (self.size.width, self.body_height)
        second = (state.history, state.trend_end(self.now), size, self.chosen, self.first, len(state.policies.changes))
        if second != self._second:
            self._second = second
            self._rows_drawn = policy_rows(state, *size, self.now, self.glyphs, chosen=self.chosen, first=self.first)
        return self.framed(policies_title(state), self._rows_drawn)

    def _choose(self, by: int) -> None:
        known = len(changes_newest_first(self.state))
        before, self.chosen = self.chosen, max(0, min(self.chosen + by, known - 1))
        if self.chosen == before:
            none = "no change of a policy is known" if self.state.policy else not_exposed(self.state, "policies")
            self.hint(none if not known else f"this is the {'oldest' if by > 0 else 'latest'} change that is known")
        self.draw()

    def _scroll(self, by: int) -> None:
        before, self.first = self.first, max(0, min(self.first + by, len(self.state.policy) - 1))
        shown = self._rows_drawn
        self.draw()
        if self.first == before:
            self.hint(f"this is the {'last' if by > 0 else 'first'} axis")
        elif self._rows_drawn == shown:
            self.first = before
            self.hint("all axes are in sight")

    def action_older(self) -> None:
        self._choose(1)

    def action_newer(self) -> None:
        self._choose(-1)

    def action_down(self) -> None:
        self._scroll(1)

    def action_up(self) -> None:
        self._scroll(-1)
