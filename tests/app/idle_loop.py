"""The loop that tests of the screen run in: it knows when nothing is left to do.

Textual's pilot waits until the processor has been quiet for 20 ms: that is most of the time a key takes, and on a machine
that is busy with other things it ends before the key has had its effect. Here a wait ends when the loop would fall
asleep, and timers that are due within those 20 ms have come at once.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

SOON_S = 0.02
"""Timers due so soon belong to what is waited for: the screen is painted by one."""

ANSWER_S = 0.1
"""For threads of the app: what they deliver is waited for so long at most, as an engine may never answer."""


class IdleLoop(asyncio.SelectorEventLoop):
    """`idle` is what is new."""

    def __init__(self) -> None:
        super().__init__(_Selector(self.before_sleep))
        self._skipped = 0.0
        self._waits: list[_Wait] = []

    def time(self) -> float:
        return super().time() + self._skipped

    async def idle(self) -> None:
        """Returns once all that was to be done is done."""
        wait = _Wait(self.create_future(), self.time() + SOON_S, time.monotonic() + ANSWER_S)
        self._waits.append(wait)
        await wait.over

    def before_sleep(self, seconds: float | None) -> float | None:
        """Called when nothing is left to do until the next timer, in ``seconds``; how long to sleep instead."""
        if not self._waits:
            return seconds
        if seconds is not None and self.time() + seconds <= max(wait.horizon for wait in self._waits):
            self._skipped += seconds
            return 0.0
        now = time.monotonic()
        for wait in self._waits:
            if not wait.over.done() and (now >= wait.until or not _threads()):
                wait.over.set_result(None)
        self._waits = [wait for wait in self._waits if not wait.over.done()]
        return 0.001 if self._waits else 0.0


class _Wait:
    """``horizon``: of the loop's time; ``until``: of the clock's."""

    def __init__(self, over: asyncio.Future[None], horizon: float, until: float) -> None:
        self.over, self.horizon, self.until = over, horizon, until


class _Selector(selectors.DefaultSelector):
    def __init__(self, before_sleep: Callable[[float | None], float | None]) -> None:
        super().__init__()
        self._before_sleep = before_sleep

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(timeout)
        # What has come from threads in the meantime goes before.
        return super().select(0) or super().select(self._before_sleep(timeout))


def _threads() -> list[threading.Thread]:
    """Of the app, at work."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("kvtop-")]


def run_in_idle_loop(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run`, with the pilot's waits ended when there is nothing to wait for."""
    with asyncio.Runner(loop_factory=IdleLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, IdleLoop)

        async def idle(_least: float = 0, _most: float = 1) -> None:
            await loop.idle()

        with (
            patch("textual.app.wait_for_idle", idle),
            patch("textual.pilot.wait_for_idle", idle),
            patch("textual._time.get_time", loop.time),
        ):
            runner.run(main)
