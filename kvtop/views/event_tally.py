"""What happened in the last minute, by kind."""

from collections import Counter
from itertools import takewhile
from typing import Final

from kvtop.protocol import Event
from kvtop.state import EngineState
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import fit, part
from kvtop.views.format import count
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean

WINDOW_S: Final = 60.0


def tally_row(state: EngineState, width: int, now: float, glyphs: Glyphs = UNICODE) -> Row:
    """``last 60 s: 335 preempt · 44 finish``, the most first, of the events that are kept."""
    mono = state.mono_now(now)
    if mono is None or state.mono is None or state.wall is None or not (state.has("events") or state.hello is None):
        return glyphs.rows([fit([part(9, not_exposed(state, "events"), role=Role.DIM)], width)])[0]
    since = state.wall + (mono - state.mono) - WINDOW_S
    recent = takewhile(lambda entry: (entry.wall or 0.0) >= since, state.events.latest())
    kinds = Counter(clean(entry.kind, 32).replace("_", " ") for entry in recent if isinstance(entry, Event))
    parts = [part(99, f"last {WINDOW_S:g} s:", role=Role.DIM)]
    if not kinds:
        parts.append(part(50, "no events", role=Role.DIM))
    for place, (kind, times) in enumerate(kinds.most_common(12)):
        parts.append(part(50 - place, ((f"{count(times)} ", Role.STRONG), (kind, Role.TEXT)), ""))
    return glyphs.rows([fit(parts, width)])[0]
