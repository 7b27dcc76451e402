"""The program's app: it holds the screens of engines and ticks them from one frame clock."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.notifications import SeverityLevel
from textual.screen import Screen

from kvtop.app.action_list import ActionProvider
from kvtop.app.alerts import Alerts
from kvtop.app.commander import Commander
from kvtop.app.engine_screen import EngineScreen
from kvtop.app.feed import Feed
from kvtop.app.keys import APP_ACTIONS, EVERYWHERE_NAME
from kvtop.app.preferences import Preferences
from kvtop.sources.base import Source
from kvtop.term.environment import settle_gc, share_interpreter
from kvtop.term.front_buffer import FrontBufferApp
from kvtop.term.keys import bindings
from kvtop.views.glyphs import ASCII, UNICODE
from panels.dialogs.dialog import Dialog

STILL_TICKS = 4.0
"""Ticks a second while no engine's frames would be seen; keys are answered at once at any rate."""

QUIET_TICKS = 8.0
"""The same while the engines are silent: the first word after a silence is shown so much later."""


class KvtopApp(FrontBufferApp[int]):
    """Shows the first of ``engines``. Each is ticked, and so follows its engine from when it was first shown on.

    Args:
        engines: The screens, at least one.
        ticking: Whether the frame clock runs by itself; else `tick` is called by hand.
        kwargs: As for `FrontBufferApp`.
    """

    CSS_PATH = "app.tcss"
    TITLE = "kvtop"
    COMMANDS: ClassVar[set[Any]] = {ActionProvider}
    AUTO_FOCUS = None
    BINDINGS = bindings(APP_ACTIONS, EVERYWHERE_NAME)

    def __init__(self, engines: Sequence[EngineScreen], *, ticking: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.engines = list(engines)
        self.set_keymap(self.engines[0].keymap.bindings)
        self._ticking = ticking
        self._settled = False
        self._rate: float | None = None

    def get_default_screen(self) -> Screen[Any]:
        return self.engines[0]

    def on_mount(self) -> None:
        if self._ticking:
            self.start_clock(self._on_tick)

    def on_resize(self, event: events.Resize) -> None:
        # Here, for a screen under another one is not told; and the app itself learns of its size after this handler.
        for engine in self.engines:
            engine.place(event.size)

    def tick(self, text_due: bool = True) -> None:
        """One frame of every engine; see `EngineScreen.tick`."""
        for engine in self.engines:
            engine.tick(text_due)
        still = all(engine.still for engine in self.engines)
        quiet = all(engine.quiet for engine in self.engines)
        rate = STILL_TICKS if still else QUIET_TICKS if quiet else None
        if self.clock is not None and rate != self._rate:
            self._rate = rate
            self.clock.limit("nothing to see", rate)

    def _on_tick(self, now: float, text_due: bool) -> None:
        self.tick(text_due)
        if not self._settled and any(engine.feed.live.seq is not None for engine in self.engines):
            self._settled = True
            self.call_later(settle_gc)

    def action_command_palette(self) -> None:
        """What it lists is done on an engine's screen, so it opens over that alone."""
        if isinstance(self.screen, EngineScreen):
            super().action_command_palette()

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """In the footer of the engine's screen; where something covers that, in a corner."""
        below = next((screen for screen in reversed(self.screen_stack) if not isinstance(screen, Dialog)), None)
        if isinstance(below, EngineScreen) and below.takes_notes:
            below.note(message, severity)
        else:
            super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def on_paste(self, event: events.Paste) -> None:
        """Comes here when nothing that takes text had the focus; what was pasted is no keys."""
        self.notify(
            f"a paste was ignored: only the filter ({self._filter_key}) and fields for numbers take text",
            severity="warning",
            markup=False,
        )

    @property
    def _filter_key(self) -> str:
        return self.engines[0].keymap.key(EVERYWHERE_NAME, "filter")

    def action_redraw(self) -> None:
        self.redraw()
        if isinstance(self.screen, EngineScreen):
            self.screen.hint("the whole screen has been drawn anew")

    async def action_quit(self) -> None:
        self.exit(0)


def run(
    source: Source,
    control_path: Path | None = None,
    preferences: Preferences = Preferences(),  # noqa: B008 - it never changes
    *,
    read_only: str = "this source has no control socket",
) -> int:
    """Shows ``source`` until the user leaves; the exit code. Raises what ended the screen, if it was a fault.

    ``read_only``: why nothing can be commanded, where there is no ``control_path``.
    """
    alerts = Alerts(preferences.bell, preferences.on_alarm)
    engine = EngineScreen(
        Feed(source, settings=preferences.alarms),
        Commander(control_path, why=read_only),
        glyphs=ASCII if preferences.ascii_only else UNICODE,
        snapshot_folder=preferences.snapshot_folder,
        keymap=preferences.keymap,
        columns=preferences.columns,
        alert=alerts.take,
        level=preferences.level,
    )
    app = KvtopApp([engine], depth=preferences.depth, look=preferences.theme, ascii_only=preferences.ascii_only)
    alerts.ring, alerts.say = app.bell, engine.say_later
    share_interpreter()
    try:
        result = app.run(mouse=preferences.mouse)
    finally:
        alerts.close()
        engine.snapshots.finish()
    if app.failure is not None:
        raise app.failure
    return app.return_code or (0 if result is None else result)
