"""What of the memory that block tables hold is not written to, and how the blocks to be had lie."""

from typing import NamedTuple

import numpy as np

from kvtop.protocol import Geometry
from kvtop.state import EngineState
from kvtop.views.block_states import state_of
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import fit, line, part
from kvtop.views.format import count, percent
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row


class Slack(NamedTuple):
    """Of the device's blocks.

    Attributes:
        slots: Tokens that the blocks in block tables have room for; None where the engine does not tell its block size.
        written: Of these, written to.
        tail: Of those not written to, the ones in the last block of a table.
        spare: Blocks free or cached.
        runs: Stretches of consecutive numbers that they lie in.
        longest: Blocks of the longest of these.
    """

    slots: int | None
    written: int
    tail: int | None
    spare: int
    runs: int
    longest: int


def slack_of(state: EngineState) -> Slack | None:
    """Looks at all blocks of the device, and at the ends of all block tables. None where blocks are not exposed."""
    blocks = state.blocks
    if blocks is None:
        return None
    geometry = state.hello.geometry if state.hello else Geometry()
    size, device = geometry.block_size, slice(0, blocks.device)
    held = blocks.refs[device] > 0
    fill = blocks.fill[device]
    slots = tail = None
    written = int(np.where(held, np.minimum(fill, size) if size else fill, 0).sum(dtype=np.int64))
    if size:
        slots = int(np.count_nonzero(held)) * size
        if state.requests is not None:
            ends = {b for row in state.requests.values() for b in row.table[-geometry.group_count :] if b >= 0}
            last = np.array(sorted(b for b in ends if b < blocks.device), dtype=np.int64)
            tail = int((size - np.minimum(fill[last], size)).sum(dtype=np.int64))
    names = state.state_names()
    to_be_had = np.zeros(256, dtype=np.bool_)
    to_be_had[: len(names)] = [state_of(name).counts_as in ("free", "cached") for name in names]
    spare = np.zeros(blocks.device + 2, dtype=np.bool_)
    spare[1:-1] = to_be_had[blocks.state[device]]
    edges = np.flatnonzero(spare[1:] != spare[:-1])
    lengths = edges[1::2] - edges[::2]
    return Slack(slots, written, tail, int(lengths.sum()), len(lengths), int(lengths.max(initial=0)))


def slack_row(state: EngineState, slack: Slack | None, width: int, glyphs: Glyphs = UNICODE) -> Row:
    """In one row; what is least worth its place goes first."""
    if slack is None:
        return glyphs.rows([line([(not_exposed(state, "blocks"), Role.DIM)], width)])[0]
    slots, tail = slack.slots, slack.tail
    if slots is None:
        held = part(90, not_exposed(state, "tokens a block holds"), "", role=Role.DIM)
    else:
        written, share = f"{count(slack.written)} of {count(slots)}", percent(slack.written / slots) if slots else "–"
        held = part(90, f"held slots written {written} {share}", f"written {written} {share}", f"written {share}")
    unwritten = "–" if tail is None else count(tail)
    lost = f"{unwritten} tokens {percent(tail / slots)}" if tail is not None and slots else f"{unwritten} tokens"
    spare, longest, runs = count(slack.spare), count(slack.longest), count(slack.runs)
    parts = [
        held,
        part(70, f"unwritten in last blocks {lost}", f"tail {lost}", f"tail {unwritten}", ""),
        part(
            40,
            f"free + cached {spare} in {runs} runs, longest {longest}; paging needs none",
            f"free + cached {spare}, longest run {longest}",
            f"longest run {longest}/{spare}",
            "",
        ),
    ]
    return glyphs.rows([fit(parts, width)])[0]
