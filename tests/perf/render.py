"""Bytes and CPU time per frame of the map and of the whole screen: ``python -m tests.perf.render``.

A made-up engine changes 64 random blocks a frame, at 20 frames a second, on a 200x50 screen; numbers and tables follow
at 4 Hz, as in use. The app encodes everything as for a real terminal, and a driver counts the bytes instead of writing
them. CPU time is that of the process from taking over the engine's frame to handing its bytes to the driver. Each
case also runs with Textual's own painting in place of the front buffer; compare the ratios before the milliseconds,
which depend on the machine.

Exit code 1 if a bound is broken.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from kvtop.term.environment import prepare_environment, settle_gc

prepare_environment()

from textual.app import ComposeResult  # noqa: E402

from kvtop.app.app import KvtopApp  # noqa: E402
from kvtop.app.commander import Commander  # noqa: E402
from kvtop.app.engine_screen import EngineScreen  # noqa: E402
from kvtop.app.feed import Feed  # noqa: E402
from kvtop.protocol import BlockRun, IterationFrame, Keyframe  # noqa: E402
from kvtop.sources.base import LinkUp  # noqa: E402
from kvtop.state import Changes, EngineState  # noqa: E402
from kvtop.term.depth import ColourDepth  # noqa: E402
from kvtop.term.front_buffer import FrontBufferApp  # noqa: E402
from kvtop.views.rows import Row  # noqa: E402
from panels.block_map import BlockMapPanel  # noqa: E402
from panels.panel import Tick  # noqa: E402
from tests.app.live_engine import LiveEngine  # noqa: E402
from tests.app.sources import HandFedSource  # noqa: E402
from tests.perf.big_engine import ACTIVE, CACHED, FREE, SHARED  # noqa: E402
from tests.term.driver import CountingDriver, driver_of  # noqa: E402

SIZE: Final = (200, 50)
CHANGES: Final = 64
FPS: Final = 20.0
TEXT_EVERY: Final = 5
BOUNDS: Final = {"map": 1024, "screen": 4096}
"""Bytes a frame on average. The text frames of a whole screen are the large ones."""


class Engine:
    """The real engine's requests, queue, events and numbers, with ``blocks`` blocks of its own."""

    def __init__(self, blocks: int, seed: int = 3) -> None:
        self.blocks = blocks
        self._random = random.Random(seed)
        # Few blocks of its own: it is there for requests and numbers, which do not depend on the pool's size.
        self._inner = LiveEngine(blocks=400, seed=seed, arrivals=0.2)
        for _ in range(400):
            self._inner.step()

    def opening(self) -> list[LinkUp | object]:
        hello = self._inner.hello()
        assert hello.geometry is not None
        pools = [hello.geometry.pools[0].model_copy(update={"blocks": self.blocks})]
        geometry = hello.geometry.model_copy(update={"pools": pools})
        return [LinkUp(), hello.model_copy(update={"geometry": geometry}), self._keyframe()]

    def _keyframe(self) -> Keyframe:
        runs: list[BlockRun] = []
        start = 0
        while start < self.blocks:
            length = min(self._random.choice((1, 2, 4, 8, 32, 100)), self.blocks - start)
            runs.append(self._run(start, length))
            start += length
        return self._inner.keyframe().model_copy(update={"blocks": runs, "hashes": [], "ages": []})

    def frame(self) -> IterationFrame:
        """One iteration: what the engine did, and 64 random changes of blocks."""
        blocks = sorted(self._random.sample(range(self.blocks), CHANGES))
        runs = [self._run(block, 1) for block in blocks]
        return self._inner.step().model_copy(update={"blocks": runs, "hashes": []})

    def _run(self, start: int, length: int) -> BlockRun:
        state = self._random.choice((FREE, CACHED, ACTIVE, ACTIVE, SHARED))
        owner = self._random.randrange(1, 40) if state in (ACTIVE, SHARED) else -1
        refs = {ACTIVE: 1, SHARED: self._random.randrange(2, 6)}.get(state, 0)
        return (start, length, state, owner, refs, 16 if state else 0, 0, 0)


class MapApp(FrontBufferApp[None]):
    """The block map and nothing else."""

    CSS = "#map {width: 100%; height: 100%}"

    def __init__(self, engine: Engine) -> None:
        super().__init__(driver_class=CountingDriver, depth=ColourDepth.TRUECOLOR)
        self.state = EngineState()
        self.map = BlockMapPanel(self.state)
        for item in engine.opening():
            if isinstance(item, LinkUp):
                self.state.link_up(0.0)
            else:
                self.state.apply(item, 0.0)  # type: ignore[arg-type]

    def compose(self) -> ComposeResult:
        yield self.map

    def on_mount(self) -> None:
        self.map.update(Tick(self.state, time.monotonic(), Changes(full=True)))


@dataclass
class Cost:
    """Of each frame: bytes handed to the driver, CPU seconds, and cells of the map that look different."""

    sizes: list[int]
    cpu: list[float]
    cells: list[int]

    @property
    def mean_bytes(self) -> float:
        return statistics.fmean(self.sizes)

    @property
    def median_ms(self) -> float:
        return 1000 * statistics.median(self.cpu)


async def measure(
    app: FrontBufferApp[Any],
    panel: BlockMapPanel,
    advance: Callable[[int, IterationFrame], None],
    engine: Engine,
    frames: int,
) -> Cost:
    """Runs ``frames`` frames of ``app`` at the real rate."""
    cost = Cost([], [], [])
    async with app.run_test(headless=False, size=SIZE) as pilot:
        await pilot.pause(0.3)
        advance(0, engine.frame())
        await pilot.pause(0.3)
        settle_gc()
        painted = asyncio.Event()
        app.post_display_hook = painted.set  # type: ignore[method-assign]
        driver: CountingDriver = driver_of(app)
        due = time.monotonic()
        for number in range(frames):
            frame = engine.frame()
            driver.take()
            painted.clear()
            rows = panel.rows
            before = time.process_time()
            advance(number, frame)
            with suppress(TimeoutError):  # a frame without a visible change paints nothing
                await asyncio.wait_for(painted.wait(), 0.04)
            cost.cpu.append(time.process_time() - before)
            cost.sizes.append(len(driver.take().encode()))
            cost.cells.append(differing(rows[1:-2], panel.rows[1:-2]))
            due = max(due + 1 / FPS, time.monotonic())
            await asyncio.sleep(due - time.monotonic())
        assert app.faults == 0
    return cost


def differing(before: Sequence[Row], after: Sequence[Row]) -> int:
    """Cells that changed their character or role."""
    return sum(
        a != b
        for old, new in zip(before, after, strict=True)
        if old is not new
        for a, b in zip(zip(*old, strict=True), zip(*new, strict=True), strict=True)
    )


def map_alone(blocks: int, frames: int, stock: bool) -> Cost:
    engine = Engine(blocks)
    app = MapApp(engine)
    if stock:
        app.stock_reason = "for comparison"

    def advance(number: int, frame: IterationFrame) -> None:
        now = time.monotonic()
        app.map.update(Tick(app.state, now, app.state.apply(frame, now), texts=False))

    return asyncio.run(measure(app, app.map, advance, engine, frames))


def whole_screen(blocks: int, frames: int, stock: bool) -> Cost:
    engine = Engine(blocks)
    source = HandFedSource()
    source.put(*engine.opening())  # type: ignore[arg-type]
    screen = EngineScreen(Feed(source), Commander(None))
    app = KvtopApp([screen], driver_class=CountingDriver, depth=ColourDepth.TRUECOLOR, ticking=False)
    if stock:
        app.stock_reason = "for comparison"

    def advance(number: int, frame: IterationFrame) -> None:
        source.put(frame)
        app.tick(text_due=number % TEXT_EVERY == 0)

    return asyncio.run(measure(app, screen.map, advance, engine, frames))


RUN: Final = {"map": map_alone, "screen": whole_screen}
CASES: Final = (
    (9_000, "map"),  # one block a cell: every change is in sight
    (10_000, "map"),
    (10_000, "screen"),
    (100_000, "map"),
    (100_000, "screen"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--frames", type=int, default=100, help="frames of each case (default 100)")
    frames: int = parser.parse_args().frames
    print(f"{SIZE[0]}x{SIZE[1]}, {CHANGES} block changes a frame, {FPS:g} frames/s, {frames} frames of each case")
    print("A cell of several blocks shows what most of them are, so not every change is in sight.")
    print(f"{'':30}{'bytes a frame':>22}{'CPU ms a frame':>22}{'map cells':>11}")
    print(f"{'blocks  what    painting':30}{'mean':>11}{'most':>11}{'least':>11}{'median':>11}{'changed':>11}")
    broken = []
    for blocks, what in CASES:
        costs = []
        for painting in ("front buffer", "Textual's own"):
            cost = RUN[what](blocks, frames, painting != "front buffer")
            costs.append(cost)
            print(
                f"{blocks:<8,d}{what:8}{painting:14}{cost.mean_bytes:11,.0f}{max(cost.sizes):11,d}"
                f"{1000 * min(cost.cpu):11.2f}{cost.median_ms:11.2f}{statistics.fmean(cost.cells):11.1f}",
                flush=True,
            )
        ours, stock = costs
        print(
            f"{'':16}Textual's own costs {stock.mean_bytes / ours.mean_bytes:.1f} times the bytes "
            f"and {stock.median_ms / ours.median_ms:.1f} times the CPU"
        )
        if ours.mean_bytes > BOUNDS[what]:
            broken.append(f"{what} of {blocks:,d} blocks: {ours.mean_bytes:,.0f} bytes, bound {BOUNDS[what]:,d}")
    for line in broken:
        print("over the bound:", line)
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
