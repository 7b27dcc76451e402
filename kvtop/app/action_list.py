"""The command palette: every action with its key, to be searched and done."""

from collections.abc import Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from kvtop.app.keys import COLOURS, EVERYWHERE_NAME
from kvtop.term.keys import Action
from panels.dialogs.alarms_screen import ALARMS
from panels.dialogs.pager import PAGER
from panels.dialogs.preempted_screen import PREEMPTED


class ActionProvider(Provider):
    """Lists what the keys of the screen below do; choosing an entry does it, in its panel."""

    def _listed(self) -> Iterator[tuple[str, Action, str]]:
        from kvtop.app.engine_screen import EngineScreen

        if not isinstance(self.screen, EngineScreen):
            return
        for place, actions in self.screen.keymap.sections:
            if place in ("dialogs", PAGER, ALARMS, PREEMPTED):
                continue
            for action in actions:
                if action.name != "command_palette":
                    where = "" if place == EVERYWHERE_NAME else f"{place}: "
                    yield place, action, f"{where}{action.help}  ({action.shown})"
        for action in COLOURS:
            yield EVERYWHERE_NAME, action, action.help

    async def discover(self) -> Hits:
        for place, action, text in self._listed():
            yield DiscoveryHit(text, partial(self.screen.do, place, action))  # type: ignore[attr-defined]

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for place, action, text in self._listed():
            if (score := matcher.match(text)) > 0:
                yield Hit(score, matcher.highlight(text), partial(self.screen.do, place, action))  # type: ignore[attr-defined]
