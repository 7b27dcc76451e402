"""Left open for a night the viewer holds no more, and does no more, than it did in the evening."""

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest

from tests.app.harness import bench, in_loop
from tests.app.overnight import STATES, Night, State, complaints, live_through


async def _nothing() -> None:
    await asyncio.sleep(0)


async def _night(folder: Path, states: tuple[State, ...], *, runs: int, ticks: int, events: int) -> list[str]:
    source = Night()
    weights = []
    async with bench(folder, source=source, notifications=False) as b:
        await b.iterate(0)
        gc.collect()
        gc.freeze()
        tracemalloc.start(1)
        try:
            for state in states:
                weight = await live_through(b, source, state, runs=runs, ticks=ticks, events=events, pause=_nothing)
                # The first run fills what is filled once.
                weights.append((state.name, type(weight)(weight.bytes[1:], weight.calls[1:])))
        finally:
            tracemalloc.stop()
            gc.unfreeze()
    return complaints(weights)


@in_loop
async def test_no_state_of_the_screen_grows(tmp_path: Path) -> None:
    assert await _night(tmp_path, STATES, runs=3, ticks=6, events=50) == []


@pytest.mark.slow
@in_loop
async def test_no_state_of_the_screen_grows_in_a_hundred_thousand_ticks(tmp_path: Path) -> None:
    assert await _night(tmp_path, STATES, runs=20, ticks=100_000 // 20 // len(STATES), events=5) == []
