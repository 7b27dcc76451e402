"""``kvtop ls --names``: for completion, which cannot wait; no engine is asked for anything, and little is imported."""

import argparse
import errno
import socket
from pathlib import Path

from kvtop.protocol.places import PlaceError, engine_names, observe_path, places, valid_name


def run(_options: argparse.Namespace) -> int:
    """Names alone, each once, of engines whose socket takes a connection. What is wrong is nothing to be told here."""
    found: set[str] = set()
    try:
        folders = [place.folder for place in places() if not place.trouble]
    except PlaceError:
        folders = []
    for folder in folders:
        try:
            # Shells expand what they are proposed: what is no name of an engine is none of it.
            found |= {name for name in engine_names(folder) if valid_name(name) and _lives(observe_path(folder, name))}
        except OSError:
            continue
    print("".join(f"{name}\n" for name in sorted(found)), end="")
    return 0


def _lives(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.setblocking(False)
        # EAGAIN: more connections wait for it than it has room for.
        return peer.connect_ex(str(path)) in (0, errno.EAGAIN, errno.EINPROGRESS)
