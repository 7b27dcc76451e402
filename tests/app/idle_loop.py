"""The loop that tests of the screen run in: it knows when nothing is left to do.

Textual's pilot waits until the processor has been quiet for 20 ms: that is most of the time a key takes, and on a machine
that is busy with other things it ends before the key has had its effect. Here a wait ends when the loop would fall
asleep, and timers that are due soon come at once.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import patch

SOON_S = 0.05
"""Timers due so soon belong to what is waited for: one that fires sixty times a second lays the screen out and paints it,
and its next time may be the one after the next."""

SKIPPED_S = 0.2
"""In one wait at most: some timers come again and again."""

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
        wait = _Wait(self.create_future(), self._skipped + SKIPPED_S, time.monotonic() + ANSWER_S)
        self._waits.append(wait)
        await wait.over

    def before_sleep(self, seconds: float | None) -> float | None:
        """Called when nothing is left to do until the next timer, in ``seconds``; how long to sleep instead."""
        if not self._waits:
            return seconds
        if seconds is not None and seconds <= SOON_S and self._skipped < max(wait.most for wait in self._waits):
            self._skipped += seconds
            return 0.0
        now = time.monotonic()
        for wait in self._waits:
            if not wait.over.done() and (now >= wait.until or not _threads()):
                wait.over.set_result(None)
        self._waits = [wait for wait in self._waits if not wait.over.done()]
        return 0.001 if self._waits else 0.0


class _Wait:
    """``most``: seconds that may have been skipped by its end; ``until``: by the clock, if threads are at work."""

    def __init__(self, over: asyncio.Future[None], most: float, until: float) -> None:
        self.over, self.most, self.until = over, most, until


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
