"""How long requests take: percentiles over windows, how many are how long, goodput, and what waits now."""

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from kvtop.state import EngineState
from kvtop.state.outcomes import Goodput
from kvtop.state.percentiles import LEAST_OCTAVE, MAX_SAMPLES, Latencies, in_octaves, nearest_rank
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Part, Span, blank, exactly, fit, line, part
from kvtop.views.format import UNKNOWN, count, percent, plural, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.queue import oldest_wait
from kvtop.views.rows import Role, Row, RowBuilder
from kvtop.views.verdict import waiting_count

SHARES: Final = (0.50, 0.90, 0.99)
METRICS: Final = ("ttft", "tpot", "queue", "latency")
_CELL = 6
_NAME = 8
_GROUP = _CELL * (len(SHARES) + 1)


class Window(NamedTuple):
    """``seconds`` back; infinite: all that this viewer has seen of this run."""

    name: str
    seconds: float


WINDOWS: Final = (Window("1 min", 60.0), Window("5 min", 300.0), Window("all seen", inf))


def latency_title(metric: str, window: Window) -> str:
    """What the histogram is of."""
    return f"latency: {metric}, {window.name}"


def latency_rows(
    state: EngineState,
    width: int,
    height: int,
    now: float,
    glyphs: Glyphs = UNICODE,
    *,
    metric: str = "ttft",
    window: Window = WINDOWS[0],
    level: Mapping[str, float] | None = None,
    key: str = "S",
) -> list[Row]:
    """The table, goodput, what waits now, and a histogram of ``metric`` over ``window`` in the rows that are left.

    ``level``: seconds by names of `kvtop.state.service_level.ASKED`; ``key``: how it is set.
    """
    if state.seq is None or state.requests is None:
        return message_rows(not_exposed(state, "latencies of requests"), width, height, glyphs)
    rows = [
        *_table(state, width, now, metric),
        fit(_goodput(state, now, level or {}, key), width),
        fit(_waiting(state, now), width),
    ]
    left = height - len(rows)
    if left > 2:
        rows += _histogram(state, width, left, now, glyphs, metric, window)
    return glyphs.rows(exactly(rows, width, height))


def _of(state: EngineState, metric: str) -> Latencies:
    found: Latencies = getattr(state.latencies, metric)
    return found


def percentiles(latencies: Latencies, mono: float | None, window: Window) -> tuple[list[float | None], int]:
    """Those of `SHARES`, and of how many they are."""
    if window.seconds == inf and latencies.counted > MAX_SAMPLES:
        return [latencies.of_all(share) for share in SHARES], latencies.counted
    values = latencies.within(mono, window.seconds)
    if not len(values):
        return [None] * len(SHARES), 0
    return [nearest_rank(values, share) for share in SHARES], len(values)


def _table(state: EngineState, width: int, now: float, metric: str) -> list[Row]:
    mono = state.mono_now(now)
    shown = WINDOWS[: max(1, min(len(WINDOWS), (width - _NAME) // _GROUP))]
    names, titles = RowBuilder().add(" " * _NAME), RowBuilder().add(" " * _NAME)
    for window in shown:
        names.add(f"{window.name:>{_GROUP}}", Role.TITLE)
        titles.add("".join(f"{f'p{share * 100:.0f}':>{_CELL}}" for share in SHARES) + f"{'n':>{_CELL}}", Role.DIM)
    rows = [names.row(width), titles.row(width)]
    for name in METRICS:
        builder = RowBuilder().add(f"{name:<{_NAME}}", Role.STRONG if name == metric else Role.TEXT)
        latencies = _of(state, name)
        for window in shown:
            values, number = percentiles(latencies, mono, window)
            # Older ones of the window are kept no more: so many there are at least.
            more = "+" if window.seconds != inf and not latencies.reaches(mono, window.seconds) else ""
            builder.add("".join(f"{seconds(value):>{_CELL}}" for value in values), Role.STRONG)
            builder.add(f"{count(number) + more:>{_CELL}}", Role.DIM)
        rows.append(builder.row(width))
    return rows


def _goodput(state: EngineState, now: float, level: Mapping[str, float], key: str) -> list[Part]:
    if not level:
        return [part(9, (("goodput ", Role.TITLE), (f"set a service level with {key}: ttft=1,tpot=0.1", Role.DIM)))]
    mono = state.mono_now(now)
    asked = " ".join(f"{name}≤{seconds(bound)}" for name, bound in level.items())
    parts = [part(40, (("goodput ", Role.TITLE), (asked, Role.TEXT)), (("goodput", Role.TITLE),))]
    for place, window in enumerate(WINDOWS[:2]):
        found = Goodput(0, 0, 0, 0)
        if mono is not None:
            # What comes with the next frame may be dated a little after now.
            found = state.latencies.outcomes.goodput(level, mono - window.seconds, inf)
        share: Span = (percent(found.share), _role(found.share))
        shown: list[Span] = [(f"{window.name} ", Role.DIM), share]
        told: list[Span] = [*shown, (f" of {count(found.judged)} finished", Role.DIM)]
        parts.append(
            part(60 - 20 * place, told, [*shown, (f" of {count(found.judged)}", Role.DIM)], *([""] if place else []))
        )
        if place == 0 and found.failed:
            parts.append(part(30, ((f"{count(found.failed)} ended otherwise", Role.WARN),), ""))
        if place == 0 and found.unknown:
            parts.append(part(25, ((f"{count(found.unknown)} with a time unknown", Role.DIM),), ""))
    return parts


def _role(share: float | None) -> int:
    return Role.DIM if share is None else Role.GOOD if share >= 0.99 else Role.WARN if share >= 0.9 else Role.BAD


def _waiting(state: EngineState, now: float) -> list[Part]:
    """What waits now beside what got through: where nothing gets through, percentiles look well."""
    waiting = waiting_count(state)
    if waiting is None:
        return [part(9, not_exposed(state, "queue"), role=Role.DIM)]
    oldest = oldest_wait(state, now) if waiting else None
    values, number = percentiles(state.latencies.queue, state.mono_now(now), WINDOWS[0])
    longer = oldest is not None and values[-1] is not None and oldest > values[-1]
    so_far: list[Span] = []
    if oldest is not None:
        so_far = [
            (", oldest ", Role.DIM),
            (seconds(oldest), Role.WARN if longer else Role.STRONG),
            (" so far", Role.DIM),
        ]
    got: list[Span] = [("through in 1 min ", Role.DIM), (count(number), Role.STRONG), (", longest of 99 % ", Role.DIM)]
    return [
        part(60, [("waits now ", Role.TITLE), (plural(waiting, "request"), Role.STRONG), *so_far]),
        part(40, [*got, (seconds(values[-1]), Role.STRONG)], got[:2], ""),
    ]


def _histogram(
    state: EngineState, width: int, height: int, now: float, glyphs: Glyphs, metric: str, window: Window
) -> list[Row]:
    """A row for each octave there is, from the shortest down; neighbours share one where there are more than rows."""
    latencies, mono = _of(state, metric), state.mono_now(now)
    all_of_it = window.seconds == inf
    counts = (latencies.octaves() if all_of_it else in_octaves(latencies.within(mono, window.seconds))).tolist()
    known = [place for place, number in enumerate(counts) if number]
    if not known:
        said = f"no {metric} was told in this window" if latencies.counted else f"no {metric} was told yet"
        return [blank(width), line([(said, Role.DIM)], width)]
    each = 1
    while (known[-1] // each - known[0] // each + 1) > height - 1:
        each += 1
    low, high = known[0] // each, known[-1] // each
    sums = [sum(counts[place * each : (place + 1) * each]) for place in range(low, high + 1)]
    whole, most = sum(sums), max(sums)
    bar = max(1, width - 30)
    rows = [blank(width)]
    for place, number in enumerate(sums, low):
        bounds = f"{_bound(place * each):>6} to {_bound((place + 1) * each):<6}"
        cells = -(-number * bar // most)
        builder = RowBuilder().add(f"{bounds:>16} ", Role.DIM)
        builder.add(glyphs.state("active") * cells, Role.ACCENT).to(17 + bar)
        rows.append(builder.add(f" {count(number):>5} {percent(number / whole):>5}", Role.TEXT).row(width))
    return rows


def _bound(octave: int) -> str:
    return seconds(2.0 ** (LEAST_OCTAVE + octave)) if octave else UNKNOWN if octave < 0 else "0ms"
