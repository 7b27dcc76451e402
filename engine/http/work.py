"""Work that would hold up everybody's streams goes to threads of its own: large bodies, and chat templates, which can loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from engine.http.bodies import Body

SMALL_BODY = 8192
"""Bytes that are read on the event loop itself."""

_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="http-body")

Made = TypeVar("Made")


async def away(make: Callable[[], Made]) -> Made:
    """What ``make`` returns or raises, from another thread."""
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, make)


async def by_size(body: Body, make: Callable[[], Made]) -> Made:
    """The same, here where ``body`` is small."""
    return make() if len(body) <= SMALL_BODY else await away(make)
