"""Which engine a command means: by name, by socket, or the only one there is."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

from kvtop.errors import UserError, one_line
from kvtop.protocol.places import CONTROL_SUFFIX, OBSERVE_SUFFIX, PlaceError, places, valid_name
from kvtop.sources.discover import Found, Search, look, search
from kvtop.state import EngineState
from kvtop.views.format import called

START_ONE = "start one: kvtop demo"

ANSWER_WITHIN = 5.0
"""Seconds an engine that was named may take for its hello."""


def all_engines(name: str | None = None, within: float = 1.0) -> Search:
    """Every engine of this user that has a socket (and is called ``name``), alive or dead; each has ``within`` seconds to
    answer. Raises `UserError` where nothing can be looked into."""
    try:
        found = search(within, name)
    except PlaceError as error:
        raise place_fault(str(error)) from None
    if not found.engines and (trouble := found.places[0].trouble):
        raise place_fault(trouble)
    return found


def place_fault(trouble: str, code: int = 1) -> UserError:
    """A place's trouble as a line and a hint."""
    what, _, advice = trouble.rpartition("; ")
    return UserError(what, advice, code)


def where_looked(found: Search) -> str:
    """``looked in FOLDER, FOLDER``, and where not."""
    looked = ", ".join(str(place.folder) for place in found.places if not place.trouble)
    return "; ".join([f"looked in {looked}", *not_looked(found)])


def not_looked(found: Search) -> list[str]:
    """The places that could not be looked into, and why."""
    return [f"not looked into: {place.trouble}" for place in found.places if place.trouble]


def control_of(path: Path) -> Path:
    """The control socket beside an observing one."""
    return path.with_name(path.name.removesuffix(OBSERVE_SUFFIX) + CONTROL_SUFFIX)


def find_engine(target: str | None, *, ask: bool = False) -> Found:
    """The live engine that ``target`` names (a name or a socket's path), or the only live one when it is None.

    Among several, ``ask`` lets the user choose on the terminal. Raises `UserError` where there is none, or no way to tell.
    """
    if target is not None:
        return _named(target)
    found = all_engines()
    alive = [engine for engine in found.engines if engine.alive]
    if len(alive) == 1:
        return alive[0]
    if not alive:
        raise UserError("no engine is running", f"{START_ONE}; {where_looked(found)}")
    names = ", ".join(_called(engine, alive) for engine in alive)
    if ask and sys.stdin.isatty() and sys.stdout.isatty():
        return _chosen(alive)
    option = "kvtop attach NAME|SOCKET" if ask else "-e NAME|SOCKET"
    raise UserError(f"{len(alive)} engines are running: {names}", f"choose one: {option}", code=2)


def find_commanded(
    target: str | None, run: str | None = None, typed: Callable[[Found], str] = lambda found: f"-e {found.path}"
) -> Found:
    """The live engine that a command which changes something goes to; ``run``: the run it is meant for, or how that begins;
    ``typed``: what names an engine for certain.

    What one saw of an engine does not hold for another that has taken its name since, so a name alone reaches only engines
    where those started from here have their sockets: the near one may have ended, and what is found then is a namesake of
    another environment. A socket or a run says which is meant. Raises `UserError` as `find_engine`, and for another's.
    """
    found = find_engine(target)
    if run is not None:
        goes_on = "" if found.hello is None else found.hello.engine.run
        if not run or not goes_on.startswith(run):
            raise UserError(
                f"engine {found.name}: this is meant for run {one_line(run, 40) or '(empty)'}; what goes on is run {goes_on}",
                "runs of all engines: kvtop ls --json",
            )
    elif target is None or not _is_socket(target):
        near = places()[0].folder
        if os.path.realpath(found.path.parent) != os.path.realpath(near):
            raise UserError(
                f"engine {found.name} is not one of {near}, but of {found.path.parent}, and may not be the one you looked at",
                f"if it is: {typed(found)}",
                code=2,
            )
    return found


def now_of_another_run(found: Found, state: EngineState) -> str | None:
    """That ``state`` is of another run than the one that was found, in a sentence; None where it is of that one."""
    if found.hello is None or state.run in (None, found.hello.engine.run):
        return None
    return f"engine {found.name} was restarted while it was looked at: this is its new run"


def _is_socket(target: str) -> bool:
    return "/" in target or target.endswith(OBSERVE_SUFFIX)


def _named(target: str) -> Found:
    if _is_socket(target):
        path = Path(target)
        if path.name.endswith(CONTROL_SUFFIX):
            path = path.with_name(path.name.removesuffix(CONTROL_SUFFIX) + OBSERVE_SUFFIX)
        if not path.exists():
            raise UserError(f"there is no socket {target}", "all engines: kvtop ls")
        return _answering(look(path.name.removesuffix(OBSERVE_SUFFIX), path, ANSWER_WITHIN))
    if not valid_name(target):
        raise UserError(f"{target!r} is no engine's name", "all engines: kvtop ls", code=2)
    called = all_engines(target, ANSWER_WITHIN)
    alive = [engine for engine in called.engines if engine.alive]
    if len(alive) > 1:
        sockets = ", ".join(str(engine.path) for engine in alive)
        raise UserError(f"{len(alive)} engines named {target} are running", f"give the socket: {sockets}", code=2)
    if called.engines:
        return _answering((alive or called.engines)[0])
    others = ", ".join(engine.name for engine in all_engines().engines if engine.alive)
    hint = f"running: {others}" if others else START_ONE
    raise UserError(f"no engine named {target} is running", f"{hint}; {where_looked(called)}")


def _answering(found: Found) -> Found:
    if not found.alive:
        raise UserError(f"engine {found.name}: {one_line(found.detail)}", "all engines: kvtop ls")
    return found


def _called(found: Found, among: list[Found]) -> str:
    """Its name, or its socket where another has that name, too: engines started in two environments can."""
    return found.name if sum(other.name == found.name for other in among) == 1 else str(found.path)


def _chosen(alive: list[Found]) -> Found:
    for number, found in enumerate(alive, 1):
        name = _called(found, alive)
        model = (
            ""
            if found.hello is None
            else f"  {called(found.hello.engine.kind, 20)}  {called(found.hello.model.name, 40)}"
        )
        print(f"{number:3}  {name}{model}")
    while True:
        try:
            answer = input(f"which one (1-{len(alive)}, q leaves)? ").strip()
        except EOFError:
            answer = "q"
        if answer in ("", "q"):
            raise UserError("no engine chosen", "kvtop attach NAME", code=2)
        if answer.isdecimal() and 1 <= int(answer) <= len(alive):
            return alive[int(answer) - 1]
        if named := [found for found in alive if answer in (_called(found, alive), str(found.path))]:
            return named[0]
