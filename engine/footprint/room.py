"""How much memory there is: the machine's, less where a container or a limit of the process allows less.

A machine's free memory says nothing in a container: what ends the process there is the limit of its control group. The limit
that leaves least is the one that counts.
"""

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

NO_LIMIT = 1 << 60
"""Bytes from which on a limit is none: control groups of the first version have a large number there."""


@dataclass(frozen=True, slots=True)
class Room:
    """Memory in bytes: ``total`` of it, ``available`` still to be had, ``own`` of it already this process's. ``what`` sets
    the bound, as in "2.0 GiB of WHAT"."""

    total: int
    available: int
    own: int
    what: str


def host_room(root: Path = Path("/"), address_space: int | None = None) -> Room | None:
    """Of ordinary memory; None where the system tells nothing. ``root``: where proc and sys are found; ``address_space``:
    the process's limit in bytes, by default the one that it has."""
    rooms = [*_machine(root), *_control_groups(root), *_address_space(root, address_space)]
    return min(rooms, key=lambda room: room.available, default=None)


def available_memory() -> int | None:
    """Bytes that this process could still take; None where the system does not say."""
    room = host_room()
    return None if room is None else room.available


def _machine(root: Path) -> Iterator[Room]:
    """The kernel's own estimate of what can be had without swapping."""
    facts = _table(root / "proc/meminfo", scale=1024)
    if (total := facts.get("MemTotal:")) and (available := facts.get("MemAvailable:")) is not None:
        yield Room(total, min(available, total), _resident(root), "this machine's memory")


def _control_groups(root: Path) -> Iterator[Room]:
    """Every group that this process is in and every one above: each bounds it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            yield from _groups(root, "sys/fs/cgroup", path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _groups(root, "sys/fs/cgroup/memory", path, files)


def _groups(root: Path, mount: str, path: str, files: tuple[str, str, str]) -> Iterator[Room]:
    limit_file, usage_file, reclaimable = files
    top = root / mount
    inside = PurePosixPath("" if ".." in path else path.lstrip("/"))
    # In a container the path is often the host's, and what is mounted is the container's own group.
    for group in dict.fromkeys(top / part for part in (inside, *inside.parents, PurePosixPath())):
        limit, usage = _number(group / limit_file), _number(group / usage_file)
        if limit is None or usage is None or not 0 < limit < NO_LIMIT:
            continue
        # What was read from files and not touched since is given up before anybody is refused memory.
        kept = max(0, usage - _table(group / "memory.stat").get(reclaimable, 0))
        yield Room(limit, max(0, limit - kept), _resident(root), "the container's limit")


def _address_space(root: Path, limit: int | None) -> Iterator[Room]:
    """``ulimit -v`` counts addresses, used or not."""
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 < limit < NO_LIMIT and (taken := _pages(root, 0)) is not None:
        yield Room(limit, max(0, limit - taken), min(taken, limit), "the address space that ulimit -v allows")


def _resident(root: Path) -> int:
    return _pages(root, 1) or 0


def _pages(root: Path, field: int) -> int | None:
    """Of ``/proc/self/statm``, in bytes: 0 is the size of the address space, 1 what of it is in memory."""
    try:
        return int((root / "proc/self/statm").read_text().split()[field]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _number(path: Path) -> int | None:
    """None where there is no such file, or ``max`` in it."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _table(path: Path, scale: int = 1) -> dict[str, int]:
    """A file of lines ``name number``."""
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
        return {row[0]: int(row[1]) * scale for row in rows if len(row) > 1 and row[1].isdecimal()}
    except OSError:
        return {}
