"""A screen left open: every state of it, with an engine that restarts again and again and has much to tell."""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from textual.events import Key

from kvtop.sources.base import Item, LinkDown, LinkUp
from tests.app.harness import Bench
from tests.app.sources import HandFedSource
from tests.perf.big_engine import BigEngine

BLOCKS, REQUESTS = 600, 40


@dataclass(frozen=True)
class State:
    """What a user left on the screen. ``size``: of the terminal, where it is another; ``down``: the engine is gone."""

    name: str
    enter: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    size: tuple[int, int] | None = None
    down: bool = False


STATES = (
    State("the dashboard"),
    State("a cursor on the map", ("1", "l", "j")),
    State("the map by recency", ("c", "c"), ("c", "c")),
    State("requests sorted, one selected", ("2", "j", *"ss")),
    State("a filter that matches nothing", ("slash", "z", "z", "enter"), ("escape",)),
    State("a filter being typed", ("slash", "a"), ("escape",)),
    State("all events, scrolled back", ("4", "v", "k", "k"), ("v", "F")),
    State("the help", ("question_mark",), ("q",)),
    State("a block table", ("2", "j", "enter"), ("q",)),
    State("the policy dialog", ("P",), ("escape",)),
    State("the dialog of an abort", ("2", "j", "x"), ("escape",)),
    State("the dialog of a pause", ("E",), ("escape",)),
    State("the dialog of a reset", ("R",), ("escape",)),
    State("the dialog of a compaction", ("C",), ("escape",)),
    State("a view held still", ("p",), ("p",)),
    State("the help over a view held still", ("p", "question_mark"), ("q", "p")),
    State("a terminal that is too small", size=(30, 8)),
    State("an engine that is gone", down=True),
)


class Night(HandFedSource):
    """Each of its engines is a new run of the same: what one tells, the next tells again."""

    def __init__(self) -> None:
        super().__init__()
        self._runs = 0
        self.big = self._start()

    def _start(self) -> BigEngine:
        self._runs += 1
        self.big = BigEngine(BLOCKS, REQUESTS, run=f"run-{self._runs}")
        self.put(LinkUp(), self.big.hello(), self.big.keyframe())
        return self.big

    def restart(self) -> None:
        self.put(LinkDown("the engine left: restart", retrying=True))
        self._start()

    def poll(self) -> list[Item]:
        items, self.items = self.items, []
        return items


@dataclass
class Weight:
    """Bytes that Python holds, and calls of one tick, at the same moment of every run of the engine."""

    bytes: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)

    def grown(self) -> str | None:
        """What has become more from the first time to the last; None where nothing has."""
        more = self.bytes[-1] - self.bytes[0]
        if more > BYTES_MORE:
            return f"{more:,d} bytes more, from {self.bytes[0]:,d}"
        if self.calls[-1] > 1.05 * self.calls[0] + 20:
            return f"{self.calls[-1]:,d} calls a tick instead of {self.calls[0]:,d}"
        return None


BYTES_MORE = 100_000
"""Caches of the terminal's side fill up a little, however long one waits; an event kept is 2,000 bytes."""


async def live_through(
    b: Bench, source: Night, state: State, *, runs: int, ticks: int, events: int, pause: Callable[[], Awaitable[None]]
) -> Weight:
    """The screen in ``state`` while the engine runs ``runs`` times for ``ticks`` ticks; how that weighed.

    ``pause`` is awaited after each tick, for what a tick leaves to be painted.
    """
    weight = Weight()
    await enter(b, source, state)
    for _ in range(runs):
        if not state.down:
            source.restart()
        for _ in range(ticks):
            b.time += 0.05
            if not state.down:
                source.put(source.big.frame(events=events))
            b.app.tick()
            await pause()
        weight.calls.append(calls_of(b.app.tick))
        await asyncio.sleep(0.05)
        gc.collect()
        weight.bytes.append(tracemalloc.get_traced_memory()[0])
    await leave(b, source, state)
    return weight


async def enter(b: Bench, source: Night, state: State) -> None:
    await _press(b, state.enter)
    if state.size is not None:
        await b.pilot.resize_terminal(*state.size)
    if state.down:
        source.put(LinkDown("gone", retrying=True))


async def leave(b: Bench, source: Night, state: State) -> None:
    """Back to the dashboard as it was."""
    if state.size is not None:
        await b.pilot.resize_terminal(80, 24)
    if state.down:
        source.restart()
    b.app.tick()
    await _press(b, state.leave)
    await b.until(lambda: b.app.screen is b.screen)


async def _press(b: Bench, keys: Iterable[str]) -> None:
    """Without the pilot's waits for a quiet machine, which are most of its time."""
    for key in keys:
        b.app.post_message(Key(key, key if len(key) == 1 else None))
        for _ in range(5):
            await asyncio.sleep(0.005)


def calls_of(work: Callable[[], object]) -> int:
    """Python calls that ``work`` makes."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def complaints(weights: Iterable[tuple[str, Weight]]) -> list[str]:
    return [f"{name}: {grown}" for name, weight in weights if (grown := weight.grown()) is not None]
