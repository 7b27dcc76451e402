"""A viewer as it is used, in a terminal of its own: what it costs at rest, how soon it paints, how far it lags behind."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import psutil

from kvtop.publish.publisher import Publisher
from tests.perf.big_engine import STEP_S, BigEngine

SIZE = (200, 50)


class Terminal:
    """``kvtop attach`` in a pseudo terminal that reads all it writes. ``heard(text, when)`` gets every piece."""

    def __init__(self, folder: Path, name: str, heard: Callable[[bytes, float], None] = lambda *_: None) -> None:
        self._heard = heard
        self.written = 0
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            environ = os.environ | {
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "XDG_RUNTIME_DIR": str(folder),
                "LANG": "C.UTF-8",
            }
            os.execve(sys.executable, [sys.executable, "-m", "kvtop", "attach", name], environ)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        self.process = psutil.Process(self.pid)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self._file)

    def _read(self) -> None:
        while True:
            try:
                select.select([self._file], [], [])
                data = os.read(self._file, 1 << 16)
            except (OSError, ValueError):
                return
            self.written += len(data)
            self._heard(data, time.monotonic())

    def type(self, keys: str) -> None:
        for key in keys:
            os.write(self._file, key.encode())
            # Esc and a key at once are Alt and that key.
            time.sleep(0.5)

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        if self.process.status() == psutil.STATUS_ZOMBIE:
            raise RuntimeError("the viewer has ended")
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def resident(self) -> int:
        """Bytes."""
        return int(self.process.memory_info().rss)

    def share(self, seconds: float) -> float:
        """Of a core, over so long from now on."""
        began, used = time.monotonic(), self.cpu
        time.sleep(seconds)
        return (self.cpu - used) / (time.monotonic() - began)


class Engine:
    """A made-up engine behind a real socket, whose frames come 20 times a second while it is `busy`."""

    def __init__(self, blocks: int, requests: int, *, events: int = 2) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.folder.chmod(0o700)
        self.engine = BigEngine(blocks, requests)
        self.engine.mono, self.engine.wall = time.monotonic(), time.time()
        self._events = events
        self.publisher = Publisher(self.engine.hello(), self.folder / "kvtop")
        self.busy = True
        self.sent = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Engine":
        self.publisher.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join(10)
        self.publisher.stop()
        self._folder.cleanup()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            if (self.publisher.keyframe_due() and not self.publisher.viewers) or self._wanted():
                self.publisher.publish_keyframe(self.engine.keyframe())
            if self.busy:
                self.sent = time.monotonic()
                self.publisher.publish(self.engine.frame(events=self._events))
            due = max(due + STEP_S, time.monotonic())
            self._ended.wait(due - time.monotonic())

    def _wanted(self) -> bool:
        return self.publisher.keyframe_due() and self.publisher._schedule._wanted

    def ready(self, within: float = 120.0) -> None:
        """Waits for its first keyframe: a large one takes seconds to make, on a core that a viewer would start on."""
        until = time.monotonic() + within
        while self.publisher.keyframe_due():
            if time.monotonic() > until:
                raise TimeoutError("the engine made no keyframe")
            time.sleep(0.05)
        time.sleep(1.0)

    def say(self, status: str) -> None:
        """Tells a new status, and nothing more while it is not `busy`."""
        self.busy = False
        time.sleep(2 * STEP_S)
        self.engine.status = status
        self.publisher.publish_keyframe(self.engine.keyframe())


def settled(terminal: Terminal, engine: Engine, within: float = 60.0) -> None:
    """Waits until the viewer has drawn its first frames."""
    until = time.monotonic() + within
    while engine.publisher.viewers == 0 or terminal.written < 10_000:
        if time.monotonic() > until:
            raise TimeoutError("the viewer never drew anything")
        time.sleep(0.05)
    time.sleep(3.0)
