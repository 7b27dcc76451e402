"""Where chunks go: a file that always ends with a whole chunk."""

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from kvtop.record.chunk import Packed

FILE_MODE = 0o600
FOLDER_MODE = 0o700


class Sink(Protocol):
    """A store of chunks."""

    def append(self, chunks: Sequence[Packed]) -> None:
        """All of them or none. Raises OSError, and is as it was before then."""

    def close(self) -> None:
        """Nothing comes any more. May be repeated."""


class FileSink:
    """Appends to a file of its own, mode 0600.

    A chunk is given to the system in one write, so that what has been appended outlives the process (``kill -9``), and is
    forced to the disk (fdatasync) before `append` returns, so that it outlives the machine; ``forced`` false leaves that to
    the system. After a write that failed half-way the file is cut back to its last whole chunk.
    """

    def __init__(self, path: Path, *, forced: bool = True) -> None:
        """Creates ``path``. Raises OSError, FileExistsError where there is such a file."""
        self.path = Path(path)
        self.size = 0
        self._forced = forced
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with contextlib.suppress(OSError):  # some file systems have no locks
            # Says to those who remove old recordings that this one is being written.
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def append(self, chunks: Sequence[Packed]) -> None:
        data = b"".join(chunk.blob for chunk in chunks)
        try:
            self._write(data)
            if self._forced:
                self.force()
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self.size)
            raise
        self.size += len(data)

    def force(self) -> None:
        """To the disk now. Raises OSError."""
        os.fdatasync(self._file)

    def _write(self, data: bytes) -> None:
        """At the end of the last whole chunk, whatever a failure may have left behind it."""
        written = 0
        while written < len(data):
            written += os.pwrite(self._file, data[written:], self.size + written)

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)
