"""The machine that sends: what it is, and how many requests it can hold open."""

import contextlib
import os
import platform
import resource
from pathlib import Path

import httpx

from kvtop import __version__
from kvtop.errors import UserError, one_line
from kvtop.load.result import Client

MOST_OPEN = 1000
"""Requests at a time where nobody says how many."""

SPARE_FILES = 64
"""Descriptors that the client keeps for other things than requests."""


def room_for(asked: int | None) -> int:
    """How many requests may be open at a time: as many as were ``asked`` for, else `MOST_OPEN` or what there is room for.

    Raises the process's limit of open files where that is allowed, and `UserError` where too many were asked for.
    """
    wanted = MOST_OPEN if asked is None else asked
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted + SPARE_FILES:
        return wanted
    most = wanted + SPARE_FILES if hard == resource.RLIM_INFINITY else min(wanted + SPARE_FILES, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    room = soft - SPARE_FILES
    if room < 1 or (asked is not None and room < asked):
        raise UserError(
            f"this process may have {soft} files open, which is too few for {wanted} requests at a time",
            "allow more with ulimit -n, or ask for fewer",
        )
    return min(wanted, room)


def client_facts() -> Client:
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Client(
        kvtop=__version__,
        python=platform.python_version(),
        httpx=httpx.__version__,
        platform=one_line(platform.platform(), 100),
        cpu=_cpu(),
        cores=cores,
        memory_bytes=memory,
    )


def _cpu() -> str | None:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return one_line(next(named, "") or platform.processor(), 100) or None
