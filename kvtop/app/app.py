"""The screen: source -> state -> views -> panels, on one frame clock; and commands back to the engine."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.containers import Container
from textual.geometry import Size

from kvtop.app.commander import Client, Commander, control_client
from kvtop.app.dialogs import compact_form, pause_form, policy_form, request_form, reset_form
from kvtop.app.feed import Feed
from kvtop.errors import UserError
from kvtop.snapshot.files import write_snapshot
from kvtop.sources.base import Source
from kvtop.state import Changes, EngineState
from kvtop.term.depth import ColourDepth
from kvtop.term.environment import settle_gc
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.term.keys import Where, bindings
from kvtop.views.block_table import block_table_rows, header_rows, table_length
from kvtop.views.exposure import not_exposed
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.tiers import has_tiers, table_height
from panels.block_map import BlockMapPanel
from panels.capacity import CapacityPanel
from panels.dialogs.confirm_form import ConfirmForm
from panels.dialogs.form_screen import Form, FormScreen
from panels.dialogs.help_text import help_rows
from panels.dialogs.pager import Page, PagerScreen, whole_text
from panels.divider import DividerPanel
from panels.events import EventsPanel
from panels.footer import FooterPanel
from panels.header import HeaderPanel
from panels.layout import WIDE, plan, too_small
from panels.queue import QueuePanel
from panels.requests import RequestsPanel
from panels.tiers import TiersPanel
from panels.too_small import TooSmallPanel

DIALOG_FPS = 4.0
"""Behind a dialog the whole screen is composed anew for every change, so it moves slower."""


class KvtopApp(FrontBufferApp[int]):
    """The dashboard and its dialogs.

    Args:
        source: Where frames come from; started on mount, closed at the end.
        control_path: The engine's control socket; None where there is none.
        depth: Colours of the terminal; None asks the environment.
        ascii_only: No character beyond ASCII.
        snapshot_folder: Where ``s`` writes.
        state: Something known already (a picture of it is wanted); by default nothing is.
        connect: Makes the client that sends commands.
        now: The viewer's monotonic clock, seconds.
        ticking: Whether the frame clock runs by itself; else `tick` is called by hand.
    """

    CSS_PATH = "app.tcss"
    TITLE = "kvtop"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    BINDINGS = bindings(Where.APP)

    def __init__(
        self,
        source: Source,
        *,
        control_path: Path | None = None,
        depth: ColourDepth | None = None,
        ascii_only: bool = False,
        snapshot_folder: Path | None = None,
        state: EngineState | None = None,
        connect: Callable[[Path], Client] = control_client,
        now: Callable[[], float] = time.monotonic,
        ticking: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(depth=depth, **kwargs)
        self.glyphs = ASCII if ascii_only else UNICODE
        self.feed = Feed(source, state)
        self.commander = Commander(control_path, self._deliver, connect)
        self.snapshot_folder = snapshot_folder or Path.cwd()
        self._now, self._ticking = now, ticking
        self._fresh = Changes(full=True)
        self._arrived_events = 0
        self._settled = False
        self._terminal: Size | None = None
        self._last_focus = "requests"
        self._shape = (0, 3, 0)
        self._tiers_instead = False
        shown, glyphs = self.feed.shown, self.glyphs
        self.header, self.capacity = HeaderPanel(glyphs=glyphs), CapacityPanel(glyphs=glyphs)
        self.map, self.requests = BlockMapPanel(shown, glyphs=glyphs), RequestsPanel(shown, glyphs=glyphs)
        self.queue, self.event_log = QueuePanel(shown, glyphs=glyphs), EventsPanel(shown, glyphs=glyphs)
        self.tiers = TiersPanel(shown, glyphs=glyphs)
        self.footer, self.too_small = FooterPanel(glyphs=glyphs), TooSmallPanel(id="too-small")
        self.panels = {
            panel.id: panel
            for panel in (
                self.header,
                self.capacity,
                self.map,
                self.requests,
                self.queue,
                self.tiers,
                self.event_log,
                self.footer,
                DividerPanel(glyphs=glyphs),
            )
        }
        self.dashboard = Container(*self.panels.values(), self.too_small, id="dashboard")

    # --- building ---

    def compose(self) -> ComposeResult:
        yield self.dashboard

    def on_mount(self) -> None:
        self.feed.source.start()
        self.place()
        if self._ticking:
            self.start_clock(self._on_tick)

    async def on_unmount(self) -> None:
        self.feed.source.close()

    def _deliver(self, callback: Callable[[], None]) -> None:
        """Runs ``callback`` in the screen's thread; called from others. After the screen's end nobody wants it."""
        if self.is_running:
            self.call_later(callback)

    # --- placing ---

    def on_resize(self, event: events.Resize) -> None:
        # The app itself learns of its new size after this handler.
        self._terminal = event.size
        if self.dashboard.is_mounted:
            self.place()

    def place(self) -> None:
        """Gives every panel its part of the terminal."""
        width, height = self._terminal or self.size
        small = too_small(width, height)
        self.dashboard.set_class(not small, "fits")
        self.dashboard.set_class(width >= WIDE, "wide")
        if small:
            self.queue.display = self.tiers.display = False
            self.too_small.update(width, height)
            return
        areas = plan(
            width,
            height,
            self.map.wanted_rows,
            self._header_rows,
            tiers=table_height(self.feed.live),
            instead_of_queue=self._tiers_instead,
        )
        self.queue.display, self.tiers.display = "queue" in areas, "tiers" in areas
        for name, area in areas.items():
            panel = self.panels[name]
            panel.styles.offset = (area.x, area.y)
            panel.styles.width, panel.styles.height = area.width, area.height

    @property
    def _header_rows(self) -> int:
        hello, status = self.feed.live.hello, self.feed.live.status
        noted = (hello is not None and hello.notice) or (status is not None and status.warning)
        return 4 if noted else 3

    # --- the frame ---

    def _on_tick(self, now: float, text_due: bool) -> None:
        self.tick(text_due=text_due)
        if not self._settled and self.feed.live.seq is not None:
            self._settled = True
            self.call_later(settle_gc)

    def tick(self, text_due: bool = True) -> None:
        """Takes over what came and draws it: the map at once, numbers and tables when ``text_due``."""
        now = self._now()
        changes = self.feed.drain(now)
        self._arrived_events += len(changes.events)
        if not self.feed.held:
            self._fresh = changes if not self._fresh else self._fresh.merge(changes)
        if not self._dashboard_in_sight():
            if text_due and isinstance(self.screen, PagerScreen) and self.screen.live:
                self.screen.reload()
            return
        if self.focused is None and len(self.screen_stack) == 1:
            # What is hidden cannot keep the focus: it is lost while the terminal is too small.
            last = self.panels[self._last_focus]
            self.screen.set_focus(last if last.display else self.requests)
        if changes.full or changes.hello or changes.numbers:
            self._pool_may_have_changed()
        if text_due or changes.link:
            self._draw_texts(now)
        if not self.feed.held:
            fresh, self._fresh = self._fresh, Changes()
            if fresh or text_due or self.map.map.mode == "recency":
                self.map.update(fresh, now, texts=text_due)

    def _dashboard_in_sight(self) -> bool:
        """Not behind a screen that covers it, nor on a terminal that is too small."""
        covered = len(self.screen_stack) > 1 and not isinstance(self.screen, FormScreen)
        return not covered and self.dashboard.has_class("fits")

    def _pool_may_have_changed(self) -> None:
        blocks = self.feed.live.blocks
        shape = (blocks.total if blocks is not None else 0, self._header_rows, table_height(self.feed.live))
        if shape != self._shape:
            self._shape = shape
            self.place()

    def _draw_texts(self, now: float) -> None:
        state, feed = self.feed.shown, self.feed
        held = None if feed.held_since is None else now - feed.held_since
        self.header.update(state, now, held=held, warning=self.governor.label)
        self.capacity.update(state)
        self.requests.update(state, now)
        self.queue.update(state, now)
        self.tiers.update(state, now)
        arrived, self._arrived_events = self._arrived_events, 0
        self.event_log.update(state, 0 if feed.held else arrived)
        self._mark_selected()

    def _mark_selected(self) -> None:
        num = self.requests.view.selected
        row = self.feed.shown.request(num) if num is not None else None
        self.map.select(None if row is None else row.table or self.feed.shown.held_below(row.num))

    def _redraw_all(self) -> None:
        """Everything anew from what is shown now: after a hold, a release, a covering screen."""
        now = self._now()
        self._fresh = Changes()
        self.map.look_at(self.feed.shown, now)
        self._draw_texts(now)

    # --- what panels say ---

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        names = {
            "map": Where.MAP,
            "requests": Where.REQUESTS,
            "queue": Where.QUEUE,
            "events": Where.EVENTS,
            "tiers": Where.APP,
        }
        name = event.widget.id or ""
        if name in names:
            self._last_focus = name
            self.footer.update(names[name])

    def on_block_map_panel_owner_chosen(self, message: BlockMapPanel.OwnerChosen) -> None:
        self.requests.view.filter = ""
        self.requests.select(message.num)
        # At once: the next keys are meant for it.
        self.screen.set_focus(self.requests)

    def on_requests_panel_selected(self, _message: RequestsPanel.Selected) -> None:
        self._mark_selected()

    def on_requests_panel_wanted(self, message: RequestsPanel.Wanted) -> None:
        row = self.feed.shown.request(message.num)
        if row is None:
            self._say("that request is gone", "warning")
        elif message.what == "open":
            self._open_table(message.num)
        else:
            self._ask(request_form(message.what, self.feed.shown, row))

    def _open_table(self, num: int) -> None:
        def content(width: int, first: int, height: int) -> Page:
            state = self.feed.shown
            rows = block_table_rows(state, num, width, height, self._now(), self.glyphs, offset=first)
            return Page(rows, table_length(state, num), fixed=header_rows(state))

        title = "block table: logical to physical"
        self._cover(PagerScreen(title, content, close_keys=("enter",), live=True, glyphs=self.glyphs))

    # --- dialogs ---

    def _ask(self, form: ConfirmForm) -> None:
        """Opens a dialog, or says why that cannot be commanded."""
        hello, kind = self.feed.live.hello, getattr(form.command, "type", "")
        reason = self.commander.read_only()
        if reason is None and hello is not None and kind not in hello.commands:
            reason = f"this engine takes no command {kind}"
        if reason is not None:
            self._say(reason, "warning")
        else:
            self._open(form, height=14)

    def _open(self, form: Form, height: int) -> None:
        if self.clock is not None:
            self.clock.limit("dialog", DIALOG_FPS)
        screen = FormScreen(form, self.commander.ask, height=height, glyphs=self.glyphs)
        self.push_screen(screen, lambda _: self._uncovered())

    def _cover(self, screen: PagerScreen) -> None:
        self.push_screen(screen, lambda _: self._uncovered())

    def _uncovered(self) -> None:
        if self.clock is not None:
            self.clock.limit("dialog", None)
        if self.dashboard.has_class("fits"):
            self._redraw_all()

    def _say(self, text: str, severity: Any = "information") -> None:
        self.notify(text, severity=severity, markup=False, timeout=6)

    # --- keys ---

    def action_focus_panel(self, name: str) -> None:
        if name == "tiers" and not has_tiers(self.feed.live):
            self._say(self._one_tier(), "warning")
            return
        if name in ("queue", "tiers") and not self.panels[name].display:
            self._tiers_instead = name == "tiers"
            self.place()
        self.screen.set_focus(self.panels[name])

    def action_colour(self) -> None:
        self.map.action_colour()

    def action_next_tier(self) -> None:
        if self.map.next_tier():
            self.place()
        else:
            self._say(self._one_tier(), "warning")

    def _one_tier(self) -> str:
        state = self.feed.live
        return "all KV of this engine is on its device" if state.tier_spans() else not_exposed(state, "lower tiers")

    def action_filter(self) -> None:
        self.screen.set_focus(self.requests)
        self.requests.start_filter()

    def action_pause_view(self) -> None:
        if self.feed.held:
            self.feed.let_go()
        elif self.feed.live.seq is not None:
            self.feed.hold(self._now())
        self._redraw_all()

    def action_help(self) -> None:
        content = whole_text(lambda width: help_rows(width, self.feed.live.hello, self.glyphs))
        self._cover(PagerScreen("help", content, close_keys=("question_mark",), glyphs=self.glyphs))

    def action_policy(self) -> None:
        self._open(policy_form(self.feed.live, self.commander.read_only()), 20)

    def action_pause_engine(self) -> None:
        self._ask(pause_form(self.feed.live))

    def action_reset_cache(self) -> None:
        self._ask(reset_form(self.feed.live))

    def action_compact(self) -> None:
        self._ask(compact_form(self.feed.live))

    def action_redraw(self) -> None:
        self.redraw()

    def action_snapshot(self) -> None:
        svg = self.export_screenshot(title="kvtop")
        self.screen.refresh()
        try:
            written = write_snapshot(self.feed.shown, self.snapshot_folder, svg, self._now())
        except (UserError, ValueError, OSError) as error:
            self._say(f"no snapshot: {error}", "error")
        else:
            names = "\n".join(path.name for path in written)
            self._say(f"snapshot in {self.snapshot_folder}\n{names}")

    async def action_quit(self) -> None:
        self.exit(0)


def run(
    source: Source, control_path: Path | None = None, *, snapshot_folder: Path | None = None, ascii_only: bool = False
) -> int:
    """Shows ``source`` until the user leaves; the exit code."""
    app = KvtopApp(source, control_path=control_path, snapshot_folder=snapshot_folder, ascii_only=ascii_only)
    result = app.run()
    return app.return_code or (0 if result is None else result)
