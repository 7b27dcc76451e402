"""Running the app in tests: what an engine was recorded saying, time by hand, a pretended control socket."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from kvtop.app.app import KvtopApp
from kvtop.app.commander import Commander
from kvtop.app.engine_screen import EngineScreen
from kvtop.app.feed import Feed
from kvtop.app.keymap import DEFAULT
from kvtop.protocol import Command, Reply
from kvtop.term.cell_panel import CellPanel
from kvtop.term.depth import ColourDepth
from kvtop.views.columns import NAMES
from kvtop.views.glyphs import ASCII, UNICODE
from tests.app.idle_loop import run_in_idle_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource
from tests.recording import RecordedEngine


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Runs an asynchronous test in a loop of its own."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        run_in_idle_loop(test(*args, **kwargs))

    return run


class FakeControl:
    """Answers every command at once, or raises; keeps what it was sent."""

    def __init__(self, answer: Callable[[Command], Reply]) -> None:
        self.answer = answer
        self.sent: list[Command] = []

    def send(self, command: Command, timeout: float) -> Reply:
        self.sent.append(command)
        return self.answer(command)


def agreeing(command: Command) -> Reply:
    dry = getattr(command, "dry_run", False)
    return Reply(
        id=command.id,
        ok=True,
        iteration=None if dry else 4711,
        message="" if dry else "it is so",
        effects=["b-0003 would be preempted"] if dry else [],
    )


class Bench:
    """The app under test with everything around it."""

    def __init__(self, source: HandFedSource, folder: Path, answer: Callable[[Command], Reply], **options: Any) -> None:
        self.source = source
        self.time = 100.0
        self.control = FakeControl(answer)
        socket = folder / "demo.ctl.sock"
        socket.touch()
        self.folder = folder
        control_path = options.pop("control_path", socket)
        self.screen = EngineScreen(
            Feed(source),
            Commander(control_path, options.pop("connect", lambda _: self.control)),
            glyphs=ASCII if options.pop("ascii_only", False) else UNICODE,
            snapshot_folder=options.pop("snapshot_folder", folder),
            now=lambda: self.time,
            keymap=options.pop("keymap", DEFAULT),
            columns=options.pop("columns", NAMES),
        )
        self.app = KvtopApp([self.screen], **{"depth": ColourDepth.INDEXED, "ticking": False, **options})
        self.pilot: Pilot[int] = None  # type: ignore[assignment]
        self._noted: list[str] = []
        note = self.screen.note

        def noted(text: str, severity: str = "warning", *, hint: bool = False) -> None:
            self._noted += [text] if text else []
            note(text, severity, hint=hint)

        self.screen.note = noted  # type: ignore[method-assign]

    @property
    def engine(self) -> LiveEngine:
        """The engine that the bench was made with."""
        engine = self.source.engine
        assert isinstance(engine, LiveEngine)
        return engine

    async def iterate(self, count: int = 1, seconds: float = 0.05) -> None:
        """So many iterations of the engine, each with a tick of the screen."""
        for _ in range(count):
            self.time += seconds
            self.source.run(1)
            self.app.tick()
        await self.pilot.pause()

    def tick_once(self) -> None:
        self.app.tick()

    async def tick(self, seconds: float = 0.05) -> None:
        self.time += seconds
        self.app.tick()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def text(self, id: str | None = None) -> str:
        """What the panel ``id`` shows, or the whole screen: the strips as they are painted."""
        lines = [strip.text for strip in self.app.screen._compositor.render_strips(self.app.size)]
        if id is not None:
            panel = next(p for s in reversed(self.app.screen_stack) for p in s.query(f"#{id}").results())
            if isinstance(panel, CellPanel):
                return "\n".join(row.text for row in panel.rows)
            x, y, width, height = panel.region
            lines = [line[x : x + width] for line in lines[y : y + height]]
        return "\n".join(lines)

    def notes(self) -> list[str]:
        """What has been said so far to more than a key, in the footer or over what covers it, the latest last."""
        return [*self._noted, *(note.message for note in self.app._notifications)]

    async def until(self, condition: Callable[[], Any], seconds: float = 5.0) -> None:
        """Waits until ``condition`` holds; fails with the screen when it never does."""
        for _ in range(int(seconds / 0.02)):
            if condition():
                return
            await self.pilot.pause()
            await asyncio.sleep(0.02)
        raise AssertionError("never happened; the screen:\n" + self.text())


@asynccontextmanager
async def bench(
    folder: Path,
    *,
    size: tuple[int, int] = (80, 24),
    engine: LiveEngine | None = None,
    source: HandFedSource | None = None,
    warm: int = 300,
    answer: Callable[[Command], Reply] = agreeing,
    headless: bool = True,
    notifications: bool = True,
    **options: Any,
) -> AsyncIterator[Bench]:
    """The app, its first frame drawn: on a recorded engine that runs, or on ``engine`` once it has run ``warm`` iterations,
    or on ``source``."""
    if source is None:
        for _ in range(warm if engine is not None else 0):
            engine.step()
        source = HandFedSource(engine or RecordedEngine())
    made = Bench(source, folder, answer, **options)
    async with made.app.run_test(size=size, headless=headless, notifications=notifications) as pilot:
        made.pilot = pilot
        await made.tick()
        await made.until(lambda: made.tick_once() or made.app.focused is not None)
        yield made
