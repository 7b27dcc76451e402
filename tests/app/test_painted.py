"""Dialogs, filter, help and the list of actions through the front buffer: the terminal shows what a full repaint would."""

from pathlib import Path

import pytest

from kvtop.term.depth import ColourDepth
from tests.app.harness import bench, in_loop
from tests.term.driver import CountingDriver
from tests.term.test_equivalence import SIZES, Fuzz

STEPS = (
    *(
        "slash",
        "c",
        "h",
        "backspace",
        "enter",
        "j",
        "x",
        "tab",
        "tab",
        "enter",
        "P",
        "j",
        "G",
        "enter",
        "j",
        "enter",
        "tab",
    ),
    *(
        "enter",
        "enter",
        "q",
        "question_mark",
        "space",
        "j",
        "G",
        "q",
        "colon",
        "c",
        "o",
        "escape",
        "escape",
        "z",
        "E",
        "q",
    ),
)


@pytest.mark.parametrize("depth", [ColourDepth.INDEXED, ColourDepth.NONE])
def test_the_terminal_shows_what_a_full_repaint_shows(depth: ColourDepth, tmp_path: Path) -> None:
    @in_loop
    async def run() -> None:
        async with bench(tmp_path, size=SIZES[0], headless=False, driver_class=CountingDriver, depth=depth) as b:
            judge = Fuzz(b.app, b.pilot, 1)  # type: ignore[arg-type]
            b.app.redraw()
            for number, key in enumerate(STEPS):
                await b.press(key)
                await b.tick()
                assert await judge.problems() == [], f"after {STEPS[: number + 1]}"
            assert b.app.faults == 0
            assert b.app.stock_reason == ""

    run()
