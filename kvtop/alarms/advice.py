"""What to try: only what the engine at hand really has, axes and commands by its own hello."""

from collections.abc import Sequence
from typing import NamedTuple

from kvtop.protocol import PolicyAxis
from kvtop.state import EngineState

MOST = 3
"""Ways out that one sentence names."""


class Try(NamedTuple):
    """One way out. It needs that the engine has the ``axis`` (with the choice ``value``, and not set to it already) or takes
    the ``command``; neither: it can always be tried. ``{now}`` in ``text`` is the axis's present value."""

    text: str
    axis: str = ""
    value: str = ""
    command: str = ""

    @property
    def shown(self) -> str:
        """Without an engine."""
        return self.text.replace(" (now {now})", "")


def advice(state: EngineState, tries: Sequence[Try]) -> str:
    """The first of ``tries`` that this engine has, in a sentence; never empty."""
    axes = {} if state.hello is None else {axis.name: axis for axis in state.hello.axes}
    commands = [] if state.hello is None else state.hello.commands
    found = []
    for each in tries:
        if each.axis and not _could_be_set(axes.get(each.axis), each.value, state.policy.get(each.axis)):
            continue
        if each.command and each.command not in commands:
            continue
        found.append(each.text.replace("{now}", _spelled(state.policy.get(each.axis))))
    return "; or ".join(found[:MOST])


def _could_be_set(axis: PolicyAxis | None, value: str, now: object) -> bool:
    if axis is None:
        return False
    if not value:
        return True
    possible = value in axis.choices if axis.kind == "choice" else True
    return possible and _spelled(now) != value


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)[:64]
