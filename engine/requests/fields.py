"""Single values that a client gives: taken as they are meant, or refused in one sentence that begins with their name."""

import math
import operator
import unicodedata
from typing import Any

MAX_TOKEN_ID = 2**31 - 1
"""Of any vocabulary."""


def whole(field: str, value: Any, low: int, high: int, what: str = "") -> int:
    """``value`` as a whole number from ``low`` to ``high``; those of any library are taken, true and false are none."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ValueError(f"{field}: {shown(value)} is not a whole number")
    if not low <= number <= high:
        found = str(number) if number.bit_length() <= 64 else f"a number of {number.bit_length()} bits"
        raise ValueError(f"{field}: {found} {what}{' ' if what else ''}is not in {low}…{high}")
    return number


def real(field: str, value: Any) -> float:
    """``value`` as a finite number; those of any library are taken, true, false and texts are none."""
    try:
        if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
            raise TypeError
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        raise ValueError(f"{field}: {shown(value)} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{field}: {number} is not a finite number")
    return number


def text(field: str, value: Any, most: int) -> str:
    """``value`` as a text of ``most`` characters at most that can be sent and shown: no half of a surrogate pair, no
    control character."""
    if not isinstance(value, str):
        raise ValueError(f"{field}: {shown(value)} is not a text")
    if len(value) > most:
        raise ValueError(f"{field}: {len(value)} characters are too many; the most is {most}")
    for character in value:
        if (category := unicodedata.category(character)) in ("Cc", "Cs", "Zl", "Zp"):
            kind = "half of a surrogate pair" if category == "Cs" else "a control character"
            raise ValueError(f"{field}: U+{ord(character):04X} is {kind}")
    return value


def shown(value: object) -> str:
    """Its beginning, in characters that every terminal has."""
    try:
        return f"{value!a:.60}"
    except Exception:
        return f"a {type(value).__name__}"
