"""Who holds the memory: the requests with the most blocks, in one or two rows."""

from kvtop.state import EngineState
from kvtop.views.cells import owner_letter, owner_role
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Span, exactly, line
from kvtop.views.format import called, count, percent
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row


def holder_rows(state: EngineState, width: int, height: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """``most blocks: d-0007 57 24%, b-0003 38 16%, …`` over ``height`` rows, as many as fit, never one cut in half."""
    if state.requests is None:
        return glyphs.rows(exactly([line([(not_exposed(state, "owners"), Role.DIM)], width)], width, height))
    total = state.blocks.device if state.blocks is not None else state.gauges.get("kv_blocks_total")
    # An entry takes more than four cells, so that more never fit.
    holders = state.requests.holders(max(1, width * height // 4))
    rows: list[list[Span]] = [[("most blocks: " if holders else "no request holds blocks", Role.DIM)]]
    for row in holders:
        share = f" {percent((row.block_count or 0) / total)}" if total else ""
        entry: list[Span] = [
            (f"{owner_letter(row.num)} ", owner_role(row.num)),
            (called(row.name, 20), owner_role(row.num)),
            (f" {count(row.block_count)}", Role.STRONG),
            (share + "  ", Role.DIM),
        ]
        if _width(rows[-1]) + _width(entry) - 2 > width:
            if len(rows) == height:
                break
            rows.append([("             ", Role.DIM)])
        rows[-1] += entry
    return glyphs.rows(
        exactly([line([*row[:-1], (row[-1][0].rstrip(), row[-1][1])], width) for row in rows], width, height)
    )


def _width(spans: list[Span]) -> int:
    return sum(len(text) for text, _ in spans)
