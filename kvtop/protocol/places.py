"""Where engines put their sockets, and who may be trusted there."""

import os
import re
import stat
import tempfile
from pathlib import Path

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
OBSERVE_SUFFIX = ".sock"
CONTROL_SUFFIX = ".ctl.sock"


class PlaceError(OSError):
    """The socket folder cannot be used; the text says why and what to do."""


def socket_folder(create: bool = False) -> Path:
    """``$XDG_RUNTIME_DIR/kvtop``, else ``kvtop-UID`` under the temp dir.

    The folder must belong to this user and be closed to others; `PlaceError` otherwise. It need not exist
    unless ``create``. ``$KVTOP_SOCKET_DIR`` overrides the place.
    """
    if override := os.environ.get("KVTOP_SOCKET_DIR"):
        folder = Path(override)
    elif (runtime := os.environ.get("XDG_RUNTIME_DIR")) and Path(runtime).is_dir():
        folder = Path(runtime) / "kvtop"
    else:
        folder = Path(tempfile.gettempdir()) / f"kvtop-{os.getuid()}"
    try:
        if create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.lstat()
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise PlaceError(
            f"socket folder {folder}: {error.strerror}; set KVTOP_SOCKET_DIR to a folder of yours"
        ) from None
    if not stat.S_ISDIR(info.st_mode):
        raise PlaceError(f"socket folder {folder} is not a folder; remove it or set KVTOP_SOCKET_DIR")
    if info.st_uid != os.getuid():
        raise PlaceError(f"socket folder {folder} belongs to uid {info.st_uid}, not to you; set KVTOP_SOCKET_DIR")
    if info.st_mode & 0o077:
        raise PlaceError(
            f"socket folder {folder} is open to others (mode {info.st_mode & 0o777:o}); run: chmod 700 {folder}"
        )
    return folder


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
