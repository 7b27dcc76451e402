"""The two sockets of an engine on the file system: claimed, replaced where stale, removed at the end."""

import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
import struct
from pathlib import Path

from kvtop.protocol.base import ProtocolError
from kvtop.protocol.hello import Hello
from kvtop.protocol.lines import LineBuffer
from kvtop.protocol.places import PlaceError, control_path, observe_path, socket_folder, valid_name
from kvtop.protocol.reading import read_frame
from kvtop.publish.errors import PublishError

BACKLOG = 64
PROBE_SECONDS = 0.5
"""How long a socket found under our name may take to accept and say hello."""

MAX_HELLO_BYTES = 1024 * 1024


def peer_of(sock: socket.socket) -> tuple[int | None, int | None]:
    """(uid, pid) of the process that connected, as the kernel noted it; None where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None, None
    pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return uid, pid


def hung_up(sock: socket.socket) -> bool:
    """Whether the peer is gone altogether; False when it only has nothing more to say."""
    poll = select.poll()
    poll.register(sock, 0)
    return bool(poll.poll(0))


def rehearse(folder: Path | None, name: str) -> None:
    """Raises `PublishError` where an engine of that name could not open its sockets; opens and removes them to know.

    For whoever has minutes of loading ahead. None is the user's socket folder.
    """
    claim = claim_place(folder, name)
    claim.observe.close()
    claim.control.close()
    claim.release()


def claim_place(folder: Path | None, name: str) -> "Claim":
    """The name and both sockets, in a folder that is made if need be. Raises `PublishError`."""
    if not valid_name(name):
        raise PublishError(
            f"{name!r} cannot name an engine; use up to 64 letters, digits, '.', '_', '-', not ending in .ctl"
        )
    try:
        if folder is None:
            folder = socket_folder(create=True)
        else:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except PlaceError as error:
        raise PublishError(str(error)) from None
    except OSError as error:
        raise PublishError(f"cannot make socket folder {folder}: {error.strerror}") from None
    return Claim(folder, name)


class Claim:
    """A name in a folder, held by a lock file for as long as the engine lives, with both sockets listening."""

    def __init__(self, folder: Path, name: str) -> None:
        """Raises `PublishError`, or OSError where the process may have no more files; the name is free again then. A live
        engine's sockets are never touched."""
        self.name = name
        self.observe_path = observe_path(folder, name)
        self.control_path = control_path(folder, name)
        self._lock_path = folder / (name + ".lock")
        self._bound: list[tuple[Path, int, int]] = []
        self._lock = self._take_lock()
        try:
            for path in (self.observe_path, self.control_path):
                self._clear(path)
            self.observe = self._listen(self.observe_path)
            try:
                self.control = self._listen(self.control_path)
            except BaseException:
                self.observe.close()
                raise
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Remove what is still ours and let go of the name. The listening sockets are closed by their user."""
        for path, device, inode in self._bound:
            with contextlib.suppress(OSError):
                info = path.lstat()
                if (info.st_dev, info.st_ino) == (device, inode):
                    path.unlink()
        self._bound = []
        if self._lock >= 0:
            with contextlib.suppress(OSError):
                self._lock_path.unlink()
            os.close(self._lock)
            self._lock = -1

    def _take_lock(self) -> int:
        while True:
            try:
                lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                os.fchmod(lock, 0o600)  # whatever the umask: the next engine of that name opens it too
            except OSError as error:
                raise PublishError(f"cannot open {self._lock_path}: {error.strerror}") from None
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(lock)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise self._taken(self.observe_path) from None
                raise PublishError(f"cannot lock {self._lock_path}: {error.strerror}") from None
            # An engine that is just leaving may have removed the file between open and lock.
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(lock), self._lock_path.stat()):
                    return lock
            os.close(lock)

    def _clear(self, path: Path) -> None:
        """Remove a dead engine's socket."""
        try:
            info = path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(info.st_mode):
            raise PublishError(f"{path} exists and is not a socket; remove it or use another name")
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with probe:
            probe.settimeout(PROBE_SECONDS)
            try:
                probe.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()
                return
            except (TimeoutError, BlockingIOError):
                pass
            except OSError as error:
                raise PublishError(f"cannot tell whether {path} is in use: {error.strerror or error}") from None
        raise self._taken(path)

    def _taken(self, path: Path) -> PublishError:
        pid = _pid_at(path)
        who = f"pid {pid}" if pid is not None else "its pid is not known"
        return PublishError(
            f"an engine named {self.name!r} is already running here ({who}); stop it or choose another name"
        )

    def _listen(self, path: Path) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Linux gives the file the mode of the unbound socket, so that it is never open to others;
            # elsewhere the folder's mode covers the moment until chmod.
            with contextlib.suppress(OSError):
                os.fchmod(listener.fileno(), 0o600)
            listener.bind(str(path))
            path.chmod(0o600)
            info = path.lstat()
            self._bound.append((path, info.st_dev, info.st_ino))
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            reason = error.strerror or str(error)
            if "too long" in reason:
                reason = (
                    f"its path has {len(os.fsencode(path))} bytes, more than a socket's may have; "
                    "set KVTOP_SOCKET_DIR to a shorter folder"
                )
            raise PublishError(f"cannot open socket {path}: {reason}") from None
        return listener


def _pid_at(path: Path) -> int | None:
    """The pid in the hello of the engine at ``path``, where it says hello in time."""
    lines = LineBuffer(MAX_HELLO_BYTES)
    with contextlib.suppress(OSError, ProtocolError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_SECONDS)
        probe.connect(str(path))
        while data := probe.recv(65536):
            lines.feed(data)
            if (line := lines.next()) is not None:
                hello = read_frame(line).frame
                return hello.engine.pid if isinstance(hello, Hello) else None
    return None
