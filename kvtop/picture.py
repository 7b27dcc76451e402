"""The screen as a picture, drawn without a terminal from a state that stands still."""

import asyncio

from kvtop.app import KvtopApp
from kvtop.sources.base import Item
from kvtop.state import EngineState
from kvtop.term.depth import ColourDepth


class _StandStill:
    """A source that has nothing more to say."""

    title = "picture"

    def start(self) -> None:
        pass

    def poll(self) -> list[Item]:
        return []

    def request_keyframe(self) -> None:
        pass

    def close(self) -> None:
        pass


def screen_svg(state: EngineState, size: tuple[int, int], now: float) -> str:
    """The dashboard as it shows ``state`` at ``now`` (viewer's monotonic clock), ``(columns, rows)`` in size, as SVG."""
    return asyncio.run(_draw(state, size, now))


async def _draw(state: EngineState, size: tuple[int, int], now: float) -> str:
    app = KvtopApp(_StandStill(), state=state, depth=ColourDepth.TRUECOLOR, ticking=False, now=lambda: now)
    async with app.run_test(size=size) as pilot:
        app.tick()
        await pilot.pause()
        return app.export_screenshot(title="kvtop")
