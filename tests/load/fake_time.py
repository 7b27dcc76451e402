"""An event loop whose time passes only while everybody waits, and then at once: hours of load in a moment."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar


class _NoWait(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
    def __init__(self, loop: "FakeTimeLoop") -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout:
            self._loop.pass_time(timeout)
        return super().select(0 if timeout is not None else None)


class FakeTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_NoWait(self))

    def time(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        """Also for code that is to seem slow."""
        self._now += seconds


T = TypeVar("T")


def run_fast(coroutine: Coroutine[Any, Any, T]) -> T:
    loop = FakeTimeLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()
