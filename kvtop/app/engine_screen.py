"""The screen of one engine, live or replayed: its feed drawn by the panels, its keys, its dialogs, commands back."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from textual import events
from textual.app import ComposeResult
from textual.dom import DOMNode
from textual.geometry import Size
from textual.screen import Screen

from kvtop.alarms import Change, Victim
from kvtop.app.commander import Commander
from kvtop.app.dashboard import AnyPanel, Dashboard
from kvtop.app.dialogs import compact_form, pause_form, policy_form, request_form, reset_form
from kvtop.app.feed import Feed
from kvtop.app.keymap import DEFAULT, Keymap, shown
from kvtop.app.keys import COLOURS, EVERYWHERE_NAME, SCREEN_ACTIONS
from kvtop.app.notes import Notes
from kvtop.app.pages import numbers_page, request_page
from kvtop.app.snapshots import SnapshotWriter
from kvtop.app.time_keys import TIME, TimeKeys
from kvtop.app.time_travel import CannotGo, TimeTravel
from kvtop.protocol import Command
from kvtop.record.preempted import Preempted
from kvtop.sources.replay import ReplaySource
from kvtop.state import Changes, EngineState
from kvtop.state.freeze import frozen
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.term.keys import Action, bindings
from kvtop.views.answer import Answer
from kvtop.views.columns import NAMES
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.numbers import HEADER
from kvtop.views.request_filter import EVERYTHING
from kvtop.views.rows import Row, clean
from kvtop.views.tiers import no_lower_tiers
from panels.block_map import BlockMapPanel
from panels.dialogs.alarms_screen import ALARMS, AlarmsScreen
from panels.dialogs.columns_form import ColumnsForm
from panels.dialogs.columns_screen import ColumnsScreen
from panels.dialogs.confirm_form import ConfirmForm, unreachable
from panels.dialogs.confirm_screen import ConfirmScreen
from panels.dialogs.dialog import Dialog
from panels.dialogs.help_screen import HelpScreen
from panels.dialogs.help_text import help_rows
from panels.dialogs.moment_screen import MomentScreen
from panels.dialogs.pager import PAGER, Content, PagerScreen, TextScreen
from panels.dialogs.policy_screen import PolicyScreen
from panels.dialogs.preempted_screen import PREEMPTED, PreemptedScreen
from panels.header import HeaderPanel
from panels.latency import LatencyPanel
from panels.panel import Hint, LeaveFull, Panel, Tick, TitledPanel
from panels.requests import RequestsPanel
from panels.tiers import TiersPanel

DIALOG_FPS = 4.0
"""Behind a dialog the whole screen is composed anew for every change, so it moves slower."""

LIVE_FPS = 30.0
"""Frames a second asked of the engine: twice the screen's, so that none waits long for its turn."""

STILL_FPS = 1.0
"""The same while nobody sees them: taking them over is all that such a viewer costs."""

QUIET_AFTER_S = 2.0
"""Seconds without any frame after which an engine counts as silent."""

QUIET_TEXT_S = 1.0
"""Seconds between two looks at texts of which nothing was told: ages and waits go on."""


Alert = Callable[[EngineState, list[Change]], None]
"""Takes the state in which alarms began or ended."""


class EngineScreen(TimeKeys, Screen[None]):
    """The dashboard of one engine and its dialogs. Whoever owns the clock calls `tick`.

    Args:
        feed: Where frames come from and the state they make; its source is started on mount and closed at the end.
        commander: What sends commands to that engine.
        glyphs: The characters there are.
        snapshot_folder: Where ``s`` writes; the current folder by default.
        now: The viewer's monotonic clock, seconds.
        keymap: What the keys are; the app that shows the screen has set it.
        columns: Of the requests table, in their order, as `kvtop.views.columns.choose` gives them; all by default.
        alert: Told of alarms that begin and end in a live engine.
        level: What goodput is counted against, seconds by name.
    """

    BINDINGS = bindings(SCREEN_ACTIONS, EVERYWHERE_NAME)

    def __init__(
        self,
        feed: Feed,
        commander: Commander,
        *,
        glyphs: Glyphs = UNICODE,
        snapshot_folder: Path | None = None,
        now: Callable[[], float] = time.monotonic,
        keymap: Keymap = DEFAULT,
        columns: tuple[str, ...] = NAMES,
        alert: Alert | None = None,
        level: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.alert = alert
        self.keymap = keymap
        self.feed, self.commander, self.glyphs = feed, commander, glyphs
        self.snapshot_folder = Path() if snapshot_folder is None else snapshot_folder
        self.snapshots = SnapshotWriter()
        self._now = now
        self._fresh = Changes(full=True)
        self._arrived_events = 0
        self._news, self._texts_drawn = False, float("-inf")
        self._warned = ""
        self._heard = now()
        self._last_focus = self._overview_focus = RequestsPanel.ID
        self._asked_for = ""
        """The panel whose digit was pressed, as long as it has the focus: its digit again fills the screen with it."""
        self._dialog: Dialog | None = None
        self._run = feed.shown.run
        self.dashboard = Dashboard(feed.shown, keymap, glyphs)
        self.panels, self.footer = self.dashboard.panels, self.dashboard.footer
        self.travel = TimeTravel(feed, now)
        self._notes = Notes(self.footer, now)
        self.map, self.requests = self.panel(BlockMapPanel), self.panel(RequestsPanel)
        self.requests.view.columns = columns
        self.panel(LatencyPanel).level = dict(level)

    def panel(self, kind: type[AnyPanel]) -> AnyPanel:
        """The panel of that kind."""
        return self.dashboard.panel(kind)

    @property
    def _app(self) -> FrontBufferApp[Any]:
        return cast("FrontBufferApp[Any]", self.app)

    # --- building ---

    def compose(self) -> ComposeResult:
        yield self.dashboard

    def on_mount(self) -> None:
        self.feed.source.start()
        self.place(self.app.size)

    def on_screen_resume(self) -> None:
        """In sight again: whatever covered it saw the engine go on, and maybe the terminal change its size."""
        self.app.clear_notifications()  # of what covered it; here they would hide rows
        self.place(self.app.size)
        if self._in_sight():
            self._redraw_all()

    async def on_unmount(self) -> None:
        self.feed.source.close()

    def place(self, size: Size) -> None:
        """Gives every panel its part of a terminal of ``size``."""
        self.dashboard.place(size)

    # --- the frame ---

    def tick(self, text_due: bool = True) -> None:
        """Takes over what came and draws it: the map at once, numbers and tables when ``text_due``."""
        now = self._now()
        changes = self.feed.drain(now)
        if changes:
            self._heard = now
        self.feed.pace(STILL_FPS if self.still else LIVE_FPS)
        self._alarmed(self.feed.take_alarms())
        self._arrived_events += len(changes.events)
        if self._dialog is not None and (text_due or changes.link or changes.hello or changes.full):
            self._dialog.follow(self.feed.live)
        if not self._in_sight():
            # Whatever uncovers it draws everything anew; what happens until then, maybe for a night, is not gathered.
            self._fresh = Changes(full=True)
            top = self.app.screen
            if text_due and isinstance(top, TextScreen) and top.live:
                top.reload()
            return
        # Of what happens while the view is held, maybe for a night, only which blocks changed is gathered.
        missed = Changes(full=changes.full or changes.hello, blocks=changes.blocks) if self.feed.held else changes
        self._fresh = Changes.together([self._fresh, missed])
        if self.feed.held and 4 * len(self._fresh.blocks) > self.dashboard.blocks:
            self._fresh = Changes(full=True)
        if self.focused is None and self.app.screen is self:
            # What is hidden cannot keep the focus: it is lost while the terminal is too small.
            last = self.panels[self._last_focus]
            self.set_focus(last if last.display else self.requests)
        if changes.full or changes.hello or changes.numbers:
            self.dashboard.follow(self.feed.live)
        self._news = self._news or bool(changes)
        self._draw(now, texts=(text_due and self._texts_differ(now)) or changes.link)

    @property
    def still(self) -> bool:
        """Nothing that comes would be seen: the view is held, or something covers it that does not show the engine."""
        if self.feed.held:
            return True
        top = self.app.screen
        return not self._in_sight() and not (isinstance(top, TextScreen) and top.live)

    @property
    def quiet(self) -> bool:
        """Nothing has come for a while."""
        return self._now() - self._heard > QUIET_AFTER_S

    def _alarmed(self, changes: list[Change]) -> None:
        """Alarms began or ended; whoever wants to be told is, whatever the screen shows just now. What a recording holds is
        over."""
        if changes and self.alert is not None and self.feed.replay is None:
            self.alert(self.feed.live, changes)

    def _follow_alarms(self) -> None:
        """The header has those of the moment that is shown, and a row more while one fires."""
        header = self.panel(HeaderPanel)
        fired = bool(header.alarms.firing)
        header.alarms = self.feed.alarms
        if fired != bool(header.alarms.firing):
            self.dashboard.follow(self.feed.live)

    def _shown_now(self) -> float:
        """What ages and waits go by: the viewer's clock, or the recording's."""
        return self.feed.time(self._now())

    def _texts_differ(self, now: float) -> bool:
        """Whether something was told since texts were drawn; else they differ by the seconds they count, at most."""
        told = (self._news and not self.feed.held) or self._warned != self._app.governor.label
        return told or not 0 <= now - self._texts_drawn < QUIET_TEXT_S

    def _in_sight(self) -> bool:
        """Not behind a screen that covers it, nor on a terminal that is too small."""
        uncovered = [screen for screen in self.app.screen_stack if not isinstance(screen, Dialog)]
        return uncovered[-1:] == [self] and self.dashboard.fits

    def _draw(self, now: float, texts: bool, anew: bool = False, turned: bool = False) -> None:
        """Tells the panels what there is to see: those of the map's rate always, the others when texts are due.

        While the view is held the former stand still, unless everything is to be drawn ``anew``, or the view has just
        ``turned`` to another moment, of which only what has changed since is looked at.
        """
        held = None if self.feed.held_since is None else now - self.feed.held_since
        moving = held is None or anew or turned
        fresh = Changes(full=True) if anew else self._fresh
        if held is None or turned:
            self._fresh = Changes()
        self._follow_run()
        self._follow_alarms()
        self._notes.expire(now)
        arrived = 0 if held else self._arrived_events
        tick = Tick(self.feed.shown, self.feed.time(now), fresh, texts, arrived, held, self._app.governor.label)
        # Where time stands still, held or without an engine, only how long it has does not.
        counting = not anew and not turned and (held is not None or (not self._news and not self.feed.live.link.up))
        self.dashboard.take(tick, moving=moving, counting=counting)
        if texts:
            self._news, self._texts_drawn, self._warned = False, now, self._app.governor.label
            self._arrived_events = 0
            self._mark_selected()

    def _follow_run(self) -> None:
        """Nothing that was chosen in one life of the engine stays chosen in the next, where its number is another's."""
        run = self.feed.shown.run
        if run != self._run:
            self._run = run
            self.dashboard.begin_run()

    def _mark_selected(self) -> None:
        num = self.requests.view.selected
        row = self.feed.shown.request(num) if num is not None else None
        if row is None:
            self.map.select(None)
        else:
            self.map.select(row.table or self.feed.shown.held_below(row.num), row.name)

    def _redraw_all(self) -> None:
        """Everything anew from what is shown now: after a hold, a release, a covering screen."""
        self._draw(self._now(), texts=True, anew=True)

    # --- what panels say ---

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, TitledPanel):
            self._last_focus = event.widget.ID
            if self._asked_for != event.widget.ID:
                self._asked_for = ""
            self._notes.focus_moved()
            self._name_keys()

    def _name_keys(self) -> None:
        """The footer has the keys of what one is at: while the past is shown those of time, else those of the panel."""
        if self.feed.past:
            names = {action.name for action in TIME if action.footer}
            keys = [action for action in self.keymap.actions(EVERYWHERE_NAME) if action.name in names]
            words = {action.name: action.footer for action in TIME}
            self.footer.update([replace(action, footer=words[action.name]) for action in keys])
        else:
            self.footer.update(self.keymap.actions(self.panels[self._last_focus].NAME))

    def on_block_map_panel_owner_chosen(self, message: BlockMapPanel.OwnerChosen) -> None:
        self.requests.view.filter = EVERYTHING
        self.requests.select(message.num)
        # At once: the next keys are meant for it.
        self._go_to(self.requests)

    def on_block_map_panel_follow_wanted(self, message: BlockMapPanel.FollowWanted) -> None:
        self.requests.select(message.num)
        self._mark_selected()

    def on_requests_panel_selected(self, _message: RequestsPanel.Selected) -> None:
        self._mark_selected()

    def on_leave_full(self, _message: LeaveFull) -> None:
        self.action_overview()

    def on_hint(self, message: Hint) -> None:
        self.hint(message.text)

    def on_key(self, event: events.Key) -> None:
        self._notes.key_pressed()  # before the key does what it is bound to
        if event.key in self.active_bindings:
            return
        if event.key == "escape" and self.dashboard.full:
            self.action_overview()
        else:
            self.hint(
                f"{shown(event.key)} does nothing here; {self.keymap.key(EVERYWHERE_NAME, 'help')} shows what keys do"
            )

    def hint(self, text: str) -> None:
        """Says in the footer why a key did nothing; empty: the keys again."""
        self.note(text, hint=True)

    def note(self, text: str, severity: str = "warning", *, hint: bool = False) -> None:
        """Says in the footer, for some seconds, what has happened."""
        self._notes.say(text, severity, hint=hint)

    @property
    def takes_notes(self) -> bool:
        """Whether the footer is seen: else notes are shown in a corner of what covers it."""
        return self._in_sight()

    def on_requests_panel_wanted(self, message: RequestsPanel.Wanted) -> None:
        state = self.feed.shown
        row = state.request(message.num) if message.run == state.run else None
        if row is None:
            self.say("that request is gone", "warning")
        elif message.what == "open":
            self._open_table(message.num)
        elif self.feed.past:
            now = self.keymap.key(EVERYWHERE_NAME, "present")
            self.say(f"what is shown is a moment gone by: {now} goes back to now, where it can be done", "warning")
        else:
            self._ask(request_form(message.what, self.feed.shown, row))

    def on_requests_panel_columns_wanted(self, _message: RequestsPanel.ColumnsWanted) -> None:
        form, take = ColumnsForm(self.requests.view.columns), self.requests.take_columns
        self._open(ColumnsScreen(form, take, glyphs=self.glyphs, keys=self.keymap.actions("dialogs")))

    def _open_table(self, num: int) -> None:
        content = request_page(self.feed, num, self._shown_now, self.glyphs)
        self._open_pager("request: life, prefix, events, block table", content, RequestsPanel.NAME, "open")

    def _open_pager(self, title: str, content: Content, place: str, opened_by: str) -> None:
        """The key of the action that opens it closes it too."""
        keys = next(action.keys for action in self.keymap.actions(place) if action.name == opened_by)
        self.app.push_screen(
            PagerScreen(title, content, close_keys=keys, live=True, glyphs=self.glyphs, keys=self.keymap.actions(PAGER))
        )

    # --- dialogs ---

    def _ask(self, form: ConfirmForm) -> None:
        """Opens a dialog, or says why that cannot be commanded."""
        hello, kind = self.feed.live.hello, getattr(form.command, "type", "")
        reason = self.commander.read_only()
        if reason is not None and hello is not None:
            reason = unreachable(self.feed.live) or reason  # an engine that leaves takes its control socket along
        if reason is None and hello is None:
            reason = "no engine has said yet who it is, so nothing is asked of it"
        if reason is None and hello is not None and kind not in hello.commands:
            reason = f"this engine takes no command {kind}"
        if reason is not None:
            self.say(reason, "warning")
        else:
            self._open(ConfirmScreen(form, self._command, glyphs=self.glyphs, keys=self.keymap.actions("dialogs")))

    def _open(self, dialog: Dialog) -> None:
        if self._app.clock is not None:
            self._app.clock.limit("dialog", DIALOG_FPS)
        self._dialog = dialog
        self.app.push_screen(dialog, lambda _: self._dialog_closed())

    def _dialog_closed(self) -> None:
        self._dialog = None
        if self._app.clock is not None:
            self._app.clock.limit("dialog", None)

    def _command(self, command: Command, done: Callable[[Answer], None]) -> None:
        """Sends ``command``; ``done`` gets the answer in the screen's thread. After the screen's end nobody wants it."""

        def deliver(answer: Answer) -> None:
            if self.is_running:
                self.call_later(partial(done, answer))

        self.commander.ask(command, deliver)

    def say(self, text: str, severity: Any = "information") -> None:
        """A note for some seconds, where it is seen (`KvtopApp.notify`)."""
        self.notify(text, severity=severity, markup=False)

    # --- keys ---

    def action_focus_panel(self, name: str) -> None:
        panel = self.panels[name]
        reason = panel.absence(self.feed.live)
        if reason is not None:
            self.say(reason, "warning")
        elif panel.has_focus and (self._asked_for == name or self.dashboard.full):
            self.action_full()
        else:
            if panel.has_focus:
                self.hint(f"the keys go to the {panel.NAME} already; once more, and it fills the screen")
            self._asked_for = name
            self._go_to(panel)

    def _go_to(self, panel: Panel) -> None:
        """Gives it the focus, and a place: all of the screen where another had that, or where there is no other."""
        if not self.dashboard.full and not panel.display:
            self.dashboard.ask_for(panel.ID)
        if self.dashboard.full or not panel.display:
            self._fill(panel.ID)
        self.set_focus(panel)

    def _fill(self, name: str) -> None:
        if not self.dashboard.full:
            self._overview_focus = self._last_focus
        self.dashboard.fill(name)

    def action_full(self) -> None:
        if self.dashboard.full:
            self.action_overview()
        elif isinstance(self.focused, TitledPanel):
            self._fill(self.focused.ID)

    def action_overview(self) -> None:
        if not self.dashboard.full:
            self.hint("this is the overview already")
            return
        panel = self.panels[self.dashboard.full]
        self.dashboard.fill("")
        self._redraw_all()
        if not panel.display:
            self.set_focus(self.panels[self._overview_focus])

    async def do(self, place: str, action: Action) -> None:
        """Does what a key of the section ``place`` would, as if its panel had the focus."""
        panel = next((panel for panel in self.panels.values() if place == panel.NAME), None)
        if panel is not None:
            if (reason := panel.absence(self.feed.live)) is not None:
                self.say(reason, "warning")
                return
            self._go_to(panel)
        own: DOMNode = self if action.name in {own.name for own in (*SCREEN_ACTIONS, *COLOURS)} else self.app
        await self.app.run_action(action.name, panel or own)

    def action_colour(self) -> None:
        self.map.action_colour()

    def action_colour_by(self, mode: str) -> None:
        self.map.colour_by(mode)

    def action_next_tier(self) -> None:
        if self.map.next_tier():
            self.place(self.app.size)
        else:
            self.say(no_lower_tiers(self.feed.live) or "", "warning")

    def action_copy(self) -> None:
        panel = self.focused if isinstance(self.focused, TitledPanel) else self.panels[self._last_focus]
        assert isinstance(panel, TitledPanel)
        what, lines = panel.copied()
        sent, words = self._app.copy(lines)
        self.say(f"{what}: {words}", "information" if sent else "warning")

    def action_filter(self) -> None:
        self._go_to(self.requests)
        self.requests.start_filter()

    def action_pause_view(self) -> None:
        if self.feed.replay is not None:
            self._turn_replay(self.feed.replay)
        elif self.feed.held:
            self.feed.let_go()
            self._name_keys()
            self.hint("the view goes on")
        elif self.feed.live.seq is not None:
            self.feed.hold(self._now())
            self.hint("the view is held still; the same key lets it go")
        else:
            self.say("nothing has come from an engine yet, so there is nothing to hold still", "warning")
        self._draw(self._now(), texts=True, turned=True)

    def _turn_replay(self, replay: ReplaySource) -> None:
        if replay.playback.paused:
            replay.go_on()
            self.hint("the replay goes on")
        else:
            replay.pause()
            self.hint("the replay stands still; the same key lets it go on")

    # --- time ---

    def travelled(self, said: str) -> None:
        self._name_keys()
        self.hint(said)
        self._redraw_all()

    def open_comparison(self, content: Content) -> None:
        self._open_pager("what has changed from the earlier moment to the later", content, EVERYWHERE_NAME, "compare")

    def open_preempted(self, found: list[Preempted], left_out: int) -> None:
        keys = next(action.keys for action in self.keymap.actions(EVERYWHERE_NAME) if action.name == "preempted")
        own = self.keymap.actions(PREEMPTED)
        self.app.push_screen(
            PreemptedScreen(found, left_out, self.go_to_preemption, close_keys=keys, glyphs=self.glyphs, keys=own)
        )

    def select_request(self, num: int) -> None:
        if self.feed.shown.request(num) is not None:
            self.on_block_map_panel_owner_chosen(BlockMapPanel.OwnerChosen(num))

    def ask_moment(self, go: Callable[[str], str | None], forms: str) -> None:
        self._open(MomentScreen(go, forms, glyphs=self.glyphs, keys=self.keymap.actions("dialogs")))

    def action_help(self) -> None:
        keys = next(action.keys for action in self.keymap.actions(EVERYWHERE_NAME) if action.name == "help")

        def text(width: int) -> list[Row]:
            return help_rows(width, self.feed.live.hello, self.glyphs, self.keymap.sections)

        self.app.push_screen(HelpScreen(text, close_keys=keys, glyphs=self.glyphs, keys=self.keymap.actions(PAGER)))

    def action_numbers(self) -> None:
        panel = self.focused if isinstance(self.focused, TitledPanel) else self.panels[self._last_focus]
        own = [panel.NUMBERS] if isinstance(panel, Panel) and panel.NUMBERS is not None else []
        content = numbers_page(
            self.feed, [*own, HEADER], lambda: self.requests.view.selected, self._shown_now, self.glyphs
        )
        self._open_pager("numbers: what they mean, and what they are now", content, EVERYWHERE_NAME, "numbers")

    def action_alarms(self) -> None:
        keys = next(action.keys for action in self.keymap.actions(EVERYWHERE_NAME) if action.name == "alarms")
        self.app.push_screen(
            AlarmsScreen(
                lambda: (self.feed.alarms, self.feed.shown if self.feed.past else self.feed.live, self._shown_now()),
                self.go_to_victim,
                close_keys=keys,
                glyphs=self.glyphs,
                keys=self.keymap.actions(ALARMS),
            )
        )

    def go_to_victim(self, victim: Victim) -> None:
        """Selects whom an alarm hits."""
        state = self.feed.shown
        if victim.kind == "request":
            if victim.num is None or state.request(victim.num) is None:
                self.say(f"{clean(victim.name)} is gone", "warning")
            else:
                self.on_block_map_panel_owner_chosen(BlockMapPanel.OwnerChosen(victim.num))
        elif victim.kind == "block":
            if victim.num is None or not self.map.go_to(victim.num):
                self.say(f"{clean(victim.name)} is not on the map", "warning")
            else:
                self._go_to(self.map)
        elif victim.kind == "tier":
            self._go_to_tiers()
        else:
            self.hint(f"it hits {clean(victim.name)} as a whole")

    def _go_to_tiers(self) -> None:
        tiers = self.panel(TiersPanel)
        if (reason := tiers.absence(self.feed.live)) is not None:
            self.say(reason, "warning")
        else:
            self._go_to(tiers)

    def action_policy(self) -> None:
        form = policy_form(self.feed.live, self.commander.read_only())
        self._open(PolicyScreen(form, self._command, glyphs=self.glyphs, keys=self.keymap.actions("dialogs")))

    def action_pause_engine(self) -> None:
        self._ask(pause_form(self.feed.live, self.keymap.key(EVERYWHERE_NAME, "pause_view")))

    def action_reset_cache(self) -> None:
        self._ask(reset_form(self.feed.live))

    def action_compact(self) -> None:
        self._ask(compact_form(self.feed.live))

    def action_snapshot(self) -> None:
        now, picture = self._shown_now(), self._app.picture("kvtop")
        state = self.feed.shown if self.feed.held else frozen(self.feed.live, now)
        self.snapshots.write(state, self.snapshot_folder, picture, now, self.say_later, self.feed.shown_alarms)

    def action_bundle(self) -> None:
        picture = self._app.picture("kvtop")
        try:
            tape, place = self.travel.where()
        except CannotGo as why:
            self.say(str(why), "warning")
        else:
            self.hint("writing the bundle")
            self.snapshots.bundle(tape, place, self.snapshot_folder, picture, self.say_later)

    def say_later(self, text: str, severity: str) -> None:
        """`say`, from another thread; after the screen's end nobody wants it."""
        if self.is_running:
            self.call_later(self.say, text, severity)
