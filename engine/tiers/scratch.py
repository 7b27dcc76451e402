"""The disk tier's file: made, told from any other file, and removed.

Only a file that this process has just made is ever written to. What lies at its place already is opened for reading
alone; it is removed if it begins with our header, was made on this machine and nobody has it locked: then the engine
that made it was killed. Anything else stays as it is, and its place is refused.

No torch here: whoever ends the process in a hurry can import this.
"""

import atexit
import contextlib
import fcntl
import os
import platform
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.tiers.store import StoreError

HEADER_BYTES = 4096
"""The file's own header fills a page; what the tier keeps comes after it."""

SUFFIX = ".kv"

SPARE_MOST, SPARE_SHARE = 2**30, 20
"""Bytes of a file system that are left for others: a twentieth of it, at most a GiB."""

_MARK = b"kvtop kv scratch"
_HEADER = struct.Struct("<16sQ64s")
"""Mark, process, machine."""


def _machine() -> bytes:
    return platform.node().encode("utf-8", "surrogateescape")[:64]


@dataclass(frozen=True, slots=True)
class Removed:
    """A file that an engine left behind which was killed."""

    path: Path
    bytes: int


class ScratchFile:
    """A file of ``size`` bytes behind a header, private (0600), locked, and filled to its size: later writes find room.

    ``fd``: open for reading and writing. It is removed by `remove`, or by `remove_all` if the process ends before.
    Raises `StoreError`, naming the file, when it cannot be made; nothing of it is left then.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        _make_way(path)
        _check_room(path, HEADER_BYTES + size)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self.fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise _refused(path, error) from None
        _open[self.fd] = os.getpid(), path
        try:
            os.fchmod(self.fd, 0o600)
            # Locked before it has a header: others take no lock of a file without one.
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(self.fd, _HEADER.pack(_MARK, os.getpid(), _machine()), 0)
            _fill(self.fd, HEADER_BYTES + size)
        except BaseException as error:
            self.remove()
            if isinstance(error, OSError):
                raise _refused(path, error) from None
            raise

    def remove(self) -> None:
        """Ends the use of the file. What somebody has put in its place meanwhile stays."""
        if _open.pop(self.fd, None) is None:
            return
        with contextlib.suppress(OSError):
            _unlink(self.path, self.fd)
        with contextlib.suppress(OSError):
            os.close(self.fd)


_open: dict[int, tuple[int, Path]] = {}
"""By descriptor, the files that are in use, and the process that made each: a child has them too, and lets them be."""


@atexit.register
def remove_all() -> None:
    """Remove this process's files; for one that ends without an orderly close. Takes no lock."""
    for fd, (process, path) in list(_open.items()):
        with contextlib.suppress(OSError):
            if process == os.getpid():
                _unlink(path, fd)


def sweep(folder: Path) -> Iterator[Removed]:
    """Remove what killed engines of this machine and user have left in ``folder``."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
    except OSError:
        return
    for path in (folder / name for name in names):
        try:
            fd = _claim(path)
        except OSError:
            continue
        try:
            size = os.fstat(fd).st_size
            _unlink(path, fd)
            yield Removed(path, size)
        except OSError:
            continue
        finally:
            os.close(fd)


def _make_way(path: Path) -> None:
    """Remove what a killed engine has left at ``path``. Raises `StoreError` for everything else that lies there."""
    try:
        fd = _claim(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _refused(path, error) from None
    try:
        _unlink(path, fd)
    except OSError as error:
        raise _refused(path, error) from None
    finally:
        os.close(fd)


def _claim(path: Path) -> int:
    """A descriptor, for reading, of a file of ours that nobody uses; it has the lock. Raises OSError, `StoreError` among
    them, for any other."""
    # A pipe that nobody writes into would not be opened otherwise.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise StoreError(f"disk tier {path}: not a regular file of this user")
        header = os.pread(fd, _HEADER.size, 0)
        if not header.startswith(_MARK) or len(header) < _HEADER.size:
            raise StoreError(f"disk tier {path}: a file that holds something else is there, and it stays as it is")
        machine = _HEADER.unpack(header)[2].rstrip(b"\0")
        if machine != _machine():
            # Locks of other machines do not always show here.
            name = machine.decode("utf-8", "replace")
            raise StoreError(f"disk tier {path}: an engine on {name!r} made this file, and may still use it")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"disk tier {path}: another engine uses this file") from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check_room(path: Path, size: int) -> None:
    try:
        facts = os.statvfs(path.parent)
    except OSError as error:
        raise _refused(path, error) from None
    spare = min(SPARE_MOST, facts.f_blocks * facts.f_frsize // SPARE_SHARE)
    free = facts.f_bavail * facts.f_frsize
    # Some file systems do not say how large they are: 0 is unknown there.
    if facts.f_blocks and size > free - spare:
        raise StoreError(
            f"disk tier {path}: it would take {_size(size)}, and {_size(free)} are free there, of which {_size(spare)} are "
            "left for others"
        )


def _fill(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        os.ftruncate(fd, size)


def _unlink(path: Path, fd: int) -> None:
    """Only what is still there under this name: somebody may have put another file in its place."""
    if os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False)):
        os.unlink(path)


def _refused(path: Path, error: OSError) -> StoreError:
    return error if isinstance(error, StoreError) else StoreError(f"disk tier {path}: {error.strerror}")


def _size(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"
