"""Which engines of this user can be reached."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kvtop.protocol.hello import Hello
from kvtop.protocol.places import engine_names, observe_path
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


def live_engines(folder: Path, timeout: float = 1.0) -> list[Found]:
    """Every observing socket in ``folder``, dead ones included, by name. Each gets ``timeout`` seconds for its hello.

    Raises OSError when the folder exists and cannot be read.
    """
    names = engine_names(folder)
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
