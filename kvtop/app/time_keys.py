"""What the keys of time do on an engine's screen: go to another moment, mark one, compare two, come back."""

from collections.abc import Callable
from typing import Any

from kvtop.app.time_travel import CannotGo, TimeTravel
from kvtop.record.preempted import Preempted
from kvtop.record.when import WHENS
from kvtop.state.difference import difference
from kvtop.term.keys import Action
from kvtop.views.difference import difference_rows
from kvtop.views.glyphs import Glyphs
from panels.dialogs.pager import Content, Page

SECONDS = 10.0
"""Of one step by time."""

TIME: tuple[Action, ...] = (
    Action(
        "frame_back", ("left_square_bracket",), "[", "one frame back: an iteration, or several that came merged", "back"
    ),
    Action("frame_on", ("right_square_bracket",), "]", "one frame on", "on"),
    Action("present", ("n",), "n", "back to now; in a replay to its end", "now"),
    Action("event_back", ("left_curly_bracket",), "{", "to the previous notable event", "event"),
    Action("event_on", ("right_curly_bracket",), "}", "to the next notable event", "next"),
    Action("seconds_back", ("left_parenthesis",), "(", "10 seconds back", "10 s back"),
    Action("seconds_on", ("right_parenthesis",), ")", "10 seconds on", "on"),
    Action("event_kind", ("K",), "K", "which events to go to: any, preemptions, policy changes, trouble", "kind"),
    Action("moment", ("at",), "@", "go to a moment: -5m, 14:02:31, it:1234", "go to"),
    Action("mark", ("m",), "m", "mark the moment that is shown", "mark"),
    Action("to_mark", ("apostrophe",), "'", "go to the marked moment"),
    Action(
        "preempted",
        ("V",),
        "V",
        "who was preempted up to now, how often, for whom and at what cost; Enter goes there",
        "victims",
    ),
    Action("compare", ("equals_sign",), "=", "what has changed between the marked moment and this one", "compare"),
)
"""The most useful first: those with a word are in the footer while the past is shown."""


def comparison(travel: TimeTravel, glyphs: Glyphs) -> Content:
    """Pages of what differs between the marked moment and the one shown. Raises `CannotGo`."""
    told = difference(*travel.compared())

    def content(width: int, first: int, height: int) -> Page:
        rows = difference_rows(told, width)
        return Page(glyphs.rows(rows[first : first + height]), len(rows))

    return content


class TimeKeys:
    """The actions of `TIME`, for a screen that has ``travel`` and says and shows what comes of them."""

    travel: TimeTravel
    glyphs: Glyphs

    def travelled(self, said: str) -> None:
        """Another moment is shown; ``said``: what there is to say of it, maybe nothing."""
        raise NotImplementedError

    def hint(self, text: str) -> None:
        raise NotImplementedError

    def open_comparison(self, content: Content) -> None:
        raise NotImplementedError

    def ask_moment(self, go: Callable[[str], str | None], forms: str) -> None:
        """Asks in words for a moment to go to. ``go`` goes there, or says why not; ``forms``: what can be said."""
        raise NotImplementedError

    def _travel(self, way: Callable[..., str], *args: Any) -> None:
        try:
            said = way(*args)
        except CannotGo as why:
            self.hint(str(why))
        else:
            self.travelled(said)

    def action_frame_back(self) -> None:
        self._travel(self.travel.step, -1)

    def action_frame_on(self) -> None:
        self._travel(self.travel.step, 1)

    def action_seconds_back(self) -> None:
        self._travel(self.travel.shift, -SECONDS)

    def action_seconds_on(self) -> None:
        self._travel(self.travel.shift, SECONDS)

    def action_event_back(self) -> None:
        self._travel(self.travel.previous)

    def action_event_on(self) -> None:
        self._travel(self.travel.next)

    def action_event_kind(self) -> None:
        self.hint(self.travel.next_goal())

    def action_present(self) -> None:
        self._travel(self.travel.back)

    def action_mark(self) -> None:
        try:
            self.hint(self.travel.set_mark())
        except CannotGo as why:
            self.hint(str(why))

    def action_to_mark(self) -> None:
        self._travel(self.travel.to_mark)

    def open_preempted(self, found: list[Preempted], left_out: int) -> None:
        raise NotImplementedError

    def select_request(self, num: int) -> None:
        raise NotImplementedError

    def action_preempted(self) -> None:
        try:
            found, left_out = self.travel.preempted()
        except CannotGo as why:
            self.hint(str(why))
        else:
            self.open_preempted(found, left_out)

    def go_to_preemption(self, request: Preempted) -> None:
        """To the first time of it, the request selected."""
        self._travel(self.travel.to_preemption, request)
        self.select_request(request.num)

    def action_compare(self) -> None:
        try:
            content = comparison(self.travel, self.glyphs)
        except CannotGo as why:
            self.hint(str(why))
        else:
            self.open_comparison(content)

    def action_moment(self) -> None:
        try:
            self.travel.tape  # noqa: B018
        except CannotGo as why:
            self.hint(str(why))
        else:
            self.ask_moment(self._go, WHENS)

    def _go(self, text: str) -> str | None:
        try:
            self.travelled(self.travel.go(text))
        except CannotGo as why:
            return str(why)
        return None
