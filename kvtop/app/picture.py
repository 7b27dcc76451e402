"""The screen as a picture, drawn without a terminal from a state that stands still."""

import asyncio
from collections.abc import Sequence

from kvtop.alarms import Report
from kvtop.app.app import KvtopApp
from kvtop.app.commander import Commander
from kvtop.app.engine_screen import EngineScreen
from kvtop.app.feed import Feed
from kvtop.sources.base import Item
from kvtop.state import EngineState
from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper
from kvtop.term.theme import Theme


class _StandStill:
    """A source that has nothing more to say."""

    title = "picture"

    def start(self) -> None:
        pass

    def poll(self) -> list[Item]:
        return []

    def pace(self, fps: float) -> None:
        pass

    def tape(self) -> None:
        """Nothing is recorded."""

    def request_keyframe(self) -> None:
        pass

    def close(self) -> None:
        pass


def screen_svg(
    state: EngineState,
    size: tuple[int, int],
    now: float,
    *,
    depth: ColourDepth = ColourDepth.TRUECOLOR,
    paper: Paper = Paper.DARK,
    keys: Sequence[str] = (),
    alarms: Report | None = None,
) -> str:
    """The screen as it shows ``state``, as SVG.

    ``size``: columns and rows; ``now``: the viewer's monotonic clock; ``keys``: pressed first, to show a dialog or
    another colour mode; ``alarms``: what the watch has found in it.
    """
    return asyncio.run(_draw(state, size, now, depth, paper, keys, alarms))


async def _draw(
    state: EngineState,
    size: tuple[int, int],
    now: float,
    depth: ColourDepth,
    paper: Paper,
    keys: Sequence[str],
    alarms: Report | None,
) -> str:
    engine = EngineScreen(Feed(_StandStill(), state, report=alarms), Commander(None), now=lambda: now)
    app = KvtopApp([engine], depth=depth, look=Theme(paper), ticking=False)
    async with app.run_test(size=size) as pilot:
        app.tick()
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        return app.picture("kvtop")()
