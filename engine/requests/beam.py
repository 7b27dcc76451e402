"""The state of one beam search, shared by the requests that are its beams.

A search of width W is W requests, the *members*, each in a fixed *lane*. The first, the *leader*, stands for all of them
in the queue; the others are in its ``samples`` while they are *parked*: before their first token, and while the search is
preempted. A member that holds a beam is *live*; it is *awake* while it is not parked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from engine.requests.hypotheses import Candidate, Search


class Member(Protocol):
    """What a beam search asks of the requests that are its beams."""

    token_ids: list[int]
    samples: list[Any]
    admissions: int

    @property
    def output_tokens(self) -> int: ...


M = TypeVar("M", bound=Member)


@dataclass(slots=True, eq=False)
class Beam(Generic[M]):
    """``members`` by lane. ``order``: the lanes of the live ones, best first. ``reported``: by lane, what follows each
    beam that has been computed to its end; when all have reported, the search takes its next step."""

    search: Search
    members: list[M]
    order: list[int] = field(default_factory=lambda: [0])
    reported: dict[int, Sequence[Candidate]] = field(default_factory=dict)
    ended: bool = False

    @property
    def leader(self) -> M:
        return self.members[0]

    @property
    def width(self) -> int:
        return len(self.members)

    @property
    def live(self) -> list[M]:
        """Best first."""
        return [self.members[lane] for lane in self.order]

    @property
    def awake(self) -> list[M]:
        """By lane. Of a search that waits, the leader alone."""
        return [member for member in self.members if member not in self.leader.samples]

    @property
    def asleep(self) -> list[int]:
        """The lanes of live members that are parked: they go on when what they share with others is computed again."""
        return [lane for lane in sorted(self.order) if self.members[lane] in self.leader.samples]

    @property
    def seen(self) -> list[M]:
        """Those that ever had a token of their own; of the others nobody was told."""
        return [m for m in self.members if m is self.leader or m.admissions or m.output_tokens]

    def lane_of(self, request: M) -> int:
        return self.members.index(request)

    def kin(self, lane: int, block_size: int) -> tuple[M, int]:
        """The live member of a lower lane with which that of ``lane`` begins alike for longest, and for how many tokens,
        in complete blocks. A member without a beam will fork from one that is as long as the leader."""
        if lane not in self.order:
            return self.leader, len(self.leader.token_ids) // block_size * block_size
        own = self.members[lane].token_ids
        best, tokens = self.leader, 0
        for other in (self.members[lower] for lower in range(lane) if lower in self.order):
            alike = _alike(own, other.token_ids, block_size)
            if alike > tokens:
                best, tokens = other, alike
        return best, tokens


def _alike(one: Sequence[int], other: Sequence[int], block_size: int) -> int:
    """Tokens of the complete blocks with which both begin."""
    most = min(len(one), len(other)) // block_size * block_size
    for start in range(0, most, block_size):
        if one[start : start + block_size] != other[start : start + block_size]:
            return start
    return most
