"""What the HTTP server knows of the engine: whether it is there yet, still serves, and what it serves.

``served`` and ``draining`` are written by the program's main thread and read by the server's, the rest the other way round;
each fact is one attribute, so that a signal handler may write too: no lock is taken.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from engine.http.errors import busy, unavailable
from engine.http.pace import Pace, come_again
from engine.serving.server import Server

Status = Literal["starting", "serving", "draining", "stuck"]
"""What the engine does, as ``/health`` and ``/metrics`` tell it."""


class Template(Protocol):
    """A model's chat template."""

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **kwargs: Any
    ) -> Any:
        """What `Text.encode_chat` takes. Raises ValueError in one sentence."""
        ...


class Text(Protocol):
    """What the HTTP server needs of a tokenizer."""

    @property
    def chat_template(self) -> Template | None: ...

    def encode_chat(self, text: Any) -> list[int]: ...

    def encode(self, text: str) -> list[int]: ...

    def encode_prompt(self, text: str) -> list[int]: ...

    def decode(self, ids: Iterable[int]) -> str: ...

    def token_bytes(self, token: int) -> bytes: ...

    def token_name(self, token: int) -> str: ...


@dataclass(frozen=True, slots=True)
class Served:
    """An engine that is ready. ``names``: what clients may call its model, the first of them what it is called in answers;
    ``context``: tokens that a prompt and its output have room for."""

    server: Server
    text: Text
    names: tuple[str, ...]
    context: int
    since: int = field(default_factory=lambda: int(time.time()))


def short_name(model: str) -> str:
    """What a model that was asked for as ``model``, a name or a path, is called: of a path its end."""
    return Path(model).stem if model.endswith(".gguf") else Path(model).name or model


class Gate:
    """``served`` is None until the engine is ready. ``active``: requests being answered, from the end of their bodies on;
    ``body_bytes``: of bodies that come, or wait to be taken apart; ``pace``: of answers. These are written by the server's
    thread alone, and ``active`` is read by others."""

    def __init__(self) -> None:
        self.served: Served | None = None
        self.draining = False
        self.active = 0
        self.body_bytes = 0
        self.pace = Pace()

    def enter(self) -> Served:
        """The engine, for a new request. Raises `ApiError` (503) where it takes none."""
        if self.served is None:
            raise unavailable("the engine is starting", "starting")
        if self.draining or self.served.server.stopping:
            raise unavailable("the engine takes no more requests: it is about to stop", "draining", after=10)
        return self.served

    def check_place(self, most: int) -> None:
        """Raises `ApiError` (429) where ``most`` requests are being answered."""
        if self.active >= most:
            raise busy(f"{self.active} requests are being answered, and {most} is the most", self.come_again())

    def come_again(self) -> int:
        """Seconds until those that are being answered, or wait for it, will have been; 1 where that is not known."""
        return come_again(self.active, self.pace.per_second(time.monotonic()), 1)

    @contextmanager
    def place(self, most: int) -> Iterator[None]:
        """One of ``most``, for a request to be answered in. Raises `ApiError` (429) where there is none."""
        self.check_place(most)
        self.active += 1
        try:
            yield
        finally:
            self.active -= 1

    def status(self) -> tuple[Status, str | None]:
        """And more in a sentence."""
        if self.served is None:
            return "starting", None
        if self.draining or self.served.server.stopping:
            return "draining", None
        if (why := self.served.server.stuck) is not None:
            return "stuck", why
        return "serving", None
