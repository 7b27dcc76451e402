"""Numbers as short text with their unit, never wider than stated. Unknown (None, NaN, infinite) is ``–``, never 0."""

import math
import time

from kvtop.views.clusters import whole
from kvtop.views.rows import clean

UNKNOWN = "–"
HUGE = "huge"
"""For what no engine counts (above 10^15): something is wrong with the source, and the column keeps its width."""

NAME_WIDTH = 41
"""Cells that a sentence gives a name: as many as ids of chat completions have."""

Number = int | float | None


def _known(value: Number) -> float | None:
    if value is None or isinstance(value, str):
        return None
    try:
        number = float(value)
    except OverflowError:
        return -1e300 if value < 0 else 1e300
    return number if math.isfinite(number) else None


def count(value: Number) -> str:
    """At most 5 cells (6 if negative): ``9999``, ``12.3k``, ``4.56M``."""
    if type(value) is int and 0 <= value < 10_000:
        return str(value)
    number = _known(value)
    if number is None:
        return UNKNOWN
    sign, number = ("-", -number) if number < 0 else ("", number)
    if number >= 999.5e12:
        return sign + HUGE
    if round(number) < 10_000:
        return f"{sign}{round(number)}"
    for unit in ("k", "M", "G", "T"):
        number /= 1000
        if number < 999.5:
            return sign + _three(number) + unit
    return sign + HUGE


def part_of(part: Number, whole: Number, width: int) -> str:
    """``512/4096``, in ``width`` cells by rounding what is long: ``12.3k/46k``, ``123k/131k``. Nine cells always do."""
    forms = ((count, count), (count, _rounded), (_rounded, _rounded))
    texts = [f"{first(part)}/{second(whole)}" for first, second in forms]
    return next((text for text in texts if len(text) <= width), texts[-1])


def _rounded(value: Number) -> str:
    """Like `count`, in at most 4 cells: ``9999``, ``12k``, ``131k``, ``1.2M``."""
    text = count(value)
    if len(text) <= 4 or not text[-1].isalpha():
        return text
    number = float(text[:-1])
    return f"{number:.1f}{text[-1]}" if number < 9.95 else f"{number:.0f}{text[-1]}"


def serial(value: Number) -> str:
    """The number of an iteration, a block or a process, in full: at most 15 digits."""
    number = _known(value)
    if number is None or value is None:
        return UNKNOWN
    return str(int(value)) if abs(number) < 1e15 else HUGE


def _three(number: float) -> str:
    """Three digits: ``1.23``, ``12.3``, ``123``."""
    if number < 9.995:
        return f"{number:.2f}"
    return f"{number:.1f}" if number < 99.95 else f"{number:.0f}"


def rate(value: Number) -> str:
    """A number a second or a minute, at most 5 cells: ``0.42``, ``31.4``, ``987``, ``12.3k``."""
    number = _known(value)
    if number is None:
        return UNKNOWN
    if 0 < number < 999.5:
        return _three(number)
    return count(number)


_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def _byte_unit(number: float) -> int:
    unit = 0
    while number >= 999.5 and unit < len(_BYTE_UNITS) - 1:
        number /= 1024
        unit += 1
    return unit


def _in_unit(number: float, unit: int) -> str:
    number /= 1024**unit
    if number >= 99_999.5:
        return HUGE
    return f"{number:.0f}" if unit == 0 or number >= 99.95 else f"{number:.1f}"


def size(value: Number) -> str:
    """Bytes in binary units, at most 9 cells: ``22.5 MiB``."""
    number = _known(value)
    if number is None or number < 0:
        return UNKNOWN
    unit = _byte_unit(number)
    return f"{_in_unit(number, unit)} {_BYTE_UNITS[unit]}"


def size_of(part: Number, whole: Number) -> str:
    """``9.2 of 22.5 MiB``: both in the unit of the whole."""
    used, total = _known(part), _known(whole)
    if total is None or total < 0:
        return size(part)
    unit = _byte_unit(total)
    text = UNKNOWN if used is None or used < 0 else _in_unit(used, unit)
    return f"{text} of {_in_unit(total, unit)} {_BYTE_UNITS[unit]}"


def seconds(value: Number) -> str:
    """A duration, at most 5 cells: ``0.4ms``, ``850ms``, ``12.4s``, ``3m05``, ``2h07``, ``4d02``, ``900d``."""
    number = _known(value)
    if number is None:
        return UNKNOWN
    number = max(0.0, number)
    if number < 0.00995:
        return f"{number * 1000:.1f}ms" if number else "0ms"
    if number < 0.9995:
        return f"{number * 1000:.0f}ms"
    if number < 59.95:
        return f"{number:.1f}s"
    if number < 3599.5:
        minutes, rest = divmod(round(number), 60)
        return f"{minutes}m{rest:02d}"
    minutes = round(number / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}"
    hours = round(number / 3600)
    if hours < 100 * 24:
        return f"{hours // 24}d{hours % 24:02d}"
    days = number / 86400
    return f"{days:.0f}d" if days < 9999.5 else HUGE


def age(value: Number) -> str:
    """Seconds since something, at most 5 cells; below a minute in tenths: ``3.2s``."""
    number = _known(value)
    if number is not None and number < 59.95:
        return f"{max(0.0, number):.1f}s"
    return seconds(value)


def percent(share: Number) -> str:
    """A share of one, at most 5 cells: ``41%``; what is not zero is never shown as ``0%``, nor what is not all as all."""
    number = _known(share)
    if number is None:
        return UNKNOWN
    if abs(number) >= 99.995:
        return HUGE
    hundredths = round(number * 100)
    if number > 0 and hundredths == 0:
        return "<1%"
    if number < 1 and hundredths == 100:
        return ">99%"
    return f"{hundredths}%"


def clock(wall: Number) -> str:
    """Unix seconds as local time of day, 8 cells: ``14:03:59``; ``--:--:--`` where unknown."""
    number = _known(wall)
    if number is None:
        return "--:--:--"
    try:
        return time.strftime("%H:%M:%S", time.localtime(number))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def day(wall: Number) -> str:
    """Unix seconds as local date, 10 cells: ``2026-11-30``; ``----------`` where unknown."""
    number = _known(wall)
    if number is None:
        return "-" * 10
    try:
        return time.strftime("%Y-%m-%d", time.localtime(number))
    except (OverflowError, ValueError, OSError):
        return "-" * 10


def fixed(text: str, width: int) -> str:
    """A name from outside in exactly ``width`` cells, left-aligned; ``…`` marks what was cut."""
    text = clean(text)
    if len(text) > width:
        return text[: width - 1] + "…" if width > 0 else ""
    return text.ljust(width)


def ends(text: str, width: int) -> str:
    """Like `fixed`, but what was cut is in the middle: names that somebody numbered differ at their end."""
    text = clean(text)
    if len(text) <= width or width < 3:
        return fixed(text, width)
    head = (width - 1) // 3
    return whole(f"{text[:head]}…{text[head + 1 - width :]}")


def called(text: str, width: int = NAME_WIDTH) -> str:
    """A name from outside within a sentence, in at most ``width`` cells: like `ends`, without padding."""
    return ends(text, width).rstrip() if len(text) > width else clean(text)


def short(text: str, width: int) -> str:
    """Like `fixed`, without padding."""
    return fixed(text, width).rstrip() if len(text) <= width else fixed(text, width)


def value(item: object) -> str:
    """A policy value or a limit: ``on``, ``off``, a number, a name."""
    if isinstance(item, bool):
        return "on" if item else "off"
    if isinstance(item, float):
        return f"{item:g}"
    if isinstance(item, int):
        return str(item) if abs(item) < 10**9 else count(item)
    return UNKNOWN if item is None else clean(str(item), 64)


def plural(number: Number, word: str) -> str:
    """``1 block``, ``12 blocks``."""
    return f"{count(number)} {word}" if number == 1 else f"{count(number)} {word}s"
