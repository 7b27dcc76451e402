"""A service level: how long what of a request may take."""

from collections.abc import Mapping
from typing import Final

ASKED: Final = ("ttft", "tpot", "queue", "latency")
"""What it can be asked of: time to first token, per token after it, waiting before it, and from arrival to end."""

MOST: Final = 1e6
"""Seconds."""


def service_level(text: str) -> dict[str, float]:
    """``ttft=0.5,tpot=0.05`` in seconds; empty: none. Raises ValueError, whose text says what is wrong and where."""
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or name not in ASKED:
            raise ValueError(f"{part[:40]} is not NAME=SECONDS with one of {', '.join(ASKED)}")
        if name in found:
            raise ValueError(f"{name} is said twice")
        try:
            seconds = float(value)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds <= MOST:
            raise ValueError(f"{name}: {value[:20] or 'nothing'} is no number of seconds above 0")
        found[name] = seconds
    return found


def spelled(level: Mapping[str, float]) -> str:
    """As it is typed."""
    return ",".join(f"{name}={seconds:g}" for name, seconds in level.items())
