"""Screens of recorded engines as text that can be compared and read: what stands in every cell, and how it looks.

A file has the characters, then each row's styles as runs (``a12b3``: twelve cells of style a, three of b), then what the
letters mean. ``python -m tests.record --screens`` writes them.
"""

import string
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest
from rich.segment import Segment

from tests.app.harness import bench
from tests.app.sources import HandFedSource
from tests.recording import RecordedEngine

FOLDER = Path(__file__).parent / "data" / "screens"
SIZES = ((80, 24), (200, 50))
ITERATIONS = 40
"""Seen before the picture is taken, so that rates have something to be taken from."""

SCREENS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dashboard": ("crowded", ()),
    "block-table": ("crowded", ("2", "g", "enter")),
    "help": ("crowded", ("question_mark",)),
    "policies": ("crowded", ("P",)),
    "tiers": ("tiers", ("5",)),
    "families": ("families", ("2", "g")),
}
"""By name: the recording, and what is pressed."""

NAMES = [f"{name}-{width}x{height}" for name in SCREENS for width, height in SIZES]
_LETTERS = string.ascii_letters


async def drawn(name: str) -> str:
    """The screen ``name`` as it is drawn now."""
    kind, _, size = name.rpartition("-")
    width, height = (int(part) for part in size.split("x"))
    scene, keys = SCREENS[kind]
    with tempfile.TemporaryDirectory() as folder, _in_utc():
        async with bench(Path(folder), size=(width, height), source=HandFedSource(RecordedEngine(scene))) as b:
            await b.iterate(ITERATIONS)
            await b.press(*keys)
            # What a key moves is placed by then, and drawn with the next tick.
            await b.tick()
            await b.tick(seconds=0.0)
            return as_text(b.app.screen._compositor.render_strips(b.app.size))


@contextmanager
def _in_utc() -> Iterator[None]:
    """Times of day are those of one place, wherever it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def as_text(lines: Iterable[Iterable[Segment]]) -> str:
    letters: dict[str, str] = {}
    texts, styles = [], []
    for line in lines:
        text, row = "", ""
        looks = [(segment.text, _look(segment)) for segment in line]
        for look, parts in groupby(looks, key=lambda part: part[1]):
            run = "".join(part for part, _ in parts)
            letter = letters.setdefault(look, _LETTERS[len(letters)])
            text, row = text + run, f"{row}{letter}{len(run)}"
        # A blank at the end of a line of a file is lost too easily.
        texts.append(f"{text}│")
        styles.append(row)
    meaning = [f"{letter}: {look}" for look, letter in letters.items()]
    return "\n".join([*texts, "", *styles, "", *meaning, ""])


def _look(segment: Segment) -> str:
    return str(segment.style) if segment.style else "plain"
