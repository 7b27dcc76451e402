"""Recordings of one engine in a folder: one file after another, and old ones removed where that is wanted."""

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kvtop.record.chunk import Packed
from kvtop.record.sink import FOLDER_MODE, FileSink

ENDING = ".kvtop"
MOST_ALIKE = 1000
"""Files of one engine begun in one second."""

_STAMP = "%Y%m%dT%H%M%SZ"


class Keeping(NamedTuple):
    """Of files of one engine's name: how large each becomes (bytes), and what is kept of all; None: no bound."""

    file_bytes: int
    all_bytes: int | None = None
    seconds: float | None = None


def stamped(name: str, wall: float) -> str:
    """``demo-20261201T114642Z``: what a recording of engine ``name`` that begins at ``wall`` (Unix seconds) is called."""
    return f"{name}-{time.strftime(_STAMP, time.gmtime(wall))}"


def is_of(name: str, file: str) -> bool:
    """Whether a file of this name is a recording of engine ``name``, called so by `stamped`."""
    return re.fullmatch(re.escape(name) + r"-\d{8}T\d{6}Z(-\d+)?" + re.escape(ENDING), file) is not None


def new_file(folder: Path, name: str, wall: float, make: Callable[[Path], None]) -> Path:
    """Calls ``make`` with names that say what they are until one was free. Raises OSError, FileExistsError at last."""
    stem = stamped(name, wall)
    for number in range(1, MOST_ALIKE):
        path = folder / f"{stem}{f'-{number}' if number > 1 else ''}{ENDING}"
        with contextlib.suppress(FileExistsError):
            make(path)
            return path
    raise FileExistsError(17, f"{MOST_ALIKE - 1} recordings begin with {stem} already", str(folder))


class RecordingFiles:
    """A store of chunks (`kvtop.record.Sink`): a new file when one has its size, at a chunk that reading can start at.

    ``begun``: told of each file. Files that others are writing are never removed, nor any but those of this engine's name.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        keeping: Keeping,
        *,
        begun: Callable[[Path], None] = lambda _: None,
        wall: Callable[[], float] = time.time,
        forced: bool = True,
    ) -> None:
        self._folder, self._name, self._keeping = folder, name, keeping
        self._begun, self._wall, self._forced = begun, wall, forced
        self._file: FileSink | None = None
        self._looked = float("-inf")
        self.bytes = 0
        """Written, in all files."""

    @property
    def path(self) -> Path | None:
        """Of the file that is written now."""
        return None if self._file is None else self._file.path

    def append(self, chunks: Sequence[Packed]) -> None:
        size = sum(len(chunk.blob) for chunk in chunks)
        whole = any(chunk.summary.entry for chunk in chunks)
        file = self._file
        if file is not None and whole and file.size and file.size + size > self._keeping.file_bytes:
            file.close()
            file = self._file = None
        if file is None:
            file = self._file = self._open()
        before = file.size
        file.append(chunks)
        self.bytes += file.size - before
        self._retire()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open(self) -> FileSink:
        made: list[FileSink] = []
        self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path = new_file(
            self._folder,
            self._name,
            self._wall(),
            lambda path: made.append(FileSink(path, forced=self._forced)),
        )
        self._begun(path)
        return made[0]

    def _retire(self) -> None:
        """Removes what is too old or too much, the oldest first; what cannot be removed stays."""
        keeping, now = self._keeping, self._wall()
        if keeping.all_bytes is None and keeping.seconds is None:
            return
        if 0.0 <= now - self._looked < 1.0:
            return
        self._looked = now
        with contextlib.suppress(OSError):
            found = [(entry, entry.stat()) for entry in self._folder.iterdir() if is_of(self._name, entry.name)]
            found.sort(key=lambda pair: (pair[1].st_mtime, pair[0].name))
            total = sum(info.st_size for _, info in found)
            for path, info in found:
                much = keeping.all_bytes is not None and total > keeping.all_bytes
                old = keeping.seconds is not None and now - info.st_mtime > keeping.seconds
                if (much or old) and path != self.path and _removed(path):
                    total -= info.st_size


def _removed(path: Path) -> bool:
    """Removes it unless somebody is writing it."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(file)
    return True
