"""The table of who was preempted."""

from collections.abc import Sequence

from kvtop.record.preempted import Preempted
from kvtop.views.fit import line
from kvtop.views.format import UNKNOWN, called, clock, count, plural, seconds, short
from kvtop.views.rows import HIGHLIGHT, Role, Row, RowBuilder, clean

_NAME, _FOR = 16, 24


def preempted_head(width: int) -> Row:
    """Titles of the columns."""
    text = f"{'request':<{_NAME}} {'times':>5}  {'lost':>12} {'spent':>7}  {'for':<{_FOR}} {'first':<8} {'last':<8}"
    return line([(text, Role.DIM)], width)


def preempted_row(request: Preempted, width: int, *, chosen: bool) -> Row:
    """``B-0017   4  1204 tokens  2.3s  C-0031 3x, D-0007 1x  14:02:31 14:02:50``"""
    builder = RowBuilder()
    builder.add(f"{called(request.name, _NAME):<{_NAME}} ", Role.STRONG)
    builder.add(f"{count(request.times):>5}  ", Role.WARN)
    lost = UNKNOWN if request.tokens is None else f"{count(request.tokens)} tokens"
    builder.add(f"{lost:>12} {seconds(request.seconds):>7}  ")
    others = ", ".join(f"{called(name, 16)} {times}x" for name, times in request.by.most_common(4))
    builder.add(f"{short(others or 'no request: by command', _FOR):<{_FOR}} ")
    builder.add(f"{clock(request.first_wall)} {clock(request.last_wall)}", Role.DIM)
    row = line([(builder.row().text, Role.TEXT)], width) if chosen else builder.row()
    if chosen:
        return Row(row.text, bytes([Role.STRONG | HIGHLIGHT]) * len(row.text))
    return Row(row.text[:width].ljust(width), row.roles[:width].ljust(width, bytes((Role.TEXT,))))


def preempted_title(found: Sequence[Preempted], left_out: int) -> str:
    """How many, and what may be missing."""
    times = sum(request.times for request in found)
    more = f"; {plural(left_out, 'event')} not in the index" if left_out else ""
    return f"{plural(len(found), 'request')}, {plural(times, 'time')}{clean(more)}"
