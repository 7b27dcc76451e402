"""Where engines put their sockets, and who may be trusted there."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OBSERVE_SUFFIX = ".sock"
CONTROL_SUFFIX = ".ctl.sock"

BOUND_SOCKETS = Path("/proc/net/unix")
"""Where Linux lists the paths of all bound sockets, the last word of each line."""

USERS_RUNTIME = Path("/run/user")
TEMP_VARIABLES = ("TMPDIR", "TEMP", "TMP")
TEMP_FOLDERS = ("/tmp", "/var/tmp", "/usr/tmp")


class PlaceError(OSError):
    """The socket folder cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which engines of this user may have sockets. ``trouble``: why it is not looked into, else empty."""

    folder: Path
    trouble: str = ""


def socket_folder(create: bool = False) -> Path:
    """Where an engine started from here has its sockets: ``$XDG_RUNTIME_DIR/kvtop``, else ``kvtop-UID`` under the temp dir.

    The folder must belong to this user and be closed to others; `PlaceError` otherwise. It need not exist
    unless ``create``. ``$KVTOP_SOCKET_DIR`` overrides the place.
    """
    folder = _chosen(os.environ)
    if create:
        _make(folder)
    if trouble := _trouble(folder):
        raise PlaceError(trouble)
    return folder


def places() -> list[Place]:
    """Every folder in which an engine of this user can have its sockets; the first is `socket_folder`.

    An engine may have been started in another environment (by cron, by a login shell). With ``$KVTOP_SOCKET_DIR`` set
    that folder is the only one. Raises `PlaceError` where there is none.
    """
    first = _chosen(os.environ)
    others = () if os.environ.get("KVTOP_SOCKET_DIR") else _possible(os.environ)
    found: dict[str, Place] = {}
    for folder in (first, *others):
        found.setdefault(os.path.realpath(folder), Place(folder, _trouble(folder)))
    return list(found.values())


def _chosen(env: Mapping[str, str]) -> Path:
    if override := env.get("KVTOP_SOCKET_DIR"):
        try:
            return Path(override).absolute()
        except OSError as error:
            raise PlaceError(
                f"KVTOP_SOCKET_DIR {override}: the current folder: {error.strerror}; name a whole path"
            ) from None
    if (runtime := _runtime(env)) is not None:
        return runtime / "kvtop"
    for folder in _temp_folders(env):
        if os.access(folder, os.W_OK | os.X_OK):
            return folder / f"kvtop-{os.getuid()}"
    raise PlaceError("no folder for temporary files can be written to; set KVTOP_SOCKET_DIR to a folder of yours")


def _runtime(env: Mapping[str, str]) -> Path | None:
    """``$XDG_RUNTIME_DIR`` where it is what the specification demands: a whole path, and this user's.

    After ``su`` and ``sudo -E`` it is another user's, whose sockets a folder of ours would be in the way of.
    """
    path = Path(env.get("XDG_RUNTIME_DIR", ""))
    return path if path.is_absolute() and _owner(path) == os.getuid() else None


def _owner(folder: Path) -> int | None:
    """None where there is no folder."""
    try:
        info = folder.stat()
    except (OSError, ValueError):
        return None
    return info.st_uid if stat.S_ISDIR(info.st_mode) else None


def _temp_folders(env: Mapping[str, str]) -> list[Path]:
    """As programs choose among them, first come first; the current folder, which others fall back to, is none."""
    named = [Path(env[name]) for name in TEMP_VARIABLES if env.get(name)]
    return [path for path in (*named, *map(Path, TEMP_FOLDERS)) if path.is_absolute() and _owner(path) is not None]


def _possible(env: Mapping[str, str]) -> Iterator[Path]:
    """Folders that engines can have chosen in this environment or another."""
    user = os.getuid()
    for runtime in (_runtime(env), USERS_RUNTIME / str(user)):
        if runtime is not None and _owner(runtime) == user:
            yield runtime / "kvtop"
    for folder in _temp_folders(env):
        yield folder / f"kvtop-{user}"
    for path in _bound_sockets():
        if path.name.endswith(OBSERVE_SUFFIX) and path.parent.name in ("kvtop", f"kvtop-{user}"):
            yield path.parent


def _bound_sockets() -> list[Path]:
    try:
        lines = BOUND_SOCKETS.read_text(errors="replace").splitlines()[1:]
    except OSError:
        return []  # another system, or one that does not tell
    words = [line.split(maxsplit=7) for line in lines]
    return [Path(word[7]) for word in words if len(word) == 8 and word[7].startswith("/")]


def _make(folder: Path) -> None:
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)  # whatever the umask
    except FileExistsError:
        pass  # and is none: `_trouble` says so
    except OSError as error:
        raise PlaceError(
            f"socket folder {folder}: {error.strerror}; set KVTOP_SOCKET_DIR to a folder of yours"
        ) from None


def _trouble(folder: Path) -> str:
    """Why ``folder`` cannot be used, in a sentence; empty where it can, and where it is not there."""
    try:
        info = folder.lstat()
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        return f"socket folder {folder}: {reason}; set KVTOP_SOCKET_DIR to a folder of yours"
    if not stat.S_ISDIR(info.st_mode):
        return f"socket folder {folder} is not a folder; remove it or set KVTOP_SOCKET_DIR"
    if info.st_uid != os.getuid():
        return f"socket folder {folder} belongs to uid {info.st_uid}, not to you; set KVTOP_SOCKET_DIR"
    if info.st_mode & 0o077:
        return f"socket folder {folder} is open to others (mode {info.st_mode & 0o777:o}); run: chmod 700 {folder}"
    return ""


def valid_name(name: str) -> bool:
    """Whether an engine may be called so: letters, digits, dot, dash, underscore; 64 at most; no ``.ctl`` ending."""
    return NAME.fullmatch(name) is not None and not name.endswith(".ctl")


def observe_path(folder: Path, name: str) -> Path:
    return folder / (name + OBSERVE_SUFFIX)


def control_path(folder: Path, name: str) -> Path:
    return folder / (name + CONTROL_SUFFIX)


def engine_names(folder: Path) -> list[str]:
    """Names that have an observing socket in ``folder`` (alive or not), sorted."""
    try:
        entries = [e.name for e in folder.iterdir()]
    except FileNotFoundError:
        return []
    return sorted(
        e.removesuffix(OBSERVE_SUFFIX) for e in entries if e.endswith(OBSERVE_SUFFIX) and not e.endswith(CONTROL_SUFFIX)
    )
