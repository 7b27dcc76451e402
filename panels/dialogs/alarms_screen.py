"""The page of all alarms: what fires with its evidence, what was checked, what cannot be; Enter goes to the victim."""

from collections.abc import Callable

from kvtop.alarms import Check, Report, Victim
from kvtop.state import EngineState
from kvtop.term.keys import Action, Actions, bindings, key_of, scrolling
from kvtop.views.alarms import check_rows, listed, summary
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Row
from panels.dialogs.chooser import BLANK, ChooserScreen
from panels.panel import title_row

ALARMS = "alarms"
ALARM_ACTIONS = (
    Action("close", ("q", "escape"), "q Esc", "close it, as does the key that opened it"),
    Action("jump", ("enter",), "Enter", "close it and go to the victim of this alarm"),
    *scrolling("alarm"),
)


class AlarmsScreen(ChooserScreen):
    """``look``: what there is to see now, with the viewer's clock; ``jump``: goes to a victim, after this has closed."""

    BINDINGS = bindings(ALARM_ACTIONS, ALARMS)

    def __init__(
        self,
        look: Callable[[], tuple[Report, EngineState, float]],
        jump: Callable[[Victim], None],
        *,
        close_keys: tuple[str, ...],
        glyphs: Glyphs = UNICODE,
        keys: Actions = ALARM_ACTIONS,
    ) -> None:
        super().__init__("go to the victim", close_keys=close_keys, glyphs=glyphs, keys=keys, live=True)
        self._look, self._jump, self._jump_key = look, jump, key_of(keys, "jump")
        self._chosen: str | None = None
        """The name of the chosen check: it stays chosen wherever it goes in the list."""
        self._first = 0

    def _place(self, checks: list[Check]) -> int:
        return next((place for place, check in enumerate(checks) if check.name == self._chosen), 0)

    def reload(self) -> None:
        """Draws what there is to see now, the chosen one in sight."""
        width, height = self.app.size
        if width < 20 or height < 4:
            return
        report, state, now = self._look()
        checks = listed(report)
        chosen = self._place(checks)
        rows: list[Row] = []
        starts = []
        for place, check in enumerate(checks):
            starts.append(len(rows))
            rows += check_rows(
                check, state, now, width - 2, chosen=place == chosen, jump=self._jump_key, glyphs=self._glyphs
            )
            rows.append(BLANK)
        room = height - 2
        if checks:
            top, end = starts[chosen], starts[chosen + 1] if chosen + 1 < len(checks) else len(rows)
            if end > self._first + room:
                self._first = end - room
            self._first = min(self._first, top)
        self._first = max(0, min(self._first, len(rows) - room))
        body = rows[self._first : self._first + room]
        body += [BLANK] * (room - len(body))
        heading = title_row("alarms", width, False, note=summary(report))
        self.show([heading, *body, self.foot])

    @property
    def page(self) -> int:
        return 3  # an entry has several rows

    @property
    def entries(self) -> int:
        return len(self._look()[0].checks)

    def choose(self, by: int) -> None:
        checks = listed(self._look()[0])
        if checks:
            self._chosen = checks[max(0, min(self._place(checks) + by, len(checks) - 1))].name
            self.reload()

    def action_jump(self) -> None:
        checks = listed(self._look()[0])
        finding = checks[self._place(checks)].finding if checks else None
        if finding is None or finding.victim is None:
            self.notify("this one has no victim to go to", severity="warning", markup=False)
            return
        self.dismiss()
        self.app.call_later(self._jump, finding.victim)
