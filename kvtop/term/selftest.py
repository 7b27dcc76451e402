"""Whether the parts of Textual that the front buffer relies on are as it knows them.

They are private and may change with any release. The check takes a few milliseconds, once a process: names first, then
one full and one partial update painted both ways and compared cell by cell.
"""

import inspect
from functools import cache
from io import StringIO
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.drivers._writer_thread import WriterThread
from textual.geometry import Region
from textual.strip import Strip

from kvtop.term.absorb import absorb
from kvtop.term.cell_buffer import CellBuffer
from kvtop.term.depth import ColourDepth
from kvtop.term.look_table import LookTable
from kvtop.term.palette import Palette
from kvtop.term.replay import Replay
from kvtop.term.strip import CellStrip

_NAMES: tuple[tuple[object, tuple[str, ...]], ...] = (
    (App, ("_display", "_handle_exception", "post_display_hook")),
    (Strip, ("_segments", "_render_cache", "render", "divide", "crop")),
    (LayoutUpdate(strips=[], region=Region()), ("strips", "region")),
    (ChopsUpdate([], [], []), ("chops", "spans", "chop_ends")),
    (WriterThread(StringIO()), ("_queue",)),
)
_APP_STATE = ("_running", "_closed", "_batch_count", "_driver", "_sync_available", "_previous_cursor_position")


@cache
def problem() -> str:
    """Why the front buffer must not be used with this Textual; empty if all is well."""
    try:
        return _names() or _painting()
    except Exception as error:
        return f"the check failed with {type(error).__name__}"


def problem_of(app: App[Any]) -> str:
    """As `problem`, with the state that an app has only once it is made."""
    missing = [name for name in _APP_STATE if not hasattr(app, name)]
    return f"Textual's App has no {missing[0]}" if missing else problem()


def _names() -> str:
    for owner, names in _NAMES:
        for name in names:
            if not hasattr(owner, name):
                return f"Textual's {getattr(owner, '__name__', type(owner).__name__)} has no {name}"
    if list(inspect.signature(App._display).parameters) != ["self", "screen", "renderable"]:
        return "Textual's App._display takes other arguments"
    return ""


def _painting() -> str:
    """One full and one partial update of a small screen."""
    width, height = 12, 3
    palette = Palette(ColourDepth.INDEXED)
    console = Console(color_system="256", force_terminal=True, file=StringIO(), _environ={})
    buffer = CellBuffer(width, height, LookTable(palette))
    ours, theirs = Replay(width, height), Replay(width, height)

    def styled(text: str, style: str) -> Strip:
        return Strip([Segment(text, Style.parse(style)), Segment("=")], len(text) + 1)

    def cells(text: str) -> Strip:
        return CellStrip(text, bytes(32 + i for i in range(len(text))), palette)

    def same(update: CompositorUpdate) -> bool:
        assert isinstance(update, ChopsUpdate | LayoutUpdate)
        absorb(buffer, update)
        ours.feed(buffer.flush())
        theirs.feed(update.render_segments(console))
        return ours.shown() == theirs.shown()

    full = LayoutUpdate(
        [[cells("abcdef"), styled(f"{y}rest", "bold red on blue")] for y in range(height)],
        Region(0, 0, width, height),
    )
    chops: list[dict[int, Strip | None]] = [
        {0: None, 6: None},
        {0: cells("aXcdeY"), 6: styled("1east", "bold red on blue")},
        {0: cells("abZdef"), 6: None},
    ]
    partial = ChopsUpdate(chops, [(1, 0, width), (2, 0, 6)], [[6, width]] * height)
    return "" if same(full) and same(partial) else "Textual's updates paint something else than they did"
