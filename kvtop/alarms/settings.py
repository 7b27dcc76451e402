"""The thresholds of all alarms as one value, and how they are written: ``preemption_storm.window_s=30``."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kvtop.alarms.limits import Limits, thresholds
from kvtop.alarms.rules.hit_collapse import CollapseLimits
from kvtop.alarms.rules.ledger_violation import LedgerLimits
from kvtop.alarms.rules.never_fits import NeverFitsLimits
from kvtop.alarms.rules.no_progress import ProgressLimits
from kvtop.alarms.rules.orphan_blocks import OrphanLimits
from kvtop.alarms.rules.preemption_storm import StormLimits
from kvtop.alarms.rules.stale_data import StaleLimits
from kvtop.alarms.rules.tier_thrash import ThrashLimits

_ON = {"on": True, "off": False}


@dataclass(frozen=True, slots=True)
class Settings:
    """Each field is called as its rule."""

    stale_data: StaleLimits = field(default_factory=StaleLimits)
    no_progress: ProgressLimits = field(default_factory=ProgressLimits)
    ledger_violation: LedgerLimits = field(default_factory=LedgerLimits)
    orphan_blocks: OrphanLimits = field(default_factory=OrphanLimits)
    never_fits: NeverFitsLimits = field(default_factory=NeverFitsLimits)
    preemption_storm: StormLimits = field(default_factory=StormLimits)
    tier_thrash: ThrashLimits = field(default_factory=ThrashLimits)
    hit_collapse: CollapseLimits = field(default_factory=CollapseLimits)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> "Settings":
        """The defaults with ``values``: ``rule.threshold`` -> number (or its text), ``rule`` -> ``on`` or ``off``.

        Raises ValueError, in one sentence, for a name that there is not or a value that makes no sense.
        """
        settings = cls()
        for name, value in values.items():
            rule, dot, threshold = name.partition(".")
            if rule not in RULE_NAMES:
                raise ValueError(
                    f"there is no alarm {rule[:40]!r}{_near(rule, RULE_NAMES)}; alarms are {', '.join(RULE_NAMES)}"
                )
            limits: Limits = getattr(settings, rule)
            changed = _switched(limits, name, value) if not dot else _set(limits, rule, threshold, value)
            changes: dict[str, Any] = {rule: changed}
            settings = replace(settings, **changes)
        return settings

    def limits(self, rule: str) -> Any:
        """The thresholds of the rule of that name."""
        return getattr(self, rule)

    def values(self) -> dict[str, object]:
        """``rule.threshold`` -> number, and ``rule`` -> ``on`` or ``off``, of all: what `of` takes."""
        told: dict[str, object] = {}
        for rule in RULE_NAMES:
            limits = self.limits(rule)
            told[rule] = "on" if limits.on else "off"
            told |= {f"{rule}.{each.name}": getattr(limits, each.name) for each in thresholds(type(limits))}
        return told


RULE_NAMES = tuple(each.name for each in fields(Settings))


def _switched(limits: Limits, rule: str, value: object) -> Limits:
    on = value if isinstance(value, bool) else _ON.get(str(value))
    if on is None:
        names = ", ".join(f"{rule}.{each.name}" for each in thresholds(type(limits)))
        raise ValueError(f"{rule} is on or off, not {str(value)[:40]!r}; its thresholds are {names}")
    return replace(limits, on=on)


def _set(limits: Limits, rule: str, name: str, value: object) -> Limits:
    known = [each.name for each in thresholds(type(limits))]
    if name not in known:
        near = _near(name, known)
        raise ValueError(f"the alarm {rule} has no threshold {name[:40]!r}{near}; it has {', '.join(known)}")
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"{rule}.{name} must be a number, not {str(value)[:40]!r}") from None
    try:
        return replace(limits, **{name: number})  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{rule}.{error}") from None


def _near(name: str, known: tuple[str, ...] | list[str]) -> str:
    found = difflib.get_close_matches(name, known, 1)
    return f", did you mean {found[0]}?" if found else ""
