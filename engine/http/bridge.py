"""From the engine's thread to the event loop of the HTTP server: it calls, nobody polls, and it never waits.

An iteration has news for many streams at once; the loop is woken once for all of them.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence

from engine.requests.stream import Output
from engine.serving.handle import RequestHandle


class Wakeups:
    """Sets events of ``loop`` from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: deque[asyncio.Event] = deque()
        self._called = False

    def wake(self, event: asyncio.Event) -> None:
        """From any thread."""
        self._due.append(event)
        if not self._called:
            self._called = True
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits
                self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        # In this order: who appends after the last look finds the flag down, and calls again.
        self._called = False
        while self._due:
            self._due.popleft().set()


class Outputs:
    """What several requests put out, read on the event loop."""

    def __init__(self, handles: Sequence[RequestHandle], wakeups: Wakeups) -> None:
        self.handles = handles
        self._news = asyncio.Event()
        self.gone = False
        """Nobody wants more of it."""
        for handle in handles:
            handle.stream.listen(lambda: wakeups.wake(self._news))

    def cancel(self) -> None:
        """Nobody wants more of it: all that lives of it ends, and so does `batches`."""
        self.gone = True
        for handle in self.handles:
            handle.cancel()
        self._news.set()

    async def batches(self) -> AsyncIterator[list[tuple[int, Output]]]:
        """All that is new, each with the place of its request, as soon as there is anything; ends when all have ended, or
        with `cancel`."""
        open_ = dict(enumerate(self.handles))
        while open_ and not self.gone:
            self._news.clear()
            batch: list[tuple[int, Output]] = []
            for place, handle in list(open_.items()):
                ended = handle.ended  # asked before the last of it is read
                batch += [(place, output) for output in handle.stream.take()]
                if ended:
                    del open_[place]
            if batch:
                yield batch
            elif open_:
                await self._news.wait()
