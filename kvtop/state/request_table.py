"""All requests of an engine, with what is asked of all of them kept up to date: how many in which state, who holds most."""

import copy
from collections import Counter
from collections.abc import Callable, Collection
from math import isfinite

from kvtop.protocol import RequestChange
from kvtop.state.journal import Journal
from kvtop.state.lifeline import Times, grown, moved
from kvtop.state.ranking import Place, Ranking
from kvtop.state.request_row import MAX_NUMBER, RequestRow
from kvtop.state.sharers import Sharers

MAX_REQUESTS = 262_144
_PHASED = frozenset({"state", "phase_since"})
"""Fields that `RequestRow.life` goes on with."""

_COUNTED = frozenset({"state", "group", "siblings", "score"})
"""Fields that `RequestTable.states`, `siblings` and `scored` follow from."""


class RequestTable(dict[int, RequestRow]):
    """Rows by num; changed by `apply` and `forget` alone.

    Attributes:
        states: Requests in each state.
        siblings: Requests that are samples or beams of several.
        scored: Requests with a score.
        version: Rises with each change.
        journal: Which requests changed with which version.
        seen, at: The engine's clock at the frame before, when what is known of all requests held, and at the frame whose
            changes are being applied; None where there is none.
        former: What was known of them before a keyframe told all anew; their lifelines go on from there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.states: Counter[str | None] = Counter()
        self.siblings = self.scored = 0
        self.version = 0
        self.journal = Journal()
        self.seen: float | None = None
        self.at: float | None = None
        self.former: RequestTable | None = None
        self._own: set[int] | None = None
        self._holders = Ranking(_by_blocks)
        self._waits = Ranking(_by_wait, backward=True)
        self._sharers = Sharers()

    def apply(self, change: RequestChange, pool: int | None, complain: Callable[[str], None]) -> RequestRow | None:
        """Takes over ``change`` (see `RequestRow.apply`) and returns its row; None where no more are kept."""
        row = self.get(change.num)
        if row is None:
            if len(self) >= MAX_REQUESTS or change.num > MAX_NUMBER:
                complain(f"more than {MAX_REQUESTS} requests, or a number beyond all measure")
                return None
            row = self[change.num] = RequestRow(change.num)
            if self._own is not None:
                self._own.add(change.num)
            counted = True
        else:
            row = self._mine(row)
            # Most changes leave all that is counted alone.
            counted = not _COUNTED.isdisjoint(change.model_fields_set)
            if counted:
                self._count(row, -1)
        phased = not _PHASED.isdisjoint(change.model_fields_set)
        before = self._before(row) if phased else None
        row.apply(change, pool, complain)
        if phased:
            at = self.at if self.at is not None else (row.phase_since or 0.0)
            row.life = grown(row.life, before, row.times, self.seen, at)
        if counted:
            self._count(row, 1)
        self._note(change.num)
        return row

    def move_dates(self, seconds: float) -> None:
        """The clock that dates phases has jumped so far: they begin by so much later, and last as long as before."""
        for num, row in list(self.items()):
            mine = self._mine(row)
            since = None if row.phase_since is None else row.phase_since + seconds
            # Dates beyond all numbers stay as they are: they meant nothing before.
            change = (
                RequestChange(num=num)
                if since is None or not isfinite(since)
                else RequestChange(num=num, phase_since=since)
            )
            mine.apply(change, None, lambda _: None)
            mine.life = moved(mine.life, seconds)
            self._note(num)

    def forget(self, num: int) -> bool:
        """Leaves a request out from now on; False where there is none of that num."""
        row = self.pop(num, None)
        if row is None:
            return False
        self._count(row, -1)
        if self._own is not None:
            self._own.discard(num)
        self._note(num)
        return True

    def held_still(self) -> "RequestTable":
        """A copy that later changes do not reach. Rows are shared until they change, so it costs next to nothing."""
        still = RequestTable()
        still.update(self)
        still.states, still.siblings, still.scored = self.states.copy(), self.siblings, self.scored
        still.version, still.journal = self.version, self.journal
        self._own, still._own = set(), set()
        return still

    # -- what is asked of all ------------------------------------------------------------------------------------

    def holders(self, count: int) -> list[RequestRow]:
        """The ``count`` unfinished requests with the most blocks, the first of them first; those without are left out."""
        return [self[num] for num in self._holders.follow(self).window(0, count)]

    def longest_wait(self, mono_now: float) -> float | None:
        """Seconds that the longest waiting request has waited in all; None where none waits, or it is not known."""
        first = self._waits.follow(self).window(0, 1, mono_now)
        return self[first[0]].queue_time(mono_now) if first else None

    def holding(self, blocks: Collection[int]) -> dict[int, list[RequestRow]]:
        """The requests whose tables name each of ``blocks``, in the order of their nums; for the blocks that have any."""
        return {block: [self[num] for num in nums] for block, nums in self._sharers.of(blocks, self).items()}

    # ------------------------------------------------------------------------------------------------------------

    def _before(self, row: RequestRow) -> Times | None:
        """What was known of a request before this frame; of one that a keyframe tells anew, takes its lifeline over."""
        if row.state is not None:
            return row.times
        known = None if self.former is None else self.former.get(row.num)
        if known is None:
            return None
        row.life = known.life
        return known.times

    def _mine(self, row: RequestRow) -> RequestRow:
        """``row``, or a copy of it where a table that is held still has it too."""
        if self._own is None or row.num in self._own:
            return row
        row = copy.copy(row)
        row.table = list(row.table)
        self[row.num] = row
        self._own.add(row.num)
        return row

    def _count(self, row: RequestRow, by: int) -> None:
        self.states[row.state] += by
        if not self.states[row.state]:
            # States are an engine's words: those it no longer uses are not kept.
            del self.states[row.state]
        self.siblings += by if row.sibling is not None else 0
        self.scored += by if row.score is not None else 0

    def _note(self, num: int) -> None:
        self.version += 1
        self.journal.note(num, self.version, 2 * len(self))


def _by_blocks(row: RequestRow) -> Place | None:
    held = row.block_count
    return None if not held or row.finished else Place(0, -held)


def _by_wait(row: RequestRow) -> Place | None:
    if not row.waits:
        return None
    moving = row.behind_clock("queue")
    if moving is not None:
        return Place(1, moving)
    return None if row.queue_s is None else Place(0, row.queue_s)
