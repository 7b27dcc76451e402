"""Which engine a command means: by name, by socket, or the only one there is."""

import socket
import sys
from pathlib import Path

from kvtop.errors import UserError, one_line
from kvtop.protocol.places import CONTROL_SUFFIX, OBSERVE_SUFFIX, PlaceError, observe_path, socket_folder, valid_name
from kvtop.sources.discover import Found, live_engines, look

START_ONE = "start one: kvtop demo"

ANSWER_WITHIN = 5.0
"""Seconds an engine that was named may take for its hello."""


def folder(*, create: bool = False) -> Path:
    """The socket folder. Raises `UserError` where it cannot be used."""
    try:
        return socket_folder(create)
    except PlaceError as error:
        place, _, advice = str(error).rpartition("; ")
        raise UserError(place, advice) from None


def all_engines() -> list[Found]:
    """Every engine that has a socket in the folder, alive or dead. Raises `UserError` where the folder is unusable."""
    try:
        return live_engines(folder())
    except OSError as error:
        raise UserError(f"cannot read the socket folder: {error.strerror}", "KVTOP_SOCKET_DIR names another") from None


def control_of(path: Path) -> Path:
    """The control socket beside an observing one."""
    return path.with_name(path.name.removesuffix(OBSERVE_SUFFIX) + CONTROL_SUFFIX)


def find_engine(target: str | None, *, ask: bool = False) -> Found:
    """The live engine that ``target`` names (a name or a socket's path), or the only live one when it is None.

    Among several, ``ask`` lets the user choose on the terminal. Raises `UserError` where there is none, or no way to tell.
    """
    if target is not None:
        return _named(target)
    alive = [found for found in all_engines() if found.alive]
    if len(alive) == 1:
        return alive[0]
    if not alive:
        raise UserError("no engine is running", START_ONE)
    names = ", ".join(found.name for found in alive)
    if ask and sys.stdin.isatty() and sys.stdout.isatty():
        return _chosen(alive)
    option = "kvtop attach NAME" if ask else "-e NAME"
    raise UserError(f"{len(alive)} engines are running: {names}", f"choose one: {option}", code=2)


def is_live(path: Path) -> bool:
    """Whether somebody listens on the socket ``path``."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(2.0)
            client.connect(str(path))
    except OSError:
        return False
    return True


def _named(target: str) -> Found:
    if "/" in target or target.endswith(OBSERVE_SUFFIX):
        path = Path(target)
        if path.name.endswith(CONTROL_SUFFIX):
            path = path.with_name(path.name.removesuffix(CONTROL_SUFFIX) + OBSERVE_SUFFIX)
        if not path.exists():
            raise UserError(f"there is no socket {target}", "engines in the socket folder: kvtop ls")
    else:
        if not valid_name(target):
            raise UserError(f"{target!r} is no engine's name", "engines in the socket folder: kvtop ls", code=2)
        path = observe_path(folder(), target)
        if not path.exists():
            raise UserError(f"no engine named {target} is running", _others())
    found = look(path.name.removesuffix(OBSERVE_SUFFIX), path, ANSWER_WITHIN)
    if not found.alive:
        raise UserError(f"engine {found.name}: {one_line(found.detail)}", "engines in the socket folder: kvtop ls")
    return found


def _others() -> str:
    alive = [found.name for found in all_engines() if found.alive]
    return f"running: {', '.join(alive)}" if alive else START_ONE


def _chosen(alive: list[Found]) -> Found:
    for number, found in enumerate(alive, 1):
        model = (
            ""
            if found.hello is None
            else f"  {one_line(found.hello.engine.kind, 20)}  {one_line(found.hello.model.name, 40)}"
        )
        print(f"{number:3}  {found.name}{model}")
    while True:
        try:
            answer = input(f"which one (1-{len(alive)}, q leaves)? ").strip()
        except EOFError:
            answer = "q"
        if answer in ("", "q"):
            raise UserError("no engine chosen", "kvtop attach NAME", code=2)
        if answer.isdecimal() and 1 <= int(answer) <= len(alive):
            return alive[int(answer) - 1]
        if named := [found for found in alive if found.name == answer]:
            return named[0]
