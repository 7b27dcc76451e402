"""An app that sends only the cells that differ from what the terminal already shows.

Textual repaints a dirty line from the widget's left edge, every segment with its own escape sequences; 64 changed
cells of a map cost it tens of kilobytes. Here its updates are put into a `CellBuffer`, and what differs is sent:
about a hundredth of the bytes, whatever widget asked for the repaint.

This is the one module that relies on Textual's private parts (`App._display`, the compositor's updates, the writer
thread). `selftest` checks them at start, and any surprise later falls back to Textual's own painting.
"""

import asyncio
import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from rich.console import Console, RenderableType
from rich.control import Control
from rich.terminal_theme import TerminalTheme
from textual import events
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.filter import LineFilter
from textual.geometry import Region
from textual.screen import Screen
from textual.theme import Theme as TextualTheme
from textual.widget import Widget

from kvtop.term import clipboard, selftest
from kvtop.term.absorb import absorb
from kvtop.term.cell_buffer import CellBuffer
from kvtop.term.contrast import SIXTEEN
from kvtop.term.depth import ColourDepth, detect
from kvtop.term.driver import TerminalDriver
from kvtop.term.frame_clock import FrameClock
from kvtop.term.governor import BACKLOG_LIMIT, Governor
from kvtop.term.look_table import LookTable, TableFull
from kvtop.term.palette import Palette
from kvtop.term.paper import Paper, told
from kvtop.term.paste import PaperTold
from kvtop.term.strip import cells_of
from kvtop.term.theme import AUTO, Theme
from kvtop.term.without_colour import WithoutColour
from kvtop.views.clusters import spell, whole
from kvtop.views.rows import Row

SYNC_START: Final = "\x1b[?2026h"
SYNC_END: Final = "\x1b[?2026l"

HEAL_EVERY: Final = 0.25
"""Seconds between two pieces sent again in case something else wrote to the terminal; only while frames are drawn."""

HEAL_CELLS: Final = 32
"""Cells in such a piece: about 30 bytes a frame at 20 frames/s, and a 200x50 screen is healed in a minute and a half."""

DRAIN_POLL: Final = 0.05
"""Seconds between looks at whether a terminal that was behind can take a frame again."""

FAULTS_MOST: Final = 3
"""Falls back to Textual's painting for good after as many faults."""

BLURRED_FPS: Final = 5.0
"""A terminal without the focus may well be in sight, next to the one that has it."""

Result = TypeVar("Result")


class FrontBufferApp(App[Result], Generic[Result]):
    """A Textual app with a palette for its terminal, a front buffer, a governor and a frame clock.

    Args:
        depth: Colours of the terminal; None asks the environment (see `kvtop.term.depth.detect`).
        look: For which paper the colours are; None in it asks the environment (see `kvtop.term.paper`), then the terminal.
        ascii_only: Nothing beyond ASCII is sent; what Textual draws is sent as the nearest.
        kwargs: As for `textual.app.App`.

    Attributes:
        depth: Colours of the terminal.
        palette: How roles look; for panels. Another one when the terminal tells what paper it has.
        asks_paper: Whether the terminal is asked for it.
        governor: The frame rate and the reason for it.
        faults: How often painting fell back to Textual's own.
        stock_reason: Why Textual's own painting is used throughout; empty when it is not.
    """

    def __init__(
        self,
        *,
        depth: ColourDepth | None = None,
        look: Theme = AUTO,
        ascii_only: bool = False,
        **kwargs: Any,
    ) -> None:
        self.ascii_only = ascii_only
        self.depth = detect(os.environ, sys.stdout.isatty()) if depth is None else depth
        self.palette = Palette(self.depth, told(os.environ) if look.paper is None else look.paper, look.strong)
        # A Linux console of old writes the question on the screen.
        console = os.environ.get("TERM", "").startswith(("linux", "vt"))
        self.asks_paper = look.paper is None and self.depth is not ColourDepth.NONE and not console
        self.governor = Governor()
        self.faults = 0
        self.stock_reason = ""
        self._clock: FrameClock | None = None
        self._buffer: CellBuffer | None = None
        self._suspended = False
        self._repaint_due = False
        self._drain_armed = self._painted = False
        self._visible: object = None
        self._places: dict[Widget, Region | None] = {}
        self._healed_at = time.monotonic()
        self._heal_at = 0
        # The terminal's own sixteen colours and paper for what Textual draws: short sequences, readable on light paper,
        # and the one kind of theme in which colour can be left out altogether. It has to be known before Textual picks
        # its filters; a theme set later is filtered to greys, or to black on black.
        kwargs.setdefault("driver_class", TerminalDriver)
        super().__init__(ansi_color=True, **kwargs)
        self.stock_reason = selftest.problem_of(self)
        self.theme = _theme(self.palette.paper)
        self.no_color = self.depth is ColourDepth.NONE
        self.console = _console(self.console, self.depth)

    # What the rest of kvtop calls

    def start_clock(self, on_tick: Callable[[float, bool], None]) -> FrameClock:
        """Starts the frame clock (see `FrameClock`), slowed while unfocused and stopped while suspended."""
        self._clock = FrameClock(
            on_tick, governor=self.governor, backlog=self.writer_backlog, on_error=self._handle_exception
        )
        self._clock.start()
        return self._clock

    @property
    def clock(self) -> FrameClock | None:
        """The frame clock, once started."""
        return self._clock

    def writer_backlog(self) -> int:
        """Frames that wait for the terminal, one that is held back included."""
        return self._queued() + bool(self._repaint_due)

    def redraw(self) -> None:
        """Sends the whole screen again, for when something else has written on it."""
        if self._buffer is not None and not self.stock_reason:
            self._buffer.distrust()
            self._send()
        elif self.screen_stack:
            self.screen.refresh()

    @property
    def failure(self) -> Exception | None:
        """The fault that ended the app, if one did."""
        return self._exception

    def action_suspend_process(self) -> None:
        """Back to the shell until ``fg``."""
        if isinstance(self._driver, TerminalDriver) and not self._driver.suspend_process():
            self.notify("there is no shell here to go back to", severity="warning", markup=False)

    def copy(self, lines: Sequence[str]) -> tuple[bool, str]:
        """Gives ``lines``, in cells or from outside, to the terminal's clipboard: whether it was sent, and what came of it in
        words."""
        text = clipboard.spelled(lines)
        kept = clipboard.fitting(text)
        reason = clipboard.why_not(os.environ)
        if reason is None and (self._suspended or self._queued() >= BACKLOG_LIMIT or self._driver is None):
            reason = "the terminal does not keep up"
        if reason is None and not any(kept):
            reason = "it is too long" if any(text) else "there is nothing to be copied"
        if reason is not None or self._driver is None:
            return False, f"not copied: {reason}"
        self._driver.write(clipboard.sequence("\n".join(kept)))
        self._driver.flush()
        part = f", the first {len(kept)} of {len(text)} lines" if len(kept) < len(text) else ""
        condition = clipboard.condition(os.environ)
        return True, f"sent to the clipboard{part}" + (f", {condition}" if condition else "")

    def paint(self, widget: Widget, lines: Sequence[int], rows: Sequence[Row]) -> bool:
        """Puts ``rows`` on these lines of a widget, without Textual's compositor, which would ask every widget for all of
        its lines. False where that cannot be: the widget is covered, its place about to change, or Textual paints itself.
        """
        place = self._place_of(widget)
        buffer = self._buffer
        if place is None or buffer is None:
            return False
        for y, cells in zip(lines, cells_of(rows, place.width, self.palette), strict=True):
            buffer.put(place.y + y, place.x, cells)
        if not self._painted:
            # Once for all that is painted in this turn of the loop.
            self._painted = True
            asyncio.get_running_loop().call_soon(self._send_painted)
        return True

    def _place_of(self, widget: Widget) -> Region | None:
        if self.stock_reason or self._batch_count or not self.screen_stack or not self._paints():
            return None
        screen, buffer = self.screen, self._buffer
        if buffer is None or widget.screen is not screen or screen._layout_required:
            return None
        if (buffer.width, buffer.height) != screen.outer_size or buffer.table.palette is not self.palette:
            return None
        visible = screen._compositor.visible_widgets
        if visible is not self._visible:
            # Made anew with every layout.
            self._visible, self._places = visible, {}
        if widget not in self._places:
            self._places[widget] = _uncovered(widget, visible)
        return self._places[widget]

    def _send_painted(self) -> None:
        self._painted = False
        if not self._paints() or not self.screen_stack:
            return
        try:
            self._heal()
            self._send()
        except Exception as error:
            self._fault(error)
        self.post_display_hook()

    def picture(self, title: str) -> Callable[[], str]:
        """The screen as it is now. What is returned makes an SVG of it, in any thread: that takes longer than a frame."""
        width, height = self.size
        theme = _picture_theme(self.palette.paper)
        update = self.screen._compositor.render_update(full=True, screen_stack=self._background_screens)
        # Asking for all of it has told Textual that nothing is left to paint.
        self.screen.refresh()

        def svg() -> str:
            console = Console(
                width=width,
                height=height,
                file=io.StringIO(),
                force_terminal=True,
                color_system="truecolor",
                record=True,
                legacy_windows=False,
                safe_box=False,
            )
            console.print(update)
            return spell(whole(console.export_svg(title=title, theme=theme)))

        return svg

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [WithoutColour()] if self.depth is ColourDepth.NONE else []

    # What Textual calls

    def _fatal_error(self) -> None:
        # Textual would print a traceback of several screens; who ran the app says it in a line (see `failure`).
        self._close_messages_no_wait()

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is None or self._batch_count or not self._paints():
            super()._display(screen, renderable)
            return
        if self.stock_reason or not isinstance(renderable, ChopsUpdate | LayoutUpdate):
            self._display_stock(screen, renderable)
            return
        try:
            self._absorb(renderable)
            self._heal()
            self._send()
        except Exception as error:
            self._fault(error)
            self._display_stock(screen, renderable)
            return
        self.post_display_hook()

    def on_mount(self) -> None:
        self.app_suspend_signal.subscribe(self, self._suspend, immediate=True)
        self.app_resume_signal.subscribe(self, self._resume, immediate=True)
        self.theme_changed_signal.subscribe(self, self._repaint_theme)

    def on_resize(self, event: events.Resize) -> None:
        # Even when it is back at the same size, for which Textual repaints nothing: the terminal may have wrapped, cut
        # or cleared what it showed. At another size the buffer is made anew with the next update.
        if self._buffer is not None:
            self._buffer.distrust()
            self.call_later(self._send)

    def on_app_blur(self, event: events.AppBlur) -> None:
        if self._clock is not None:
            self._clock.limit("blurred", BLURRED_FPS)

    def on_app_focus(self, event: events.AppFocus) -> None:
        if self._clock is not None:
            self._clock.limit("blurred", None)

    def on_paper_told(self, message: PaperTold) -> None:
        if message.paper is not self.palette.paper:
            self.palette = Palette(self.depth, message.paper, self.palette.strong)
            self.theme = _theme(message.paper)
            for screen in self.screen_stack:
                screen.refresh(layout=True)

    async def on_unmount(self) -> None:
        if self._clock is not None:
            await self._clock.stop()

    # Painting

    def _paints(self) -> bool:
        """Whether Textual would write to a terminal now, at fixed places of it."""
        driver = self._driver
        return (
            driver is not None and not driver.is_inline and self._running and not self._closed and not self.is_headless
        )

    def _absorb(self, update: ChopsUpdate | LayoutUpdate) -> None:
        try:
            absorb(self._sized_buffer(), update)
        except TableFull:
            # Thousands of looks on, most of them long gone. Numbers start again, and so does the screen.
            self._buffer = None
            self.call_later(self.screen.refresh)
            absorb(self._sized_buffer(), update)

    def _sized_buffer(self) -> CellBuffer:
        width, height = self.screen.outer_size
        buffer = self._buffer
        if buffer is None or (buffer.width, buffer.height) != (width, height):
            table = LookTable(self.palette) if buffer is None else buffer.table
            self._buffer = buffer = CellBuffer(width, height, table)
        if buffer.table.palette is not self.palette:
            self._buffer = buffer = CellBuffer(width, height, LookTable(self.palette))
        return buffer

    def _send(self) -> None:
        """Writes what differs as one piece, or leaves it for later while the terminal is behind."""
        buffer, driver = self._buffer, self._driver
        if buffer is None or driver is None or not self._paints() or self._hold_back():
            return
        text = buffer.flush()
        cursor = self.screen.outer_size.clamp_offset(self.cursor_position)
        if text or cursor != self._previous_cursor_position:
            text += Control.move_to(*cursor).segment.text
            self._previous_cursor_position = cursor
            driver.write(SYNC_START + text + SYNC_END if self._sync_available else text)
            driver.flush()

    def _heal(self) -> None:
        now = time.monotonic()
        buffer = self._buffer
        if buffer is None or now - self._healed_at < HEAL_EVERY:
            return
        self._healed_at = now
        pieces = -(-buffer.width // HEAL_CELLS)
        y, piece = divmod(self._heal_at % (pieces * buffer.height), pieces)
        buffer.distrust(y, piece * HEAL_CELLS, HEAL_CELLS)
        self._heal_at += 1

    # A terminal that does not keep up

    def _queued(self) -> int:
        """Writes that the terminal has not taken yet. Textual's queue holds 30 and then blocks the event loop."""
        writer = getattr(self._driver, "_writer_thread", None)
        return 0 if writer is None else int(writer._queue.qsize())

    def _hold_back(self) -> bool:
        if self._suspended or self._queued() >= BACKLOG_LIMIT:
            self._repaint_due = True
            if not self._drain_armed and not self._suspended:
                self._drain_armed = True
                self.set_timer(DRAIN_POLL, self._drain)
            return True
        self._repaint_due = False
        return False

    def _drain(self) -> None:
        self._drain_armed = False
        if not self._repaint_due or self._hold_back():
            return
        if self._buffer is None or self.stock_reason:
            self.screen.refresh()
        else:
            self._send()

    # Painting as Textual does it

    def _display_stock(self, screen: Screen[Any], renderable: RenderableType) -> None:
        if self._buffer is not None:
            self._buffer.forget()
        if self._hold_back():
            self.post_display_hook()
        else:
            super()._display(screen, renderable)

    def _fault(self, error: Exception) -> None:
        self.faults += 1
        self.log.error(f"front buffer: {error!r}")
        if self.faults >= FAULTS_MOST:
            self.stock_reason = f"{type(error).__name__} while painting"
        self._buffer = None
        self.call_later(self.screen.refresh)

    # Changes of the whole screen

    def _suspend(self, _: App[Any]) -> None:
        self._suspended = True
        if self._clock is not None:
            self._clock.limit("suspended", 0)

    def _resume(self, _: App[Any]) -> None:
        self._suspended = False
        if self._clock is not None:
            self._clock.limit("suspended", None)
        self.redraw()

    def _repaint_theme(self, _: TextualTheme) -> None:
        if self._buffer is not None:
            self._buffer.distrust()


def _uncovered(widget: Widget, visible: Mapping[Widget, tuple[Region, Region]]) -> Region | None:
    """Where ``widget`` is, if all of it is to be seen."""
    if widget not in visible:
        return None
    region, clip = visible[widget]
    around = {widget, *widget.ancestors}
    covered = any(other.overlaps(region) for above, (other, _) in visible.items() if above not in around)
    return None if covered or not clip.contains_region(region) else region


def _theme(paper: Paper) -> str:
    """Textual's own colours for what it draws."""
    return f"ansi-{paper.value}"


def _picture_theme(paper: Paper) -> TerminalTheme:
    """The sixteen colours as xterm has them, on black or white."""
    sixteen = [(colour >> 16, colour >> 8 & 0xFF, colour & 0xFF) for colour in SIXTEEN[-1]]
    ground, ink = ((18,) * 3, (208,) * 3) if paper is Paper.DARK else ((255,) * 3, (0,) * 3)
    return TerminalTheme(ground, ink, sixteen[:8], sixteen[8:])


def _console(like: Console, depth: ColourDepth) -> Console:
    """Textual's console at our colour depth, for what Textual paints itself."""
    system = {ColourDepth.TRUECOLOR: "truecolor", ColourDepth.INDEXED: "256"}.get(depth, "standard")
    return Console(
        color_system=system,  # type: ignore[arg-type]
        file=like.file,
        markup=True,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        force_terminal=True,
        safe_box=False,
        soft_wrap=False,
        _environ={},
    )
