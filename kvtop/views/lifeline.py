"""The lifeline of a request in a row of cells: what it did over the last minutes, by the engine's clock."""

from math import ceil
from typing import NamedTuple

from kvtop.state.lifeline import KEPT_S, Phase, runs
from kvtop.views.block_states import role_of
from kvtop.views.fit import cut
from kvtop.views.rows import Role, Row

WINDOW_S = 120.0
"""Seconds that a line shows."""

assert WINDOW_S < KEPT_S

_WIDEST = 100
"""Cells of a line of its own at most."""


class Look(NamedTuple):
    glyph: str
    role: int
    meaning: str


LOOKS = {
    Phase.QUEUED: Look("▁", Role.WARN, "queued"),
    Phase.PREFILL: Look("▄", Role.ACCENT, "prefill"),
    Phase.DECODE: Look("█", Role.GOOD, "decode"),
    Phase.PREEMPTED: Look("×", Role.BAD, "preempted"),
    Phase.SWAPPED: Look("s", role_of("reserved"), "swapped out"),
    Phase.LOADING: Look("l", role_of("transfer"), "loading"),
    Phase.UNKNOWN: Look("?", Role.DIM, "unknown"),
    Phase.FOLDED: Look("~", Role.DIM, "too many to keep"),
}
_RARE = (Phase.PREEMPTED, Phase.SWAPPED)
"""Shown in a cell however short they were: they are what one looks for."""


def window_text() -> str:
    return f"last {WINDOW_S / 60:g} min"


def slot(mono: float | None, width: int) -> int:
    """Number of the newest cell of a line of ``width``: while it stays, so do the cells of a request that does not change."""
    return 0 if mono is None or width < 1 else ceil(mono * width / WINDOW_S)


def lifeline(life: bytes, mono: float | None, width: int) -> Row:
    """``width`` cells of like length, the newest at the right and under way at ``mono``. A cell shows what took most of it,
    but a preemption in any case; blank before it arrived and after it ended."""
    if mono is None or not life or width < 1:
        return Row(" " * max(0, width), bytes((Role.TEXT,)) * max(0, width))
    step = WINDOW_S / width
    first = (slot(mono, width) - width) * step
    known = list(runs(life))
    cells: list[dict[Phase, float]] = [{} for _ in range(width)]
    for place, (phase, since) in enumerate(known):
        until = min(known[place + 1].since if place + 1 < len(known) else mono, mono)
        if phase is Phase.ENDED or until < first:
            continue
        low = max(0, int((since - first) / step))
        for cell in range(low, min(width, int((until - first) / step) + 1)):
            shared = min(until, first + (cell + 1) * step) - max(since, first + cell * step)
            if shared > 0 or until == mono == since:  # what has just begun is shown at once
                cells[cell][phase] = cells[cell].get(phase, 0.0) + shared
    looks = [LOOKS[_shown(cell)] if cell else None for cell in cells]
    return Row(
        "".join(look.glyph if look else " " for look in looks),
        bytes(look.role if look else Role.TEXT for look in looks),
    )


def titled_lifeline(life: bytes, mono: float | None, width: int) -> Row:
    """The same in a line of its own, behind its window."""
    title = f"{window_text()}  "
    drawn = lifeline(life, mono, max(0, min(width - len(title), _WIDEST)))
    return cut(Row(title + drawn.text, bytes((Role.TITLE,)) * len(title) + drawn.roles), width)


def _shown(cell: dict[Phase, float]) -> Phase:
    for phase in _RARE:
        if phase in cell:
            return phase
    return max(cell, key=lambda phase: cell[phase])


def legend(life: bytes) -> list[tuple[str, int]]:
    """What the glyphs of this one mean, as spans."""
    spans: list[tuple[str, int]] = []
    for phase in dict.fromkeys(run.phase for run in runs(life)):
        if phase is not Phase.ENDED:
            spans += [(LOOKS[phase].glyph, LOOKS[phase].role), (f" {LOOKS[phase].meaning}  ", Role.DIM)]
    return spans
