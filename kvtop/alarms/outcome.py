"""What a rule says at one moment: it cannot be checked, all is well, or this is wrong."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Severity = Literal["critical", "warning"]
"""Critical: nothing comes of the engine's work, or what it says cannot be trusted."""


class Victim(NamedTuple):
    """Who suffers. ``num``: of a request or a block; ``name``: what to call it."""

    kind: Literal["request", "block", "tier", "engine"]
    name: str
    num: int | None = None


@dataclass(frozen=True, slots=True)
class Unchecked:
    """The rule has nothing to go by; ``why`` in a sentence without a full stop."""

    why: str


@dataclass(frozen=True, slots=True)
class Fine:
    """``what`` was looked at, with its numbers."""

    what: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is wrong.

    Attributes:
        severity: How bad it is.
        brief: For a line of 80 cells: the number and the victim that matter most.
        evidence: All numbers with their units and windows.
        victim: Who suffers.
        advice: What to try, in a sentence.
        since: The engine's clock when it began, where the rule knows better than when it was first seen.
    """

    severity: Severity
    brief: str
    evidence: str
    victim: Victim | None
    advice: str
    since: float | None = None


Outcome = Unchecked | Fine | Finding
