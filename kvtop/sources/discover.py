"""Which engines of this user can be reached."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kvtop.protocol.hello import Hello
from kvtop.protocol.places import Place, engine_names, observe_path, places
from kvtop.sources.connect import ConnectError, Conversation

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Found:
    """One engine's observing socket. ``detail`` says why an engine that is not alive is not; else it is empty."""

    name: str
    path: Path
    alive: bool
    hello: Hello | None
    detail: str


@dataclass(frozen=True, slots=True)
class Search:
    """What was found, and where was looked: also places that could not be looked into, with their trouble."""

    engines: list[Found]
    places: list[Place]


def search(timeout: float = 1.0, name: str | None = None) -> Search:
    """Every engine of this user, dead ones included, in every place that one could have chosen for its sockets; with
    ``name`` those called so.

    Raises `kvtop.protocol.places.PlaceError` where there can be none.
    """
    engines: list[Found] = []
    looked: list[Place] = []
    for place in places():
        if not place.trouble:
            try:
                engines += live_engines(place.folder, timeout, name)
            except OSError as error:
                place = Place(
                    place.folder, f"socket folder {place.folder}: {error.strerror}; KVTOP_SOCKET_DIR names another"
                )
        looked.append(place)
    return Search(engines, looked)


def live_engines(folder: Path, timeout: float = 1.0, name: str | None = None) -> list[Found]:
    """Every observing socket in ``folder``, dead ones included, by name; with ``name`` the one called so. Each gets
    ``timeout`` seconds for its hello.

    Raises OSError when the folder exists and cannot be read.
    """
    names = [found for found in engine_names(folder) if name in (None, found)]
    if not names:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(names))) as pool:
        return list(pool.map(lambda name: look(name, observe_path(folder, name), timeout), names))


def look(name: str, path: Path, timeout: float = 1.0) -> Found:
    """Whether an engine answers at ``path``."""
    try:
        talk = Conversation(path, timeout)
    except ConnectError as error:
        return Found(name, path, alive=False, hello=None, detail=str(error))
    talk.close()
    return Found(name, path, alive=True, hello=talk.hello, detail="")
