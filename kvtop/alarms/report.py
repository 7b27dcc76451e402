"""What the watch knows at one moment: every check with its state, what fires with its evidence."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from kvtop.alarms.outcome import Finding

Status = Literal["off", "unchecked", "fine", "pending", "firing", "ending"]
"""``pending``: it is so, but not long enough yet; ``ending``: it is no longer so, but not for long enough yet."""

_GRAVITY = {"critical": 0, "warning": 1}


class Spell(NamedTuple):
    """A time in which an alarm fired: ``began`` Unix seconds, ``lasted`` seconds."""

    began: float | None
    lasted: float


@dataclass(frozen=True, slots=True)
class Check:
    """One rule and what came of it.

    Attributes:
        name: The rule's.
        title: As the screen calls it.
        status: See `Status`.
        text: What was looked at, why it cannot be checked, or the evidence.
        finding: While it is pending, firing or ending.
        since: The engine's clock when it began.
        wall: The same as Unix seconds.
        before: When it fired last, before now.
    """

    name: str
    title: str
    status: Status
    text: str
    finding: Finding | None = None
    since: float | None = None
    wall: float | None = None
    before: Spell | None = None

    @property
    def fires(self) -> bool:
        return self.status in ("firing", "ending")

    @property
    def severity(self) -> str:
        return self.finding.severity if self.finding is not None else ""


@dataclass(frozen=True, slots=True)
class Report:
    """``checks`` in the order of the rules, the gravest first."""

    checks: tuple[Check, ...] = ()

    @property
    def firing(self) -> list[Check]:
        """What fires, the worst first: critical before warnings, in the order of the rules."""
        return sorted((c for c in self.checks if c.fires), key=lambda check: _GRAVITY.get(check.severity, 2))

    @property
    def standing(self) -> tuple[Status, ...]:
        """The states alone, without numbers that change all the time."""
        return tuple(check.status for check in self.checks)

    @property
    def unchecked(self) -> list[Check]:
        """What cannot be checked, or is not to be."""
        return [check for check in self.checks if check.status in ("off", "unchecked")]

    @property
    def checked(self) -> int:
        """How many could be checked."""
        return len(self.checks) - len(self.unchecked)


def alarm_document(check: Check, mono: float | None) -> dict[str, Any]:
    """One check for files and programs. ``mono``: the engine's clock now, seconds."""
    finding = check.finding
    victim = None if finding is None or finding.victim is None else finding.victim._asdict()
    lasting = None if check.since is None or mono is None else max(0.0, mono - check.since)
    return {
        "alarm": check.name,
        "title": check.title,
        "state": check.status,
        "severity": check.severity or None,
        "since": check.wall,
        "lasting_s": lasting,
        "evidence": check.text,
        "victim": victim,
        "advice": None if finding is None else finding.advice,
        "fired_before": None if check.before is None else check.before._asdict(),
    }
