"""Blocks whose owner is gone: memory that nobody uses and nobody can have."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, share
from kvtop.state import BlockArrays, RequestTable
from kvtop.state.changes import Indices
from kvtop.state.request_table import MAX_REQUESTS

AT_ONCE = 1 << 16
"""Blocks looked at in one look: of a larger pool a part each time, so that no look lasts longer."""

REMEMBERED = 4096
"""Blocks without an owner that are remembered from one look to the next."""

HELD = ("active", "shared")


@dataclass(frozen=True, slots=True)
class OrphanLimits(Limits):
    for_s: float = for_s(3.0)
    hold_s: float = hold_s(10.0)
    least: float = threshold(1.0, "blocks", 1, 1e9, "fewer are not told")


class OrphanBlocks(Rule[OrphanLimits]):
    NAME, TITLE = "orphan_blocks", "blocks whose owner is gone"
    MEANING = (
        "Blocks are held for a request that has ended or is unknown: nobody gives them back, and nobody can have them."
    )
    DEFINITION = (
        "{least} or more of the device are active or shared, and their owner is finished, not in the table of requests, or none at "
        f"all. Of a pool of more than {AT_ONCE:,} blocks so many are looked at each second."
    )
    NEEDS = "blocks and requests"
    TRIES = (
        Try(
            "no command gives them back: write a snapshot for whoever builds the engine, and start it anew when you can"
        ),
    )
    LIMITS = OrphanLimits

    def __init__(self, limits: OrphanLimits) -> None:
        super().__init__(limits)
        self._next = 0
        self._known: Indices = np.empty(0, dtype=np.int64)

    def look(self, at: Moment) -> Outcome:
        blocks, requests = at.state.blocks, at.state.requests
        if blocks is None or requests is None:
            missing = "blocks" if blocks is None else "requests"
            return Unchecked(f"{missing} are not exposed by {at.kind}")
        names = at.state.state_names()
        held = np.zeros(256, dtype=np.bool_)
        held[[names.index(name) for name in HELD if name in names]] = True
        if not held.any() or len(requests) >= MAX_REQUESTS:
            return Unchecked("too many requests to know all" if held.any() else "which blocks are held is not exposed")
        first = self._next if self._next < blocks.device else 0
        end = min(blocks.device, first + AT_ONCE)
        self._next = end if end < blocks.device else 0
        elsewhere = self._known[(self._known < first) | ((self._known >= end) & (self._known < blocks.device))]
        suspects = np.concatenate((elsewhere, np.arange(first, end)))
        found = np.sort(_orphans(suspects, held, blocks, requests))
        self._known = found[:REMEMBERED]
        if len(found) < self.limits.least:
            return Fine(f"every held block has a living owner, {blocks.device:,} blocks and {len(requests):,} requests")
        block = int(found[0])
        owner = int(blocks.owner[block])
        row = requests.get(owner)
        whose = (
            "nobody" if owner < 0 else f"#{owner}, whom nobody knows" if row is None
            else f"{request_name(at.state, owner)}, which is finished"
        )  # fmt: skip
        part = share(len(found) / blocks.device)
        return Finding(
            "critical",
            f"{counted(len(found), 'block')}, {part} of the pool",
            f"{counted(len(found), 'block')}, {part} of the pool, held for requests that are gone: block {block} for {whose}",
            Victim("block", f"block {block}", block),
            self.advice(at.state),
        )


def _orphans(suspects: Indices, held: npt.NDArray[np.bool_], blocks: BlockArrays, requests: RequestTable) -> Indices:
    """Of ``suspects`` those that are held without a living owner."""
    suspects = suspects[held[blocks.state[suspects]]]
    owners = blocks.owner[suspects]
    living = np.fromiter((num for num, row in requests.items() if not row.finished), dtype=np.int64)
    return suspects[~np.isin(owners, living)]
