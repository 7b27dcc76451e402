"""The scheduler at work: batches against their budget, where time goes, who is refused and why, who goes in circles."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

import numpy as np

from kvtop.protocol import Event
from kvtop.state import EngineState, Timing
from kvtop.state.history import PARTS
from kvtop.state.refusals import WINDOW_S
from kvtop.views.block_states import role_of
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Part, Span, cut, exactly, fit, part
from kvtop.views.format import UNKNOWN, called, count, percent, plural, rate, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.plot import stacked_rows
from kvtop.views.queue import oldest_wait
from kvtop.views.refused import refusal_parts
from kvtop.views.rows import Role, Row
from kvtop.views.verdict import waiting_count

_LINES: Final = 6
"""Below the plot."""

LEAST_PLOT: Final = 4
"""Rows that the plot keeps before any line but the first."""

_LOOP: Final = 2
"""Preemptions within the window from which on a request goes in circles."""

_MOST_EVENTS: Final = 2000
"""Preemptions looked at."""

_NAME_WIDTH: Final = 9

_NAMES: Final = {"transfer_wait": "transfer wait"}


class Loop(NamedTuple):
    """A request that was preempted several times within the window."""

    name: str
    times: int


def scheduler_title(state: EngineState) -> str:
    """``scheduler: batch 37 of 128 tokens, prefill 25 decode 12``, of the latest iteration."""
    if state.batch is None:
        return "scheduler"
    latest = next((timing for timing in reversed(state.durations) if timing.batch is not None), None)
    iterations = max(1, latest.iterations) if latest is not None else 1
    prefill, decode = state.batch.prefill_tokens / iterations, state.batch.decode_tokens / iterations
    budget = "" if state.batch.token_budget is None else f" of {count(state.batch.token_budget)}"
    return f"scheduler: batch {count(prefill + decode)}{budget} tokens, prefill {count(prefill)} decode {count(decode)}"


def scheduler_rows(
    state: EngineState,
    width: int,
    height: int,
    now: float,
    glyphs: Glyphs = UNICODE,
    *,
    looping: Sequence[Loop] | None = None,
    plot: Sequence[Row] | None = None,
) -> list[Row]:
    """The plot above, as high as the lines below it leave; the lines that matter least go first.

    ``looping`` and ``plot``: `loops` and `plot_rows` as they were found a moment ago; None: they are found now.
    """
    if state.seq is None:
        return message_rows(not_exposed(state, "scheduler"), width, height, glyphs)
    above = plot_height(height)
    lines: tuple[tuple[str, Callable[[], list[Part]]], ...] = (
        ("refused", lambda: _refused(state, now)),
        ("time", lambda: _time(state, now)),
        ("loops", lambda: _loops(state, loops(state, now) if looping is None else looping)),
        ("memory", lambda: _memory(state)),
        ("flow", lambda: _flow(state, now)),
        ("waiting", lambda: _waiting(state, now)),
    )
    kept = [_line(name, found(), width) for name, found in lines[: height - above]]
    drawn = plot if plot is not None and len(plot) == above else plot_rows(state, width, above, glyphs)
    return [*drawn, *glyphs.rows(exactly(kept, width, height - above))]


def plot_height(height: int) -> int:
    """Of so many rows, those of the plot."""
    return max(0, height - max(1, min(_LINES, height - LEAST_PLOT)))


# -- batches ----------------------------------------------------------------------------------------------------------


def plot_rows(state: EngineState, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """One row says what it shows, the others are columns, of each frame one: the mean where iterations came merged."""
    steps = [timing for timing in state.durations if timing.iterations]
    if not steps or all(timing.batch is None for timing in steps):
        return message_rows(not_exposed(state, "batches"), width, height, glyphs)
    budgets = [timing.batch.token_budget for timing in steps if timing.batch is not None and timing.batch.token_budget]
    columns = [_tokens(timing) for timing in steps[-width:]]
    budget = budgets[-1] if budgets else None
    most = max(sum(parts) for parts in columns)
    top = float(budget or max(1.0, most))
    label = max(len(count(top)), 1)
    plot = height - 1
    if plot < 1:
        return glyphs.rows([_legend(steps, budget, width, glyphs)][:height])
    axis = [
        f"{count(top):>{label}} ",
        *[" " * (label + 1)] * max(0, plot - 2),
        *([f"{'0':>{label}} "] if plot > 1 else []),
    ]
    rows = [
        _legend(steps, budget, width, glyphs),
        *stacked_rows(
            columns,
            top,
            width,
            plot,
            glyphs=(glyphs.state("active"), glyphs.state("shared")),
            roles=(role_of("active"), role_of("shared")),
            eighths=glyphs.ramp,
            axis=axis,
        ),
    ]
    return glyphs.rows(rows)


def _tokens(timing: Timing) -> tuple[float, float]:
    """Decode and prefill tokens of an iteration."""
    if timing.batch is None:
        return 0.0, 0.0
    return timing.batch.decode_tokens / timing.iterations, timing.batch.prefill_tokens / timing.iterations


def _legend(steps: list[Timing], budget: int | None, width: int, glyphs: Glyphs) -> Row:
    shown = steps[-width:]
    iterations = sum(timing.iterations for timing in shown)
    used = sum(sum(_tokens(timing)) * timing.iterations for timing in shown) / max(1, iterations)
    share = f", {percent(used / budget)} of the budget" if budget else ""
    parts = [
        part(
            9,
            (
                (glyphs.state("active"), role_of("active")),
                (" decode ", Role.DIM),
                (glyphs.state("shared"), role_of("shared")),
                (" prefill", Role.DIM),
            ),
        ),
        part(8, f"mean {count(used)} tokens{share}", f"mean {count(used)}", ""),
        part(
            5,
            f"{plural(iterations, 'iteration')}, the latest at the right",
            plural(iterations, "iteration"),
            "",
            role=Role.DIM,
        ),
        part(4, "" if budget else "no budget exposed: the height is the most of them", "", role=Role.DIM),
    ]
    return fit([p for p in parts if p.forms[0][0][0]], width)


# -- lines ------------------------------------------------------------------------------------------------------------


def _line(name: str, parts: list[Part], width: int) -> Row:
    """A name in a column of its own, then its parts."""
    rest = fit(parts, max(0, width - _NAME_WIDTH))
    return cut(Row(f"{name:<{_NAME_WIDTH}}" + rest.text, bytes((Role.TITLE,)) * _NAME_WIDTH + rest.roles), width)


def _refused(state: EngineState, now: float) -> list[Part]:
    return [
        *refusal_parts(state, now),
        part(5, f"time the head was, of {WINDOW_S} s", "", role=Role.DIM),
    ]


def _time(state: EngineState, now: float) -> list[Part]:
    """Where the step's time went, the largest first."""
    end = state.trend_end(now)
    if end is None:
        return [part(9, UNKNOWN)]
    columns = state.trends([*PARTS, "iterations"], end - WINDOW_S, end)
    sums = [float(np.nansum(values)) for values in columns]
    iterations, times = sums.pop(), dict(zip(PARTS, sums, strict=True))
    whole = sum(times.values())
    if not whole:
        known = any(timing.durations.forward for timing in state.durations)
        return [
            part(9, "no iteration in the last minute" if known else not_exposed(state, "times"), role=Role.DIM),
        ]
    parts = []
    for place, name in enumerate(sorted(times, key=lambda name: -times[name])):
        if not times[name]:
            continue
        each = f" {seconds(times[name] / 1000 / iterations)}" if iterations else ""
        shown: list[Span] = [(f"{_NAMES.get(name, name)} ", Role.DIM), (percent(times[name] / whole), Role.STRONG)]
        parts.append(part(50 - place, [*shown, (each, Role.DIM)], shown, *([""] if place else [])))
    return [*parts, part(5, f"of an iteration, {WINDOW_S} s", "", role=Role.DIM)]


def loops(state: EngineState, now: float) -> list[Loop]:
    """Requests preempted twice or more in the last minute, as far as the log keeps, the most often first."""
    mono = state.mono_now(now)
    if mono is None or state.mono is None or state.wall is None:
        return []
    since = state.wall + (mono - state.mono) - WINDOW_S
    recent = takewhile(lambda entry: (entry.wall or 0.0) >= since, state.events.latest(routine=False))
    times: Counter[int] = Counter()
    names: dict[int, str] = {}
    for entry, _ in zip(recent, range(_MOST_EVENTS), strict=False):
        if isinstance(entry, Event) and entry.kind == "preempt" and entry.request is not None:
            times[entry.request] += 1
            names.setdefault(entry.request, entry.request_id or f"#{count(entry.request)}")
    return [Loop(names[num], often) for num, often in times.most_common() if often >= _LOOP]


def _loops(state: EngineState, found: Sequence[Loop]) -> list[Part]:
    if not found:
        known = state.has("events") or state.hello is None
        said = f"no request was preempted twice in the last {WINDOW_S} s" if known else not_exposed(state, "events")
        return [part(9, said, role=Role.DIM)]
    parts = [
        part(
            60,
            ((f"{plural(len(found), 'request')} preempted again and again", Role.WARN),),
            ((plural(len(found), "request"), Role.WARN),),
        ),
    ]
    for place, loop in enumerate(found[:8]):
        parts.append(
            part(40 - place, ((f"{called(loop.name, 24)} ", Role.TEXT), (f"{count(loop.times)}x", Role.WARN)), "")
        )
    return [*parts, part(5, f"{WINDOW_S} s", "", role=Role.DIM)]


def _memory(state: EngineState) -> list[Part]:
    """What is in block tables, what is promised beyond that, and what both make of the pool."""
    total, reserved = state.gauges.get("kv_blocks_total"), state.gauges.get("kv_blocks_reserved")
    active, shared = state.gauges.get("kv_blocks_active"), state.gauges.get("kv_blocks_shared")
    if not total or active is None:
        return [part(9, not_exposed(state, "blocks"), role=Role.DIM)]
    held = active + (shared or 0)
    parts = [part(50, f"used {count(held)} of {count(total)} blocks", f"used {count(held)}")]
    if reserved is None:
        return [*parts, part(9, not_exposed(state, "reserved"), "", role=Role.DIM)]
    bound = held + reserved
    role = Role.BAD if bound > total else Role.TEXT
    parts.append(part(49, ((f"reserved {count(reserved)} more", role_of("reserved") if reserved else Role.DIM),)))
    parts.append(
        part(48, ((f"together {percent(bound / total)} of the pool", role),), ((percent(bound / total), role),))
    )
    if reserved:
        parts.append(part(20, f"{percent(held / bound)} of what is promised is in use", "", role=Role.DIM))
    return parts


def _flow(state: EngineState, now: float) -> list[Part]:
    mono = state.mono_now(now)
    parts = []
    for place, (word, name) in enumerate(
        (("admitted", "admissions"), ("finished", "finished"), ("preempted", "preemptions"))
    ):
        pace = state.rates.per_minute(name, mono)
        alarming = Role.WARN if name == "preemptions" and pace else Role.STRONG
        parts.append(part(50 - place, ((f"{word} ", Role.DIM), (rate(pace), alarming), ("/min", Role.DIM))))
    span = state.rates.span(mono, WINDOW_S)
    return [*parts, part(5, f"mean of {seconds(span)}", "", role=Role.DIM)]


def _waiting(state: EngineState, now: float) -> list[Part]:
    """What waits now and for how long so far: what got through says nothing of it."""
    waiting = waiting_count(state)
    if waiting is None:
        return [part(9, not_exposed(state, "queue"), role=Role.DIM)]
    parts = [part(50, plural(waiting, "request"))]
    oldest = oldest_wait(state, now) if waiting else None
    if oldest is not None:
        parts.append(part(49, (("oldest ", Role.DIM), (seconds(oldest), Role.STRONG), (" so far", Role.DIM))))
    head = state.request(state.queue.order[0]) if state.queue is not None and state.queue.order else None
    if head is not None and (waited := head.queue_time(state.mono_now(now))) is not None:
        parts.append(part(30, ((f"head {called(head.name, 24)} ", Role.DIM), (seconds(waited), Role.STRONG)), ""))
    return parts
