"""From the engine's thread to the event loop: nothing is lost, nobody polls, and one call wakes all."""

import asyncio
import threading
from collections.abc import Callable

from engine.http.bridge import Outputs, Wakeups
from engine.requests.stream import OutputStream


class Handle:
    """As much of a request's handle as is asked for here."""

    def __init__(self) -> None:
        self.stream = OutputStream(1)
        self.cancelled = 0

    @property
    def ended(self) -> bool:
        return self.stream.ended

    def cancel(self) -> None:
        self.cancelled += 1


class CountingLoop:
    """Calls nothing by itself."""

    def __init__(self) -> None:
        self.called: list[Callable[[], None]] = []

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        self.called.append(call)


def test_an_iterations_news_wake_the_loop_once() -> None:
    loop = CountingLoop()
    wakeups = Wakeups(loop)  # type: ignore[arg-type]
    events = [asyncio.Event() for _ in range(50)]
    for event in events:
        wakeups.wake(event)
    assert len(loop.called) == 1
    loop.called.pop()()
    assert all(event.is_set() for event in events)
    wakeups.wake(events[0])
    assert len(loop.called) == 1


def test_whatever_a_thread_puts_into_streams_comes_out_in_order() -> None:
    handles = [Handle() for _ in range(8)]

    def engine() -> None:
        for number in range(500):
            for handle in handles:
                handle.stream.put(0, [number])
        for handle in handles:
            handle.stream.end(0, "length")

    async def read() -> list[list[int]]:
        outputs = Outputs(handles, Wakeups(asyncio.get_running_loop()))  # type: ignore[arg-type]
        writing = threading.Thread(target=engine)
        writing.start()
        got: list[list[int]] = [[] for _ in handles]
        async for batch in outputs.batches():
            for place, output in batch:
                got[place] += output.token_ids
        writing.join()
        return got

    assert asyncio.run(asyncio.wait_for(read(), 60.0)) == [list(range(500))] * 8


def test_who_is_cancelled_stops_waiting() -> None:
    handles = [Handle(), Handle()]

    async def read() -> int:
        outputs = Outputs(handles, Wakeups(asyncio.get_running_loop()))  # type: ignore[arg-type]
        asyncio.get_running_loop().call_later(0.01, outputs.cancel)
        return len([batch async for batch in outputs.batches()])

    assert asyncio.run(asyncio.wait_for(read(), 60.0)) == 0
    assert [handle.cancelled for handle in handles] == [1, 1]


def test_an_engine_that_outlives_the_loop_does_not_mind() -> None:
    handle = Handle()

    async def leave() -> None:
        Outputs([handle], Wakeups(asyncio.get_running_loop()))  # type: ignore[list-item]

    asyncio.run(leave())
    handle.stream.put(0, [1])
    handle.stream.end(0, "length")
    assert handle.stream.take()[0].token_ids == (1,)
