"""One timer for the whole screen: the map at the governor's rate, numerals and tables at four a second."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from kvtop.term.governor import Governor

TEXT_FPS: Final = 4.0
"""A number that changes more often than this cannot be read."""

PAUSED_POLL: Final = 0.25
"""Seconds between looks at whether a paused clock may run again."""


class FrameClock:
    """Calls ``on_tick(now, text_due)`` at the governor's rate, and feeds the governor.

    ``text_due`` is true on the ticks at which numerals and tables should be redrawn too. A tick that comes late is not
    made up for. `limit` slows or stops the clock for a named reason, and the slowest reason counts.

    Args:
        on_tick: Drains the sources and updates the panels; runs in the event loop.
        governor: Sets the rate.
        backlog: Frames waiting for the terminal, asked at every tick.
        on_error: Given an exception that ``on_tick`` raised; without it the exception ends the clock's task.
        clock: Monotonic seconds.
        cpu: CPU seconds of this thread. What a frame costs is what the loop's thread used since the last tick, since
            drawing happens between two ticks.
    """

    def __init__(
        self,
        on_tick: Callable[[float, bool], None],
        *,
        governor: Governor | None = None,
        backlog: Callable[[], int] = lambda: 0,
        on_error: Callable[[Exception], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.governor = governor or Governor()
        self._on_tick = on_tick
        self._backlog = backlog
        self._on_error = on_error
        self._clock = clock
        self._cpu = cpu
        self._limits: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._text_due_at = float("-inf")
        self._cpu_before: float | None = None

    @property
    def fps(self) -> float:
        """Ticks a second now; 0 while paused."""
        return min(self.governor.fps, *self._limits.values()) if self._limits else self.governor.fps

    @property
    def paused(self) -> bool:
        return self.fps <= 0

    def limit(self, reason: str, fps: float | None) -> None:
        """Caps the rate for ``reason`` (0 pauses), or lifts that cap with None."""
        if fps is None:
            self._limits.pop(reason, None)
        else:
            self._limits[reason] = fps
        self._cpu_before = None

    def start(self) -> None:
        """Starts ticking in the running event loop; does nothing if already started."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="frame-clock")

    async def stop(self) -> None:
        """Stops ticking and waits for the timer to end."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def step(self, now: float | None = None) -> None:
        """One tick, whatever the rate: what the timer calls, and what a test calls by hand."""
        now = self._clock() if now is None else now
        cpu = self._cpu()
        if self._cpu_before is not None:
            self.governor.observe(now, backlog=self._backlog(), cost=cpu - self._cpu_before)
        self._cpu_before = cpu
        text_due = now >= self._text_due_at
        if text_due:
            self._text_due_at = now + 1 / TEXT_FPS - 1e-3
        try:
            self._on_tick(now, text_due)
        except Exception as error:
            if self._on_error is None:
                raise
            self._on_error(error)

    async def _run(self) -> None:
        due = self._clock()
        while True:
            if self.paused:
                self._cpu_before = None
                await asyncio.sleep(PAUSED_POLL)
                due = self._clock()
                continue
            self.step()
            now = self._clock()
            due = max(due + 1 / self.fps, now) if not self.paused else now
            await asyncio.sleep(max(due - now, 0.001))
