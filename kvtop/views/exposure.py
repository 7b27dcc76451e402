"""What to say where an engine does not tell something: that it does not, never a zero."""

from kvtop.state import EngineState
from kvtop.views.fit import blank, exactly, wrap
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean


def not_exposed(state: EngineState, what: str) -> str:
    """``blocks: not exposed by vllm``; before anything came, that it is awaited."""
    if state.seq is None:
        return waiting_for(state, what)
    return f"{what}: not exposed by {clean(state.engine_kind, 32)}"


def waiting_for(state: EngineState, what: str) -> str:
    """Nothing was received yet: say so, with the reason where one is known."""
    if state.link.up or not state.link.reason:
        return f"{what}: waiting for the engine"
    return f"{what}: no engine ({clean(state.link.reason)})"


def message_rows(text: str, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """A dim sentence in the upper left of an otherwise empty panel of ``height`` rows."""
    rows = wrap([(clean(text, 1000), Role.DIM)], width, height)
    return glyphs.rows(exactly(rows or [blank(width)], width, height))
