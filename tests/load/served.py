"""The server of `tests.load.server` in a thread, for commands in processes of their own."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.load.server import Server


@pytest.fixture
def served() -> Iterator[Server]:
    server, loop, up = Server(), asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def serve() -> None:
        async with server.running():
            up.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert up.wait(30)
    yield server
    loop.call_soon_threadsafe(over.set)
    thread.join(30)
