"""What options take: a word as it was typed becomes a value, or a sentence that says what it should have been."""

import argparse

from kvtop.load.sample import BOUNDS

MOST = 1e6
"""Of any number of seconds, or of anything in a second."""

MOST_TOKENS = 10_000_000

MOST_SEED = 2**63 - 1


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


def whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number")
    return int(text)


def seed(text: str) -> int:
    """As the engine and OpenAI's API take it: what is above has no place in 64 bits."""
    value = whole(text)
    if value > MOST_SEED:
        raise argparse.ArgumentTypeError(f"{text:.40} is above the largest seed, 2^63 - 1")
    return value


def tokens(text: str) -> int:
    """Of one text."""
    value = positive(text)
    if value > MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text:.40} is above {MOST_TOKENS:,} tokens")
    return value


def tokens_or_none(text: str) -> int:
    """The same, or 0."""
    return 0 if whole(text) == 0 else tokens(text)


def above_zero(text: str) -> float:
    value = _number(text)
    if not 0 < value <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0{_too_much(value)}")
    return value


def shape(text: str) -> float:
    """Of a gamma distribution; ``inf``: all gaps are alike."""
    return float("inf") if text == "inf" else above_zero(text)


def not_below_zero(text: str) -> float:
    value = _number(text)
    if not 0 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 up{_too_much(value)}")
    return value


def duration(text: str) -> float:
    """``90``, ``90s``, ``10m``, ``2h``, ``1d``, in seconds."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    unit = units.get(text[-1:], 0.0)
    seconds = _number(text[:-1]) * unit if unit else _number(text)
    if not 0 < seconds <= MOST:
        raise argparse.ArgumentTypeError(f"{text} is no time above 0, such as 90s, 10m, 2h or 1d{_too_much(seconds)}")
    return seconds


def span(text: str) -> tuple[int, int]:
    """``64`` or ``16-128``."""
    low, dash, high = text.partition("-")
    if not (low.isdecimal() and (high if dash else low).isdecimal()):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number, or two with a dash between: 16-128")
    bounds = int(low), int(high if dash else low)
    if not 1 <= bounds[0] <= bounds[1] <= MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text} does not go up from 1, to {MOST_TOKENS:,} at most")
    return bounds


def numbers(text: str) -> tuple[int, ...]:
    """``1,2,4``."""
    parts = text.split(",")
    if not all(part.isdecimal() and 1 <= int(part) <= 1_000_000 for part in parts) or len(set(parts)) < len(parts):
        raise argparse.ArgumentTypeError(f"{text} is no list of different whole numbers above 0, such as 1,2,4")
    return tuple(int(part) for part in parts)


def burst(text: str) -> tuple[int, float]:
    """``8/5``: eight every five seconds."""
    size, slash, every = text.partition("/")
    if not (slash and size.isdecimal() and int(size) >= 1 and 0 < _number(every) <= MOST):
        raise argparse.ArgumentTypeError(f"{text} is not SIZE/SECONDS, such as 8/5")
    return int(size), float(every)


def ramp(text: str) -> tuple[float, float]:
    """``1-10``: from one a second to ten."""
    low, dash, high = text.partition("-")
    if not (dash and 0 <= _number(low) <= MOST and 0 <= _number(high) <= MOST and _number(low) + _number(high) > 0):
        raise argparse.ArgumentTypeError(f"{text} is not FROM-TO in requests/s, such as 1-10")
    return float(low), float(high)


def bounds(text: str) -> dict[str, float]:
    """``ttft=0.5,tpot=0.05``, in seconds."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if name not in BOUNDS or not equals or not 0 < _number(value) <= MOST or name in found:
            raise argparse.ArgumentTypeError(
                f"{text} is not {','.join(f'{name}=S' for name in BOUNDS)}, or some of them"
            )
        found[name] = float(value)
    return found


def note(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.strip() and equals):
        raise argparse.ArgumentTypeError(f"{text} is not NAME=TEXT")
    return name.strip(), value.strip()


def _too_much(value: float) -> str:
    return f" and at most {MOST:,.0f}" if value > MOST else ""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
