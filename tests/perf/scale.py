"""Large pools and many requests: ``python -m tests.perf.scale [--quick] [--only SECTION …]``.

1,000,000 blocks and 10,000 requests against 10,000 and 100, at 200x50, 64 blocks and 64 requests changing in each of 20
iterations a second. CPU is that of the process; on a busy machine look at it, and at the ratios, before wall time.

Sections, each in a process of its own as a viewer is: ``screen`` (text tick, map frame, key to paint), ``snapshot`` (how
long it holds the loop up), ``process`` (first paint, memory, iteration to screen, shares of a core). Exit code 1 if a bound
is broken.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvtop.term.environment import prepare_environment, settle_gc, share_interpreter

prepare_environment()

from textual.events import Key  # noqa: E402

from kvtop.app.app import KvtopApp  # noqa: E402
from kvtop.app.commander import Commander  # noqa: E402
from kvtop.app.engine_screen import EngineScreen  # noqa: E402
from kvtop.app.feed import Feed  # noqa: E402
from kvtop.sources.base import LinkUp  # noqa: E402
from kvtop.term.depth import ColourDepth  # noqa: E402
from tests.app.sources import HandFedSource  # noqa: E402
from tests.perf import rest, viewer  # noqa: E402
from tests.perf.big_engine import BigEngine  # noqa: E402
from tests.term.driver import CountingDriver  # noqa: E402

SMALL: Final = (10_000, 100)
LARGE: Final = (1_000_000, 10_000)
ALIKE: Final = SMALL[1] // 5
"""Requests that change in a frame where the sizes are compared: as many as run in the small engine, so that both are told
the same."""

KEYS: Final = ("j", "k", "pagedown", "1", "l", "4", "k", "2", "j", "slash", "g", "escape", "j")
"""Pressed over and over, with a frame between two of them."""

KEY_MS, TEXT_MS, HOLD_MS, FIRST_PAINT_S, LAG_MS, RATIO = 16.0, 8.0, 30.0, 0.7, 100.0, 1.5
RESIDENT_MB = 80.0
"""Of a viewer of the small engine."""

_broken: list[str] = []


def report(name: str, value: float, unit: str, bound: float | None = None, note: str = "") -> None:
    over = bound is not None and value > bound
    if over:
        _broken.append(name)
    limit = "" if bound is None else f"  bound {bound:g} {'EXCEEDED' if over else 'kept'}"
    print(f"{name:52}{value:10.2f} {unit}{limit}{'  ' + note if note else ''}", file=sys.__stdout__, flush=True)


class Screen:
    """The app on a made-up engine, drawn as for a real terminal that only counts."""

    def __init__(self, blocks: int, requests: int, folder: Path) -> None:
        self.engine, self.source = BigEngine(blocks, requests), HandFedSource()
        self.source.put(LinkUp(), self.engine.hello(), self.engine.keyframe())
        self.screen = EngineScreen(Feed(self.source), Commander(None), snapshot_folder=folder)
        self.app = KvtopApp([self.screen], driver_class=CountingDriver, depth=ColourDepth.TRUECOLOR, ticking=False)
        self.painted = asyncio.Event()

    async def run(self, work: Callable[["Screen"], Awaitable[None]]) -> None:
        async with self.app.run_test(headless=False, size=viewer.SIZE) as pilot:
            for _ in range(3):
                self.app.tick()
                await pilot.pause(0.2)
            settle_gc()
            self.app.post_display_hook = self.painted.set  # type: ignore[method-assign]
            await work(self)

    async def cost(self, act: Callable[[], object], wait: float = 0.1) -> tuple[float, float]:
        """CPU and wall milliseconds from ``act`` to the paint it leads to."""
        self.painted.clear()
        cpu, wall = time.process_time(), time.perf_counter()
        act()
        with suppress(TimeoutError):  # what changes nothing paints nothing
            await asyncio.wait_for(self.painted.wait(), wait)
        return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)

    async def frame(self, texts: bool, requests: int | None = None) -> tuple[float, float]:
        self.source.put(self.engine.frame(requests=requests))
        took = await self.cost(lambda: self.app.tick(text_due=texts))
        await asyncio.sleep(0.01)
        return took

    async def key(self, key: str) -> tuple[float, float]:
        character = key if len(key) == 1 else None
        return await self.cost(lambda: self.app.post_message(Key(key, character)))


def p90(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10)[8] if len(values) > 1 else values[0]


def screen(rounds: int) -> None:
    """Text tick, map frame and key to paint, small against large."""
    found: dict[str, list[float]] = {}
    for blocks, requests in (SMALL, LARGE):
        size = f"{blocks:,d} blocks, {requests:,d} requests"

        async def work(s: Screen, size: str = size) -> None:
            texts = [(await s.frame(True))[0] for _ in range(10 * rounds)]
            maps = [(await s.frame(False))[0] for _ in range(10 * rounds)]
            like = [(await s.frame(turn % 2 == 0, ALIKE))[0] for turn in range(20 * rounds)]
            await s.key("2")
            keys: dict[str, list[tuple[float, float]]] = {}
            for _ in range(rounds):
                for key in KEYS:
                    await s.frame(False)
                    keys.setdefault(key, []).append(await s.key(key))
            every = [took for of in keys.values() for took in of]
            report(f"text tick, CPU median, {size}", statistics.median(texts), "ms", TEXT_MS)
            report(f"map frame, CPU median, {size}", statistics.median(maps), "ms")
            report(f"key to paint, wall p90, {size}", p90([wall for _, wall in every]), "ms", KEY_MS)
            report(f"key to paint, CPU p90, {size}", p90([cpu for cpu, _ in every]), "ms", KEY_MS)
            for key, took in sorted(keys.items()):
                report(f"  key {key}, CPU median, {size}", statistics.median(cpu for cpu, _ in took), "ms")
            for name, value in (
                ("text tick", statistics.median(like[::2])),
                ("map frame", statistics.median(like[1::2])),
                ("key to paint", p90([cpu for cpu, _ in every])),
            ):
                found.setdefault(name, []).append(value)

        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(Screen(blocks, requests, Path(folder)).run(work))
    for name, (small, large) in found.items():
        report(f"{name}, large against small (CPU)", large / small, "times", RATIO)


def snapshot(rounds: int) -> None:
    """The longest that the event loop stands still while a snapshot of the large engine is written."""

    async def work(s: Screen) -> None:
        stops: list[tuple[float, float]] = []

        async def beat() -> None:
            wall, others = time.perf_counter(), time.process_time() - time.thread_time()
            while True:
                await asyncio.sleep(0.001)
                now, used = time.perf_counter(), time.process_time() - time.thread_time()
                stops.append((1000 * (used - others), 1000 * (now - wall)))
                wall, others = now, used

        pulse = asyncio.get_running_loop().create_task(beat())
        await asyncio.sleep(1.0)
        share_interpreter()
        cpu, wall, took = [], [], []
        for _ in range(max(3, rounds // 2)):
            stops.clear()
            began = time.perf_counter()
            s.screen.action_snapshot()
            while any(thread.name == "kvtop-snapshot" for thread in threading.enumerate()):
                await asyncio.sleep(0.05)
            took.append(time.perf_counter() - began)
            cpu.append(max(used for used, _ in stops))
            wall.append(max(waited for _, waited in stops))
        pulse.cancel()
        report("snapshot of the large engine, whole, median", statistics.median(took), "s")
        report("  longest stop of the loop, CPU of the writer, most", max(cpu), "ms", HOLD_MS)
        report(
            "  longest stop of the loop, wall, median",
            statistics.median(wall),
            "ms",
            HOLD_MS,
            f"(most {max(wall):.1f})",
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(Screen(*LARGE, folder).run(work))


def process(rounds: int) -> None:
    """A whole viewer in a terminal: first paint, resident memory, iteration to screen, shares of a core."""
    for blocks, requests in (SMALL, LARGE):
        size = f"{blocks:,d} blocks"
        heard: list[tuple[bytes, float]] = []
        with viewer.Engine(blocks, requests) as engine:
            engine.ready()
            began = time.monotonic()
            with viewer.Terminal(
                engine.folder, "big", lambda data, when, to=heard: to.append((data, when))
            ) as terminal:
                viewer.settled(terminal, engine, within=300)
                first = next(when for data, when in heard if b"\x1b[?1049h" in data or len(data) > 500)
                report(f"first paint, {size}", first - began, "s", FIRST_PAINT_S)
                report(f"resident, {size}", terminal.resident / 1e6, "MB", RESIDENT_MB if blocks < 100_000 else None)
                if (blocks, requests) == SMALL:
                    report("iteration to screen, p95", p95_lag(engine, heard), "ms", LAG_MS)
    for state, share, _ in rest.measure(*SMALL, 3.0 + rounds):
        report(f"share of a core: {state.name}", 100 * share, "%", 100 * state.bound)


def p95_lag(engine: viewer.Engine, heard: list[tuple[bytes, float]]) -> float:
    """From an iteration's frame to the next piece of the map on the terminal; frames come one by one, apart."""
    engine.busy = False
    lags = []
    for number in range(40):
        time.sleep(0.31 + 0.013 * (number % 7))
        heard.clear()
        sent = time.monotonic()
        engine.publisher.publish(engine.engine.frame())
        while not heard and time.monotonic() - sent < 1:
            time.sleep(0.002)
        lags.append(1000 * ((heard[0][1] if heard else sent + 1) - sent))
    return statistics.quantiles(lags, n=20)[18]


SECTIONS: Final = {"screen": screen, "snapshot": snapshot, "process": process}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the rounds")
    parser.add_argument("--only", nargs="*", choices=list(SECTIONS), default=list(SECTIONS))
    options = parser.parse_args()
    if len(options.only) > 1:
        sections = [
            subprocess.run([sys.executable, "-m", __spec__.name, *["--quick"] * options.quick, "--only", name])
            for name in options.only
        ]
        return max(section.returncode for section in sections)
    for name in options.only:
        SECTIONS[name](2 if options.quick else 10)
    for name in _broken:
        print("over the bound:", name)
    return 1 if _broken else 0


if __name__ == "__main__":
    sys.exit(main())
