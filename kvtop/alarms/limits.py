"""Thresholds of the alarms: each has a default, a unit, bounds and a meaning, and refuses what makes no sense."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, NamedTuple


class Threshold(NamedTuple):
    """One threshold of a rule; ``least`` and ``most`` bound it."""

    name: str
    default: float
    unit: str
    least: float
    most: float
    meaning: str


def threshold(default: float, unit: str, least: float, most: float, meaning: str) -> Any:
    """The field of a `Limits` that is a threshold."""
    return field(default=default, metadata={"unit": unit, "least": least, "most": most, "meaning": meaning})


def for_s(default: float) -> Any:
    return threshold(default, "s", 0, 600, "it must be so for so long before the alarm fires")


def hold_s(default: float) -> Any:
    return threshold(default, "s", 0, 3600, "it must be no longer so for so long before the alarm is over")


@dataclass(frozen=True, slots=True)
class Limits:
    """What every rule has. Raises ValueError for a value out of bounds."""

    on: bool = True
    for_s: float = for_s(5.0)
    hold_s: float = hold_s(15.0)

    def __post_init__(self) -> None:
        for each in thresholds(type(self)):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise ValueError(f"{each.name} must be a number, not {value!r}")
            if not each.least <= value <= each.most:
                raise ValueError(f"{each.name} of {value:g} must be from {each.least:g} to {each.most:g} {each.unit}")


def thresholds(kind: type[Limits]) -> Iterator[Threshold]:
    """Those of a rule, in their order."""
    for each in fields(kind):
        if each.name != "on":
            facts = each.metadata
            default: Any = each.default
            yield Threshold(each.name, default, facts["unit"], facts["least"], facts["most"], facts["meaning"])
