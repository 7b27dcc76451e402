"""Moments of a stretch as a reviewer looks at them: the block map, the requests, why the queue waits."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.state import EngineState, RequestRow
from kvtop.views.block_states import ALL
from kvtop.views.cells import state_codes
from kvtop.views.verdict import verdict_sentence

MAX_CELLS = 4096
"""Cells of a scene's map; a pool of more blocks has several to a cell."""

MAX_ROWS = 100
"""Requests of a scene; those left out are counted."""

NO_OWNER = -1

Codes = npt.NDArray[np.uint8]
Owners = npt.NDArray[np.int64]


class Run(NamedTuple):
    """``cells`` alike: ``state`` a place in `kvtop.views.block_states.ALL`, ``owner`` num of a request or `NO_OWNER`."""

    cells: int
    state: int
    owner: int


@dataclass(slots=True)
class Scene:
    """``wall``: Unix seconds. ``cells``: the device's pool in the order of its blocks, ``per_cell`` blocks each; None where
    blocks are not exposed. ``states``: requests by state, of all of them."""

    wall: float
    iteration: int | None
    seq: int
    per_cell: int
    cells: list[Run] | None
    rows: list[RequestRow]
    rows_left_out: int
    states: dict[str, int]
    verdict: str
    mono: float | None


def scene(state: EngineState, now: float) -> Scene:
    """What there is to see of ``state`` at ``now`` (the clock that fed it)."""
    assert state.wall is not None
    assert state.seq is not None
    per_cell, cells = _cells(state)
    rows = sorted(state.requests.values(), key=_urgent) if state.requests is not None else []
    states: dict[str, int] = {}
    for row in rows:
        states[row.state or "unknown"] = states.get(row.state or "unknown", 0) + 1
    return Scene(
        wall=state.wall,
        iteration=state.iteration,
        seq=state.seq,
        per_cell=per_cell,
        cells=cells,
        rows=[_copy(row) for row in rows[:MAX_ROWS]],
        rows_left_out=max(0, len(rows) - MAX_ROWS),
        states=states,
        verdict=verdict_sentence(state),
        mono=state.mono_now(now),
    )


def _urgent(row: RequestRow) -> tuple[int, int]:
    """Those that run first, then those that wait, then those that are done."""
    place = 0 if row.state in ("prefill", "decode") else 1 if row.waits else 2
    return place, row.num


def _copy(row: RequestRow) -> RequestRow:
    """As it is now, without its block table and its texts."""
    return replace(row, table=[], prompt_text=None, output_text=None, text_ends=[])


def _cells(state: EngineState) -> tuple[int, list[Run] | None]:
    blocks = state.blocks
    if blocks is None or state.hello is None or blocks.device == 0:
        return 1, None
    per = -(-blocks.device // MAX_CELLS)
    codes = state_codes(state.hello.block_states)[blocks.state[: blocks.device]]
    owners = blocks.owner[: blocks.device].astype(np.int64)
    if per > 1:
        count = -(-blocks.device // per)
        codes, owners = _voted(codes, owners, per, count)
    ends = np.flatnonzero((np.diff(codes) != 0) | (np.diff(owners) != 0)) + 1
    starts = np.concatenate(([0], ends))
    counts = np.diff(np.concatenate((starts, [len(codes)])))
    columns = (counts.tolist(), codes[starts].tolist(), owners[starts].tolist())
    return per, [Run(*run) for run in zip(*columns, strict=True)]


def _voted(codes: Codes, owners: Owners, per: int, count: int) -> tuple[Codes, Owners]:
    """Of each cell the state with the most votes, as on the screen's map, and the owner of its last block in that state."""
    weights = np.array([entry.weight for entry in ALL], dtype=np.int64)
    cell = np.arange(len(codes)) // per
    votes = np.zeros((count, len(ALL)), dtype=np.int64)
    np.add.at(votes, (cell, codes), weights[codes])
    most = (votes.shape[1] - 1 - np.argmax(votes[:, ::-1], axis=1)).astype(np.uint8)
    owner = np.full(count, NO_OWNER, dtype=np.int64)
    of_state = codes == most[cell]
    owner[cell[of_state]] = owners[of_state]
    return most, owner
