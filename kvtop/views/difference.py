"""The difference between two moments, in lines to be read from above: what matters most comes first."""

from collections.abc import Iterable

from kvtop.state.difference import Difference, Figure
from kvtop.state.request_row import RequestRow
from kvtop.views.fit import Span, line
from kvtop.views.format import UNKNOWN, age, called, clock, count, day, percent, plural, size, value
from kvtop.views.rows import Role, Row, clean

MOST = 50
"""Requests named of one kind; more are counted."""

_NAME = 20


def difference_rows(told: Difference, width: int) -> list[Row]:
    """As many rows of ``width`` cells as there is to tell."""
    rows = [line(_heading(told), width)]
    if not told.same_run:
        rows.append(line([(another_run(told), Role.BAD)], width))
    rows += _policies(told, width)
    rows += _preempted(told, width)
    rows += _figures("blocks of the device", told.states, width, _owners(told))
    rows += _figures("levels", told.levels, width)
    rows += _done(told, width)
    rows += _named("arrived", told.arrived, width)
    rows += _named("ended or gone", told.gone, width)
    rows += _moved(told, width)
    return rows


def another_run(told: Difference) -> str:
    """What is said where the two are of different lives of engines; empty where they are not."""
    if told.same_run:
        return ""
    only = "only what both tell of themselves is set side by side"
    names = [clean(state.hello.engine.name, 64) for state in (told.earlier, told.later) if state.hello is not None]
    if len(set(names)) == 2:
        return f"two engines, {names[0]} and {names[1]}: {only}"
    return f"the engine was restarted in between: {only}"


def _heading(told: Difference) -> list[Span]:
    earlier, later = told.earlier, told.later
    between = [age(told.seconds)] if told.seconds is not None else []
    between += [plural(told.iterations, "iteration")] if told.iterations is not None else []
    same_day = day(earlier.wall) == day(later.wall)
    return [
        (f"{day(earlier.wall)} {clock(earlier.wall)}", Role.STRONG),
        (" → ", Role.DIM),
        (clock(later.wall) if same_day else f"{day(later.wall)} {clock(later.wall)}", Role.STRONG),
        (f"  {', '.join(between)}" if between else "", Role.DIM),
    ]


def _title(text: str, width: int, more: str = "") -> list[Row]:
    return [line([], width), line([(text, Role.TITLE), (f"  {more}" if more else "", Role.DIM)], width)]


def _policies(told: Difference, width: int) -> list[Row]:
    if not told.policies:
        return [*_title("policies", width, "the same in both")]
    rows = _title("policies", width)
    for axis, before, after in told.policies:
        change = ((f"  {clean(axis, 64):<{_NAME}}", Role.DIM), (value(before), Role.TEXT), (" → ", Role.DIM))
        rows.append(line([*change, (value(after), Role.ACCENT)], width))
    return rows


def _preempted(told: Difference, width: int) -> list[Row]:
    if told.earlier.requests is None or told.later.requests is None or not told.same_run:
        return []
    if not told.preempted:
        return _title("preempted in between", width, "none of the requests that are still told of")
    rows = _title("preempted in between", width, "requests that are still told of, the most preempted first")
    for cost in told.preempted[:MOST]:
        lost = "" if cost.recomputed is None else f", {plural(cost.recomputed, 'token')} computed again"
        times = f"{plural(cost.preemptions, 'time')}{lost}"
        rows.append(line([(f"  {_called(cost.row):<{_NAME}}", Role.STRONG), (times, Role.WARN)], width))
    return rows + _rest(len(told.preempted), width)


def _owners(told: Difference) -> str:
    return "" if told.owners is None else f"{plural(told.owners, 'block')} changed hands"


def _figures(title: str, figures: Iterable[Figure], width: int, more: str = "") -> list[Row]:
    moved = [figure for figure in figures if figure.before != figure.after]
    if not moved:
        return _title(title, width, "the same in both" + (f"; {more}" if more else ""))
    rows = _title(title, width, more)
    for name, before, after in moved:
        by = (
            ""
            if before is None or after is None
            else f"  {'+' if after > before else '−'}{_shown(name, abs(after - before))}"
        )
        rows.append(
            line(
                [
                    (f"  {clean(name, 64).replace('_', ' '):<{_NAME}}", Role.DIM),
                    (f"{_shown(name, before):>9}", Role.TEXT),
                    (" → ", Role.DIM),
                    (f"{_shown(name, after):>9}", Role.STRONG),
                    (by, Role.DIM),
                ],
                width,
            )
        )
    return rows


def _shown(name: str, number: float | None) -> str:
    if number is None:
        return UNKNOWN
    if name.endswith("_usage"):
        return percent(number)
    return size(number) if "bytes" in name else count(number)


def _done(told: Difference, width: int) -> list[Row]:
    if not told.done:
        return []
    rows = _title("done in between", width)
    for name, more in told.done:
        rows.append(
            line(
                [(f"  {clean(name, 64).replace('_', ' '):<{_NAME}}", Role.DIM), (_shown(name, more), Role.STRONG)],
                width,
            )
        )
    return rows


def _named(title: str, requests: list[RequestRow], width: int) -> list[Row]:
    if not requests:
        return []
    rows = _title(title, width, plural(len(requests), "request"))
    for row in requests[:MOST]:
        rows.append(line([(f"  {_called(row):<{_NAME}}", Role.TEXT), (clean(row.state or "", 32), Role.DIM)], width))
    return rows + _rest(len(requests), width)


def _moved(told: Difference, width: int) -> list[Row]:
    if not told.moved:
        return []
    rows = _title("in another state", width, plural(len(told.moved), "request"))
    for before, after in told.moved[:MOST]:
        states = f"{clean(before.state or '', 32)} → {clean(after.state or '', 32)}"
        rows.append(line([(f"  {_called(after):<{_NAME}}", Role.TEXT), (states, Role.DIM)], width))
    return rows + _rest(len(told.moved), width)


def _called(row: RequestRow) -> str:
    return called(row.name, _NAME - 1)


def _rest(number: int, width: int) -> list[Row]:
    return [line([(f"  and {number - MOST} more", Role.DIM)], width)] if number > MOST else []
