"""Files of a flight recorder: where they go, how many are kept, and that no flood of alarms becomes a flood of files."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kvtop.publish.flight import FlightRecorder
from kvtop.record.files import is_of, new_file, stamped
from kvtop.record.sink import FOLDER_MODE

KEPT = 8
"""Files of one engine's name; the oldest go when another comes."""

SPACING_S = 60.0
"""Seconds in which one file is written of the engine's own accord; a command is always done."""

PATIENCE_S = 5.0
"""Seconds that an engine which is about to end waits for its file."""

_LOG = logging.getLogger(__name__)


class Dumped(NamedTuple):
    """What became of one dump. ``error`` says, in a sentence, why there is no file; it is empty where there is one."""

    why: str
    path: Path
    size: int = 0
    error: str = ""

    @property
    def sentence(self) -> str:
        if self.error:
            return f"the flight recorder could not be written ({self.why}): {self.error}"
        return f"the flight recorder was written ({self.why}): {self.path}"


def dumps_folder(env: Mapping[str, str] = os.environ) -> Path:
    """``$XDG_STATE_HOME/kvtop/flight``; that is ``~/.local/state/kvtop/flight`` by default."""
    state = Path(env.get("XDG_STATE_HOME", ""))
    home = Path(env.get("HOME") or os.path.expanduser("~"))
    return (state if state.is_absolute() else home / ".local" / "state") / "kvtop" / "flight"


class Dumps:
    """Writes what ``recorder`` holds, one file at a time, each in a thread of its own.

    ``folder``: made if need be (0700). ``news``: called from that thread when there is something for `take`.
    """

    def __init__(
        self,
        recorder: FlightRecorder,
        name: str,
        *,
        folder: Path | None = None,
        news: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._recorder, self._name = recorder, name
        self.folder = dumps_folder() if folder is None else folder
        self._news, self._clock, self._wall = news, clock, wall
        self._done: deque[Dumped] = deque(maxlen=64)
        self._writing: threading.Thread | None = None
        self._last = float("-inf")
        self.left_out = 0
        """Alarms of which no file was written because there was one just before."""

    def alarm(self, why: str) -> bool:
        """Writes a file unless one has just been written for another alarm. Returns at once; whether there will be one."""
        now = self._clock()
        if now - self._last < SPACING_S or self._is_writing:
            self.left_out += 1
            return False
        self._last = now
        self._start(why, None)
        return True

    def command(self, why: str, done: Callable[[Dumped], None]) -> bool:
        """Writes a file and calls ``done``, in another thread. False where one is being written already."""
        if self._is_writing:
            return False
        self._start(why, done)
        return True

    def write(self, why: str) -> Dumped | None:
        """Writes a file before it returns: for an engine that is about to end. None where the disk takes longer than
        `PATIENCE_S`: others wait for that end."""
        done: list[Dumped] = []
        until = self._clock() + PATIENCE_S
        if self._writing is not None:
            self._writing.join(PATIENCE_S)
        if self._is_writing:
            return None
        self._start(why, done.append)
        assert self._writing is not None
        self._writing.join(max(0.1, until - self._clock()))
        return done[0] if done else None

    def take(self) -> list[Dumped]:
        """What has become of dumps since the last call."""
        done: list[Dumped] = []
        while self._done:
            done.append(self._done.popleft())
        return done

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and self._writing.is_alive()

    def _start(self, why: str, done: Callable[[Dumped], None] | None) -> None:
        def work() -> None:
            dumped = self._write(why)
            self._done.append(dumped)
            if done is not None:
                done(dumped)
            self._news()

        self._writing = threading.Thread(target=work, name="kvtop-flight", daemon=True)
        self._writing.start()

    def _write(self, why: str) -> Dumped:
        """Never raises."""
        path, sizes = self.folder / stamped(self._name, self._wall()), []
        try:
            self.folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            path = new_file(self.folder, self._name, self._wall(), lambda free: sizes.append(self._recorder.dump(free)))
            dumped = Dumped(why, path, sizes[0])
            self._retire(path)
        except OSError as error:
            dumped = Dumped(why, path, error=f"{error.filename or path}: {error.strerror or error}")
        except Exception as error:
            dumped = Dumped(why, path, error=str(error) or type(error).__name__)
        _LOG.warning("kvtop: %s", dumped.sentence)
        return dumped

    def _retire(self, newest: Path) -> None:
        """Removes the oldest files of this engine's name beyond `KEPT`; the newest is never among them."""
        files = [entry for entry in self.folder.iterdir() if is_of(self._name, entry.name) and entry != newest]
        files.sort(key=lambda entry: (entry.stat().st_mtime_ns, entry.name))
        for old in files[: max(0, len(files) - (KEPT - 1))]:
            old.unlink(missing_ok=True)
