"""After anything that can happen to a screen, the bytes sent so far show what a full repaint would show."""

import asyncio
import random

import pytest
from textual._compositor import LayoutUpdate
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widgets import Label, Static

from kvtop.term.depth import ColourDepth
from kvtop.views.block_states import role_of
from kvtop.views.clusters import in_cells, spell_out, whole
from kvtop.views.rows import HIGHLIGHT, Role, Row
from tests.term.demo_app import DemoApp, Dialog
from tests.term.driver import CountingDriver, driver_of
from tests.term.screen_of import differences, terminal, visible

SIZES = [(100, 24), (80, 24), (120, 30)]
GLYPHS = " ·▒█a7"
SCRIPTS = [in_cells(text) for text in ("世", "한", "x\u0331\u0302", "👍", "👩‍👩‍👧", "🇩🇪", "❤️", "नि")]
"""One and two cells wide; of the last ones pyte draws more than there is room for, or less."""
ROLES = [
    Role.TEXT,
    role_of("free"),
    role_of("shared"),
    Role.OWNER0,
    Role.OWNER0 + 5,
    Role.HEAT0 + 2,
    Role.BAD | HIGHLIGHT,
]
OPS = ["cells"] * 6 + ["list", "head", "wide", "side", "notice", "quiet", "dialog", "close", "hide", "resize"]
OPS += ["refresh", "redraw", "theme", "region"]


class Fuzz:
    def __init__(self, app: DemoApp, pilot: Pilot[None], seed: int) -> None:
        self.app, self.pilot = app, pilot
        self.random = random.Random(seed)
        self.width, self.height = SIZES[0]
        self.ours, self.stream = terminal(self.width, self.height)

    def _row(self, width: int) -> Row:
        pick = self.random.choices
        parts = pick([*GLYPHS, *SCRIPTS], k=width)
        roles = b"".join(bytes(pick(ROLES)) * len(part) for part in parts)
        return Row("".join(parts)[:width], roles[:width])

    async def do(self, op: str) -> None:
        app, random_ = self.app, self.random
        ground = app.screen_stack[0]
        if op == "cells":
            panel = app.panel("map")
            rows = list(panel.rows) or [self._row(90) for _ in range(20)]
            for _ in range(random_.randrange(1, 30)):
                y, x = random_.randrange(len(rows)), random_.randrange(90)
                text, roles = rows[y]
                new = random_.choice([*GLYPHS, *GLYPHS, *SCRIPTS])
                end = x + len(new)
                rows[y] = Row(
                    (text[:x] + new + text[end:])[: len(text)],
                    (roles[:x] + bytes([random_.choice(ROLES)]) * len(new) + roles[end:])[: len(text)],
                )
            panel.show(rows)
        elif op == "list":
            app.panel("list").show([self._row(random_.randrange(130)) for _ in range(random_.randrange(7))])
        elif op == "head":
            ground.query_one("#head", Label).update(f"[bold red]head[/] {random_.randrange(1000)} on [reverse]it[/]")
        elif op == "wide":
            ground.query_one("#head", Label).update("表示 " * random_.randrange(5) + f"é {random_.randrange(9)} 👍")
        elif op == "side":
            ground.query_one("#side", Static).update("s p " * random_.randrange(40))
        elif op == "notice":
            app.notify("notice " * random_.randrange(1, 9), timeout=60)
        elif op == "quiet":
            app.clear_notifications()
        elif op == "dialog" and len(app.screen_stack) < 3:
            await app.push_screen(Dialog())
        elif op == "close" and len(app.screen_stack) > 1:
            await app.pop_screen()
        elif op == "hide":
            ground.query_one("#side").toggle_class("hidden")
        elif op == "refresh":
            app.screen.refresh()
        elif op == "region":
            ground.query_one("#side").refresh(Region(random_.randrange(5), random_.randrange(9), 3, 2))
        elif op == "redraw":
            self.stream.feed("\x1b[5;5Hgarbage")
            app.redraw()
        elif op == "theme":
            app.theme = random_.choice(["ansi-dark", "ansi-light"])
        elif op == "resize":
            self.width, self.height = random_.choice(SIZES)
            self.draw()
            # A terminal may show anything after it changed size.
            self.ours, self.stream = terminal(self.width, self.height)
            self.stream.feed("\x1b[3;1Hleft over")
            await self.pilot.resize_terminal(self.width, self.height)

    def draw(self) -> None:
        self.stream.feed(driver_of(self.app).take())

    async def problems(self) -> list[str]:
        """How the terminal still differs once repaints on their way have had time to come."""
        for patience in range(40):
            await asyncio.sleep(0.025 if patience == 0 else 0.05)
            self.draw()
            found = self._problems()
            if not found:
                break
        return found

    def _problems(self) -> list[str]:
        app = self.app
        compositor = app.screen._compositor
        dirty = set(compositor._dirty_regions)
        update = compositor.render_update(full=True, screen_stack=app._background_screens)
        compositor._dirty_regions.update(dirty)
        assert isinstance(update, LayoutUpdate)
        for line in update.strips:
            for strip in line:
                _forget_colours(strip)
        theirs, stream = terminal(self.width, self.height)
        stream.feed(spell_out(whole(update.render_segments(app.console))))
        return differences(visible(self.ours), visible(theirs))


def _forget_colours(strip: Strip) -> None:
    """A style remembers its codes at the depth at which it was first rendered, here by another test's app."""
    strip._render_cache = None
    for segment in strip:
        if segment.style is not None:
            segment.style._ansi = None


@pytest.mark.parametrize(
    ("seed", "depth"),
    [(1, ColourDepth.TRUECOLOR), (2, ColourDepth.INDEXED), (3, ColourDepth.ANSI16), (4, ColourDepth.NONE)],
)
def test_the_terminal_shows_what_a_full_repaint_shows(seed: int, depth: ColourDepth) -> None:
    async def main() -> None:
        app = DemoApp(driver_class=CountingDriver, depth=depth)
        async with app.run_test(headless=False, size=SIZES[0], notifications=True) as pilot:
            fuzz = Fuzz(app, pilot, seed)
            for number in range(32):
                op = fuzz.random.choice(OPS)
                await fuzz.do(op)
                problems = await fuzz.problems()
                assert not problems, f"after step {number}, {op}"
            assert app.faults == 0
            assert app.stock_reason == ""

    asyncio.run(main())
