"""The page of who was preempted: Enter goes to the moment of the first time, with the request selected."""

from collections.abc import Callable, Sequence

from kvtop.record.preempted import Preempted
from kvtop.term.keys import Action, Actions, bindings, scrolling
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.preempted import preempted_head, preempted_row, preempted_title
from panels.dialogs.chooser import BLANK, ChooserScreen
from panels.panel import title_row

PREEMPTED = "preempted"
PREEMPTED_ACTIONS = (
    Action("close", ("q", "escape"), "q Esc", "close it, as does the key that opened it"),
    Action("jump", ("enter",), "Enter", "close it and go to when the chosen request was preempted first"),
    *scrolling("request"),
)


class PreemptedScreen(ChooserScreen):
    """``found``: the most preempted first, ``left_out`` as of `kvtop.record.preempted`; ``jump`` is called after it has closed."""

    BINDINGS = bindings(PREEMPTED_ACTIONS, PREEMPTED)

    def __init__(
        self,
        found: Sequence[Preempted],
        left_out: int,
        jump: Callable[[Preempted], None],
        *,
        close_keys: tuple[str, ...],
        glyphs: Glyphs = UNICODE,
        keys: Actions = PREEMPTED_ACTIONS,
    ) -> None:
        super().__init__("go to its first time", close_keys=close_keys, glyphs=glyphs, keys=keys, live=False)
        self._found, self._left_out, self._jump = found, left_out, jump
        self._chosen = self._first = 0

    @property
    def entries(self) -> int:
        return len(self._found)

    def reload(self) -> None:
        width, height = self.app.size
        if width < 20 or height < 5:
            return
        room = height - 3
        self._first = max(self._chosen - room + 1, min(self._first, self._chosen))
        shown = enumerate(self._found[self._first : self._first + room], self._first)
        rows = [preempted_row(request, width, chosen=at == self._chosen) for at, request in shown]
        rows += [BLANK] * (room - len(rows))
        note = preempted_title(self._found, self._left_out)
        heading = title_row("preempted, up to this moment", width, False, note=note)
        self.show([heading, preempted_head(width), *rows, self.foot])

    def choose(self, by: int) -> None:
        before = self._chosen
        self._chosen = max(0, min(self._chosen + by, len(self._found) - 1))
        if self._chosen == before:
            self.notify(f"this is the {'last' if by > 0 else 'first'} request", markup=False)
        self.reload()

    def action_jump(self) -> None:
        chosen = self._found[self._chosen]
        self.dismiss()
        self.app.call_later(self._jump, chosen)
