"""The page of who was preempted: Enter goes to the moment of the first time, with the request selected."""

from collections.abc import Callable, Sequence

from textual import events
from textual.app import ComposeResult

from kvtop.record.preempted import Preempted
from kvtop.term.cell_panel import CellPanel
from kvtop.term.keys import Action, Actions, bindings, key_of, scrolling
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.preempted import preempted_head, preempted_row, preempted_title
from kvtop.views.rows import Role, Row, RowBuilder
from panels.dialogs.pager import TextScreen
from panels.panel import title_row

PREEMPTED = "preempted"
PREEMPTED_ACTIONS = (
    Action("close", ("q", "escape"), "q Esc", "close it, as does the key that opened it"),
    Action("jump", ("enter",), "Enter", "close it and go to when the chosen request was preempted first"),
    *scrolling("request"),
)
_BLANK = Row("", b"")


class PreemptedScreen(TextScreen):
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
        super().__init__(close_keys=close_keys, glyphs=glyphs, keys=keys)
        self._found, self._left_out, self._jump = found, left_out, jump
        self._chosen = self._first = 0
        foot = RowBuilder().add(f"  {key_of(keys, 'down')} {key_of(keys, 'up')}", Role.KEY).add(" choose  ", Role.DIM)
        foot.add(key_of(keys, "jump"), Role.KEY).add(" go to its first time  ", Role.DIM)
        self.foot = foot.add(key_of(keys, "close"), Role.KEY).add(" close", Role.DIM).row()

    def compose(self) -> ComposeResult:
        yield CellPanel(id="page")

    def on_resize(self, _event: events.Resize) -> None:
        self.reload()

    def reload(self) -> None:
        width, height = self.app.size
        if width < 20 or height < 5:
            return
        room = height - 3
        self._first = max(self._chosen - room + 1, min(self._first, self._chosen))
        shown = enumerate(self._found[self._first : self._first + room], self._first)
        rows = [preempted_row(request, width, chosen=at == self._chosen) for at, request in shown]
        rows += [_BLANK] * (room - len(rows))
        heading = title_row(
            "preempted, up to this moment", width, False, note=preempted_title(self._found, self._left_out)
        )
        self.query_one("#page", CellPanel).show(self._glyphs.rows([heading, preempted_head(width), *rows, self.foot]))

    def _move(self, by: int) -> None:
        before = self._chosen
        self._chosen = max(0, min(self._chosen + by, len(self._found) - 1))
        if self._chosen == before:
            self.notify(f"this is the {'last' if by > 0 else 'first'} request", markup=False)
        self.reload()

    def action_down(self) -> None:
        self._move(1)

    def action_up(self) -> None:
        self._move(-1)

    def action_page_down(self) -> None:
        self._move(max(1, self.app.size.height - 4))

    def action_page_up(self) -> None:
        self._move(-max(1, self.app.size.height - 4))

    def action_top(self) -> None:
        self._move(-len(self._found))

    def action_bottom(self) -> None:
        self._move(len(self._found))

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self._move(1)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self._move(-1)

    def action_jump(self) -> None:
        chosen = self._found[self._chosen]
        self.dismiss()
        self.app.call_later(self._jump, chosen)
