"""What differs between two states of the same engine: blocks, owners, queue, policies, what was done in between."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kvtop.protocol import PolicyValue
from kvtop.state.engine_state import EngineState
from kvtop.state.request_row import WAITING_STATES, RequestRow


class Figure(NamedTuple):
    """A level in both; None where it is not known."""

    name: str
    before: float | None
    after: float | None


class Cost(NamedTuple):
    """What a request has lost to preemptions in between; None where it is not known."""

    row: RequestRow
    preemptions: int
    recomputed: int | None


@dataclass(frozen=True, slots=True)
class Difference:
    """``seconds`` by the engine's clock, ``iterations`` in between; None where the runs are not the same or that is not
    known. Counted ``done`` in between: by counter, only those that moved."""

    earlier: EngineState
    later: EngineState
    same_run: bool
    seconds: float | None
    iterations: int | None
    levels: list[Figure]
    done: list[tuple[str, float]]
    states: list[Figure]
    """Blocks of the device by state, where both expose them."""
    owners: int | None
    """Blocks that have another owner, or one where they had none, or none where they had one."""
    policies: list[tuple[str, PolicyValue | None, PolicyValue | None]]
    arrived: list[RequestRow]
    gone: list[RequestRow]
    """In the earlier state waiting or running, now ended or no longer told of."""
    moved: list[tuple[RequestRow, RequestRow]]
    """In another state than before."""
    preempted: list[Cost]
    """The most preempted first."""


def difference(earlier: EngineState, later: EngineState) -> Difference:
    """Whatever only one of the two exposes is left out."""
    same = earlier.run == later.run
    before, after = _rows(earlier), _rows(later)
    return Difference(
        earlier,
        later,
        same,
        _minus(later.mono, earlier.mono) if same else None,
        _whole(_minus(later.iteration, earlier.iteration)) if same else None,
        _levels(earlier.gauges, later.gauges),
        _done(earlier.counters, later.counters) if same else [],
        _states(earlier, later),
        _owners(earlier, later) if same else None,
        [
            (axis, earlier.policy.get(axis), later.policy.get(axis))
            for axis in dict.fromkeys([*earlier.policy, *later.policy])
            if earlier.policy.get(axis) != later.policy.get(axis)
        ],
        [row for num, row in after.items() if num not in before] if same else [],
        [row for num, row in before.items() if _open(row) and not _open(after.get(num))] if same else [],
        [
            (row, after[num])
            for num, row in before.items()
            if num in after and _open(after[num]) and row.state != after[num].state
        ]
        if same
        else [],
        _costs(before, after.values()) if same else [],
    )


def _rows(state: EngineState) -> dict[int, RequestRow]:
    """In the order of their nums."""
    return {} if state.requests is None else dict(sorted(state.requests.items()))


def _open(row: RequestRow | None) -> bool:
    return row is not None and (row.state in WAITING_STATES or row.state in ("prefill", "decode"))


def _minus(after: float | None, before: float | None) -> float | None:
    return None if after is None or before is None else after - before


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _levels(before: dict[str, int | float], after: dict[str, int | float]) -> list[Figure]:
    return [Figure(name, before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])]


def _done(before: dict[str, int | float], after: dict[str, int | float]) -> list[tuple[str, float]]:
    done = ((name, after[name] - before[name]) for name in after if name in before)
    return [(name, more) for name, more in done if more > 0]


def _states(earlier: EngineState, later: EngineState) -> list[Figure]:
    if earlier.blocks is None or later.blocks is None or later.hello is None:
        return []
    counted = zip(later.hello.block_states, earlier.blocks.counts.tolist(), later.blocks.counts.tolist(), strict=False)
    return [Figure(name, before, after) for name, before, after in counted if before or after]


def _owners(earlier: EngineState, later: EngineState) -> int | None:
    if earlier.blocks is None or later.blocks is None or earlier.blocks.total != later.blocks.total:
        return None
    return int(np.count_nonzero(earlier.blocks.owner != later.blocks.owner))


def _costs(before: dict[int, RequestRow], after: Iterable[RequestRow]) -> list[Cost]:
    costs = []
    for row in after:
        old = before.get(row.num)
        more = (row.preemptions or 0) - ((old.preemptions or 0) if old is not None else 0)
        if more > 0:
            lost = None
            if row.recomputed_tokens is not None:
                lost = row.recomputed_tokens - ((old.recomputed_tokens or 0) if old is not None else 0)
            costs.append(Cost(row, more, lost))
    return sorted(costs, key=lambda cost: (-cost.preemptions, cost.row.num))
