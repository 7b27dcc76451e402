"""Policies: what is set, by whom and when; and whether the latest change helped, with an error bar."""

from kvtop.protocol import PolicyValue
from kvtop.state import EngineState
from kvtop.state.comparison import Comparison
from kvtop.state.effect import HIGHER_IS_BETTER, NEITHER, Effect, effect_of
from kvtop.state.policy_log import PolicyChange
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Part, Span, blank, cut, exactly, fit, line, part
from kvtop.views.format import UNKNOWN, clock, count, fixed, percent, rate, seconds, serial, value
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean

_AXIS, _VALUE = 20, 22
_FIGURE, _CELL = 12, 11


def changes_newest_first(state: EngineState) -> list[PolicyChange]:
    return list(reversed(state.policies.changes))


def policies_title(state: EngineState) -> str:
    """``policies: 12 axes, 3 changes seen``."""
    if not state.policy:
        return "policies"
    known = len(state.policies.changes)
    return f"policies: {count(len(state.policy))} axes, {count(known)} change{'' if known == 1 else 's'} known"


def policy_rows(
    state: EngineState,
    width: int,
    height: int,
    now: float,
    glyphs: Glyphs = UNICODE,
    *,
    chosen: int = 0,
    first: int = 0,
) -> list[Row]:
    """The effect of the change that is ``chosen`` (0 is the latest), then every axis from the ``first`` on."""
    if not state.policy:
        return message_rows(not_exposed(state, "policies"), width, height, glyphs)
    changes = changes_newest_first(state)
    rows: list[Row] = []
    if changes:
        place = max(0, min(chosen, len(changes) - 1))
        rows = [*_effect(state, changes[place], place, len(changes), width, now), blank(width)]
    room = max(2, height - len(rows))
    rows += _axes(state, width, room, now, first)
    return glyphs.rows(exactly(rows, width, height))


# -- who set what ------------------------------------------------------------------------------------------------------


def _axes(state: EngineState, width: int, height: int, now: float, first: int) -> list[Row]:
    title = RowBuilder().add(f"{'axis':<{_AXIS}} {'value':<{_VALUE}} set by", Role.TITLE).row(width)
    items = list(state.policy.items())
    room = height - 1
    first = max(0, min(first, len(items) - room))
    shown = items[first : first + room]
    if first + len(shown) < len(items) and len(shown) > 1:
        shown = shown[:-1]
    rows = [title, *(_axis(state, name, item, width, now) for name, item in shown)]
    if first + len(shown) < len(items):
        rows.append(line([(f"… and {count(len(items) - first - len(shown))} more", Role.DIM)], width))
    return rows


def _axis(state: EngineState, name: str, item: PolicyValue, width: int, now: float) -> Row:
    change = state.policies.latest(name)
    unit = _unit(state, name)
    shown = f"{value(item)} {unit}".rstrip()
    spans: list[Span] = [
        (fixed(name.replace("_", " "), _AXIS) + " ", Role.TEXT),
        (fixed(shown, _VALUE) + " ", Role.ACCENT if change is not None else Role.STRONG),
    ]
    left = line(spans, min(width, _AXIS + _VALUE + 2))
    rest = fit(_by(state, change, now), max(0, width - len(left.text)))
    return cut(Row(left.text + rest.text, left.roles + rest.roles), width)


def _unit(state: EngineState, name: str) -> str:
    axis = next((axis for axis in state.hello.axes if axis.name == name), None) if state.hello else None
    return clean(axis.unit, 16) if axis is not None and axis.unit else ""


def _by(state: EngineState, change: PolicyChange | None, now: float) -> list[Part]:
    if change is None:
        return [part(9, "no change of it is known", "–", role=Role.DIM)]
    return [
        part(50, _who(change)),
        part(49, ((f"{_passed(state, change, now)} ago", Role.DIM),)),
        part(30, ((f"was {value(change.old)}", Role.DIM),), ""),
        part(20, ((f"at {clock(change.wall)}", Role.DIM),), ""),
        part(10, ((f"iteration {serial(change.iteration)}", Role.DIM),), ""),
    ]


def _who(change: PolicyChange) -> str:
    if change.uid is None:
        return "nobody named"
    return f"uid {serial(change.uid)}" + (f" pid {serial(change.pid)}" if change.pid is not None else "")


def _passed(state: EngineState, change: PolicyChange, now: float) -> str:
    mono = state.mono_now(now)
    return seconds(None if mono is None else state.history.at(mono) - change.at)


# -- whether it helped -------------------------------------------------------------------------------------------------


def _effect(state: EngineState, change: PolicyChange, place: int, known: int, width: int, now: float) -> list[Row]:
    which = "the latest change" if place == 0 else f"change {count(place + 1)} of {count(known)} back"
    head = fit(
        [
            part(50, ((f"{clean(change.axis, 64)}: {value(change.old)} → {value(change.new)}", Role.ACCENT),)),
            part(
                30,
                f"{_passed(state, change, now)} ago by {_who(change)}, iteration {serial(change.iteration)}",
                f"{_passed(state, change, now)} ago by {_who(change)}",
                f"{_passed(state, change, now)} ago",
                "",
            ),
            part(20, which, "", role=Role.DIM),
        ],
        width,
    )
    effect = effect_of(state, change, now)
    if effect is None:
        return [head]
    return [
        head,
        _state_of(effect, width),
        _titles(width),
        *(_figure(name, one, effect, width) for name, one in effect.figures.items()),
    ]


def _state_of(effect: Effect, width: int) -> Row:
    if not effect.enough:
        why = f", no longer for {effect.cut}" if effect.cut else ""
        return line(
            [(f"cannot be said yet: {effect.seconds} s of {effect.wanted} s on either side{why}", Role.WARN)], width
        )
    cut = f", cut by {effect.cut}" if effect.cut else ""
    return fit(
        [
            part(50, f"{seconds(effect.seconds)} before and after{cut}", role=Role.DIM),
            part(40, f"±: 95 %, by blocks of {effect.block} s", "±: 95 %", role=Role.DIM),
            part(30, "other causes are not ruled out", "no proof of cause", "", role=Role.DIM),
        ],
        width,
    )


def _titles(width: int) -> Row:
    builder = RowBuilder().add(" " * _FIGURE)
    for title in ("before", "after", "difference"):
        builder.add(f"{title:>{_CELL}}", Role.TITLE)
    return builder.row(width)


def _figure(name: str, one: Comparison, effect: Effect, width: int) -> Row:
    builder = RowBuilder().add(f"{name:<{_FIGURE}}", Role.TEXT)
    builder.add(f"{_said(name, one.before):>{_CELL}}{_said(name, one.after):>{_CELL}}", Role.STRONG)
    if not effect.enough or one.margin is None:
        missing = "" if not effect.enough else f" too few values: {min(one.blocks)} blocks"
        return builder.add(f"{UNKNOWN:>{_CELL}}{missing}", Role.DIM).row(width)
    difference = one.difference or 0.0
    sign = "+" if difference >= 0 else "-"
    shown = f"{sign}{_said(name, abs(difference))}"
    builder.add(f"{shown:>{_CELL}}", Role.STRONG).add(f" ±{_said(name, one.margin):<7}", Role.DIM)
    word, role = _verdict(name, one)
    return builder.add(f" {word}", role).row(width)


def _verdict(name: str, one: Comparison) -> tuple[str, int]:
    if not one.told or one.difference is None:
        return "no difference can be told", Role.DIM
    word = "more" if one.difference > 0 else "less"
    if name in NEITHER:
        return word, Role.ACCENT
    better = (one.difference > 0) == (name in HIGHER_IS_BETTER)
    return f"{word}: {'better' if better else 'worse'}", Role.GOOD if better else Role.BAD


def _said(name: str, number: float | None) -> str:
    if number is None:
        return UNKNOWN
    if name.startswith(("ttft", "tpot")):
        return seconds(number)
    return percent(number) if name == "KV used" else rate(number)
