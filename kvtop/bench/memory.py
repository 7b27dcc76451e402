"""How much memory a server on this machine holds, looked at from outside; Linux only, elsewhere it is unknown."""

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from kvtop.load.target import is_loopback

PROC = Path("/proc")
_LISTENS = "0A"


def server_pid(url: str, proc: Path = PROC) -> int | None:
    """The process that listens at the port of a URL; None where it is not this user's, or not on this machine."""
    parts = urlsplit(url)
    if not is_loopback(url):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    sockets = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    return next((pid for pid in _pids(proc) if sockets and sockets & _files(pid, proc)), None)


def resident_bytes(pid: int, proc: Path = PROC) -> int | None:
    """Of a process and all that descend from it; pages that they share are counted for each."""
    children: dict[int, list[int]] = {}
    for each in _pids(proc):
        if (parent := _parent(each, proc)) is not None:
            children.setdefault(parent, []).append(each)
    family, found = [pid], []
    while family:
        each = family.pop()
        family += children.get(each, [])
        found.append(_resident(each, proc))
    known = [pages for pages in found if pages is not None]
    return sum(known) * os.sysconf("SC_PAGE_SIZE") if known else None


def _listening(port: int, proc: Path) -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        for line in _read(proc / "net" / name).splitlines()[1:]:
            cells = line.split()
            if len(cells) > 9 and cells[3] == _LISTENS and cells[1].endswith(f":{port:04X}"):
                yield cells[9]


def _pids(proc: Path) -> Iterator[int]:
    try:
        yield from (int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    except OSError:
        return


def _files(pid: int, proc: Path) -> set[str]:
    found = set()
    try:
        for entry in (proc / str(pid) / "fd").iterdir():
            found.add(str(entry.readlink()))
    except OSError:
        pass  # Another user's, or gone meanwhile.
    return found


def _parent(pid: int, proc: Path) -> int | None:
    # The name, in brackets, may hold anything, brackets and blanks too.
    cells = _read(proc / str(pid) / "stat").rpartition(")")[2].split()
    return int(cells[1]) if len(cells) > 1 else None


def _resident(pid: int, proc: Path) -> int | None:
    cells = _read(proc / str(pid) / "statm").split()
    return int(cells[1]) if len(cells) > 1 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
