"""How a dialog asks the engine for something, and what it gets to hear."""

from collections.abc import Callable
from dataclasses import dataclass

from kvtop.protocol import Command, Reply


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command: the engine's reply, or why there is none."""

    ok: bool
    message: str
    iteration: int | None = None
    effects: tuple[str, ...] = ()

    @classmethod
    def of(cls, reply: Reply) -> "Answer":
        return cls(reply.ok, reply.message, reply.iteration, tuple(reply.effects))


Ask = Callable[[Command, Callable[[Answer], None]], None]
"""Sends a command without blocking; the callback gets the answer later, in the screen's own thread."""


def outcome(answer: Answer) -> list[str]:
    """The answer as sentences: when it took effect and what it did, or why not."""
    if not answer.ok:
        return [f"refused: {answer.message}" if answer.message else "refused, and the engine did not say why"]
    first = "done" if answer.iteration is None else f"took effect at iteration {answer.iteration:,}"
    return [first, *([answer.message] if answer.message else []), *answer.effects]
