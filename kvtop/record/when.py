"""Moments as people name them: a time of day, so long ago, an iteration."""

import math
import re
from datetime import datetime, timedelta

from kvtop.record.tape import Place, Tape

WHENS = "14:03:59, 2026-11-30T14:03:59, -90, -5m, +1h, it:1234, start, end"
"""Examples of all forms, for help and refusals."""

LONGEST = 64
"""Characters of a moment; more are no moment."""

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class WhenError(ValueError):
    """The text is no moment, or none of this recording. One sentence."""


def place_of(text: str, tape: Tape, now: float | None = None) -> Place:
    """The moment of ``tape`` that ``text`` means: the latest at or before it. Raises `WhenError`.

    ``-5m`` is before the end, ``+90`` after the start, a time of day is the latest such time up to the end. ``now``: Unix
    seconds that stand for the end, where the recording goes on.
    """
    spans = tape.spans()
    if not spans:
        raise WhenError("nothing has been recorded yet")
    start, end = spans[0].wall_first, spans[-1].wall_last
    end = end if now is None else max(end, now)
    text = text.strip()
    place = _iteration(text, tape) if text.startswith("it:") else _timed(text, tape, start, end)
    if place is None:
        raise WhenError(f"{text[:LONGEST]!r} is no moment: as in {WHENS}")
    return place


def _iteration(text: str, tape: Tape) -> Place | None:
    digits = text[3:]
    return tape.at_iteration(int(digits)) if digits.isdecimal() and len(digits) <= 18 else None


def _timed(text: str, tape: Tape, start: float, end: float) -> Place | None:
    if text == "start":
        return tape.start
    if text in ("end", "now"):
        return tape.end
    if text[:1] in ("+", "-"):
        seconds = span(text[1:])
        if seconds is None:
            return None
        return tape.at_wall(start + seconds if text[0] == "+" else end - seconds)
    wall = _wall(text, end)
    if wall is None:
        return None
    if wall < start - 1.0:
        raise WhenError(f"{text}: the recording begins only at {_shown(start)}")
    return tape.at_wall(wall)


def span(text: str) -> float | None:
    """Seconds in ``90``, ``1.5m``, ``2h``; None where it is none."""
    found = _SPAN.fullmatch(text)
    if found is None or len(text) > LONGEST:
        return None
    seconds = float(found[1]) * _UNITS[found[2]]
    return seconds if math.isfinite(seconds) and seconds < 1e9 else None


def _wall(text: str, end: float) -> float | None:
    """A date and time, or a time of day: the latest that is not behind ``end``. Unix seconds."""
    last = datetime.fromtimestamp(end)
    for form in ("%H:%M:%S", "%H:%M"):
        try:
            at = datetime.strptime(text, form).time()
        except ValueError:
            continue
        moment = datetime.combine(last.date(), at)
        return (moment if moment <= last else moment - timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(text).timestamp() if text[:4].isdecimal() and "T" in text else None
    except (ValueError, OverflowError):
        return None


def _shown(wall: float) -> str:
    return datetime.fromtimestamp(wall).isoformat(sep=" ", timespec="seconds")
