"""The policies in force, as short as a header needs them."""

from collections.abc import Iterator

from kvtop.protocol import PolicyValue
from kvtop.state import EngineState
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Part, Span, part
from kvtop.views.format import value
from kvtop.views.rows import Role, clean

_MAIN = ("capacity", "order", "victim", "prefix_cache", "max_running", "token_budget", "watermark")
"""Axes an operator asks for first, in this order; an engine's other axes follow."""

_SHORT_NAMES = {"prefix_cache": "prefix", "max_running": "running≤", "token_budget": "budget", "watermark": "wm"}


def _in_order(state: EngineState) -> Iterator[tuple[str, PolicyValue]]:
    for name in _MAIN:
        if name in state.policy:
            yield name, state.policy[name]
    for name, item in state.policy.items():
        if name not in _MAIN:
            yield name, item


def policy_parts(state: EngineState) -> list[Part]:
    """One part an axis, the more important ones staying longest; one that says so where no policy is exposed."""
    parts = []
    for place, (name, item) in enumerate(_in_order(state)):
        shown = value(item)
        limit = isinstance(item, int | float) and not isinstance(item, bool)
        long = name.replace("_", " ")
        brief = _SHORT_NAMES.get(name, long)
        joint = "" if brief.endswith("≤") else " "
        forms: list[str | tuple[Span, ...]] = [_pair(f"{long} ", shown)]
        if place == 0:
            forms += [((shown, Role.ACCENT),)]
        elif not limit and not isinstance(item, bool):
            forms += [((shown, Role.ACCENT),), ""] if name == "order" else [""]
        else:
            forms += [_pair(f"{brief}{joint}", shown), ""]
        parts.append(part(50 if name == "victim" else 40 - place, *forms))
    return parts or [part(40, not_exposed(state, "policy"), "", role=Role.DIM)]


def _pair(name: str, shown: str) -> tuple[Span, ...]:
    return ((clean(name, 65), Role.DIM), (shown, Role.ACCENT))
