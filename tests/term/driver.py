"""Textual drivers that keep what the app writes, and that can be a terminal which does not keep up."""

import threading
from io import StringIO
from typing import Any

from textual.drivers._writer_thread import WriterThread
from textual.drivers.headless_driver import HeadlessDriver


class CountingDriver(HeadlessDriver):
    """Not headless, so that the app encodes its frames; what it writes is kept.

    Use it as ``app = MyApp(driver_class=CountingDriver)`` with ``app.run_test(headless=False)``, and find it with
    `driver_of`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.written: list[str] = []

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self.written.append(data)

    def take(self) -> str:
        """What was written since the last call."""
        text = "".join(self.written)
        self.written.clear()
        return text


class _Tap(StringIO):
    """A terminal that takes bytes only while ``flowing`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.flowing = threading.Event()
        self.flowing.set()
        self.taken: list[str] = []

    def write(self, text: str) -> int:
        self.flowing.wait()
        self.taken.append(text)
        return len(text)


class StallingDriver(CountingDriver):
    """Writes through Textual's real writer thread to a terminal that the test stalls and lets flow again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tap = _Tap()
        self._writer_thread = WriterThread(self.tap)
        self._writer_thread.start()

    def write(self, data: str) -> None:
        self._writer_thread.write(data)

    def close(self) -> None:
        self.tap.flowing.set()
        self._writer_thread.stop()


def driver_of(app: Any) -> Any:
    """The driver of a running app."""
    return app._driver
