"""An overnight in an hour: ``python -m tests.perf.overnight [--minutes M] [--rate EVENTS]``.

Every state of the screen in turn, with an engine that restarts every minute and tells 100 events a second, drawn as for a
real terminal. Of each state it gives bytes that Python holds and CPU of a tick after the first twelfth of its time and at
its end; together also resident memory. One is over the bound of 5 % when either has grown by more. Exit code 1 then.
"""

import argparse
import asyncio
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from kvtop.term.environment import prepare_environment

prepare_environment()

from tests.app.harness import Bench, bench  # noqa: E402
from tests.app.overnight import STATES, Night, State, enter, leave  # noqa: E402
from tests.perf.big_engine import STEP_S  # noqa: E402
from tests.term.driver import CountingDriver, driver_of  # noqa: E402

MORE: Final = 1.05
RESTART_S: Final = 60.0
SLACK: Final = 50_000
"""Bytes of caches that fill once."""

EARLY: Final = 1 / 12
"""Of an hour, five minutes."""


@dataclass(frozen=True)
class Reading:
    """Bytes at one moment, and the CPU milliseconds of the ticks before it: the lower quartile, which a busy machine
    moves least."""

    bytes: int
    tick_ms: float


async def watch(b: Bench, source: Night, state: State, seconds: float, events: int) -> tuple[Reading, Reading]:
    """``state`` for so many engine seconds, as fast as they can be drawn; early and at the end."""
    await enter(b, source, state)
    ticks = max(24, round(seconds / STEP_S))
    every = min(round(RESTART_S / STEP_S), max(1, ticks // 24))
    # Read at the same place of a run, or the engine's own books would differ.
    early = max(1, round(ticks * EARLY) // every) * every
    last = ticks // every * every
    # Made beforehand, or the readings themselves would be what grows.
    costs = array("d", bytes(8 * last))
    readings: list[Reading] = []
    for tick in range(1, last + 1):
        if not state.down:
            if tick % every == 1 or every == 1:
                source.restart()
            source.put(source.big.frame(events=events))
        b.time += STEP_S
        began = time.process_time()
        b.app.tick(text_due=tick % 5 == 0)
        await asyncio.sleep(0)
        costs[tick - 1] = 1000 * (time.process_time() - began)
        driver_of(b.app).take()
        if tick % 50 == 0:
            await asyncio.sleep(0.01)
        if tick in (early, last):
            await asyncio.sleep(0.1)
            driver_of(b.app).take()
            gc.collect()
            recent = costs[tick - early : tick]
            readings.append(Reading(tracemalloc.get_traced_memory()[0], statistics.quantiles(recent, n=4)[0]))
    await leave(b, source, state)
    return readings[0], readings[-1]


async def night(minutes: float, rate: float) -> int:
    broken = 0
    source = Night()
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        async with bench(
            Path(folder), source=source, notifications=False, headless=False, driver_class=CountingDriver
        ) as b:
            tracemalloc.start(1)
            said = f"{'':36}{'KB early':>10}{'at the end':>12}{'tick ms':>9}{'at the end':>12}"
            print(said, file=sys.__stdout__)
            first = 0
            for state in STATES:
                early, late = await watch(b, source, state, 60 * minutes / len(STATES), round(rate * STEP_S))
                first = first or process.memory_info().rss
                over = late.bytes > MORE * early.bytes + SLACK or late.tick_ms > MORE * early.tick_ms + 0.1
                broken += over
                print(
                    f"{state.name:36}{early.bytes / 1e3:10,.0f}{late.bytes / 1e3:12,.0f}{early.tick_ms:9.2f}"
                    f"{late.tick_ms:12.2f}{'  OVER' if over else ''}",
                    file=sys.__stdout__,
                    flush=True,
                )
            print(
                f"resident: {first / 1e6:.1f} MB after the first, {process.memory_info().rss / 1e6:.1f} MB at the end",
                file=sys.__stdout__,
            )
    return 1 if broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="of the engine's time, all states together")
    parser.add_argument("--rate", type=float, default=100.0, help="events a second")
    options = parser.parse_args()
    return asyncio.run(night(options.minutes, options.rate))


if __name__ == "__main__":
    sys.exit(main())
