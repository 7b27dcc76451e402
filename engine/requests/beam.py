"""The state of one beam search, shared by the requests that are its beams, and what blocks they need together.

A search of width W is W requests, the *members*, each in a fixed *slot*. The first, the *leader*, stands for all of them
in the queue; the others are in its ``samples`` while they are *parked*: before their first token, and while the group is
preempted. A member that holds a beam is *live*; it is *awake* while it is not parked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.memory.pool import BlockPool
from engine.requests.hypotheses import Candidate, Search
from engine.requests.request import Request

if TYPE_CHECKING:
    from engine.scheduling.scheduler import Scheduler


@dataclass(slots=True, eq=False)
class Beam:
    """``members`` by slot. ``order``: the slots of the live ones, best first. ``reported``: by slot, what follows each
    beam that has been computed to its end; when all have reported, the group takes its next step."""

    search: Search
    members: list[Request]
    order: list[int] = field(default_factory=lambda: [0])
    reported: dict[int, Sequence[Candidate]] = field(default_factory=dict)
    ended: bool = False

    @property
    def leader(self) -> Request:
        return self.members[0]

    @property
    def width(self) -> int:
        return len(self.members)

    @property
    def live(self) -> list[Request]:
        """Best first."""
        return [self.members[slot] for slot in self.order]

    @property
    def awake(self) -> list[Request]:
        """By slot. Of a group that waits, the leader alone."""
        return [member for member in self.members if member not in self.leader.samples]

    @property
    def asleep(self) -> list[int]:
        """The slots of live members that are parked: they go on when what they share with others is computed again."""
        return [slot for slot in sorted(self.order) if self.members[slot] in self.leader.samples]

    @property
    def seen(self) -> list[Request]:
        """Those that ever had a token of their own; of the others nobody was told."""
        return [m for m in self.members if m is self.leader or m.admissions or m.output_tokens]

    def slot_of(self, request: Request) -> int:
        return self.members.index(request)

    def kin(self, slot: int, block_size: int) -> tuple[Request, int]:
        """The live member of a lower slot with which that of ``slot`` begins alike for longest, and for how many tokens,
        in complete blocks. A member without a beam will fork from one that is as long as the leader."""
        if slot not in self.order:
            return self.leader, len(self.leader.token_ids) // block_size * block_size
        own = self.members[slot].token_ids
        best, tokens = self.leader, 0
        for other in (self.members[lower] for lower in range(slot) if lower in self.order):
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


def group_of(request: Request) -> list[Request]:
    """Who is awake of its group, by slot; for a request without beams itself."""
    return [request] if request.beam is None else request.beam.awake


def leader_of(request: Request) -> Request:
    return request if request.beam is None else request.beam.leader


def places_taken(running: Iterable[Request]) -> int:
    """How much of ``max_running`` these take: a group counts as wide as it will be."""
    return sum(1 + (len(request.samples) if request.beam is not None else 0) for request in running)


def is_one_group(running: Sequence[Request]) -> bool:
    """Nothing runs but one beam search."""
    return bool(running) and running[0].beam is not None and all(r.beam is running[0].beam for r in running)


def blocks_of_others(leader: Request, tokens: int, pool: BlockPool) -> int:
    """Blocks that the other members take for ``tokens`` tokens each, beyond those shared with ``leader`` or each other."""
    return 0 if leader.beam is None else _beyond_kin(leader.beam, range(1, leader.beam.width), tokens, pool)


def blocks_of_parked(leader: Request, pool: BlockPool) -> int:
    """Blocks that the parked members still have to take, at most."""
    beam = leader.beam
    if beam is None or not leader.samples:
        return 0
    slots = [beam.slot_of(member) for member in leader.samples]
    return _beyond_kin(beam, slots, leader.kv_limit, pool)


def _beyond_kin(beam: Beam, slots: Iterable[int], tokens: int, pool: BlockPool) -> int:
    whole = pool.blocks_for(tokens)
    return sum(whole - pool.blocks_for(beam.kin(slot, pool.block_size)[1]) for slot in slots)


def beam_violations(scheduler: "Scheduler") -> list[str]:
    """What is wrong with groups of beams, a sentence each: for the ledger."""
    found = []
    beams = {id(r.beam): r.beam for r in scheduler.requests.values() if r.beam is not None}
    for beam in beams.values():
        name, awake = beam.leader.id, beam.awake
        runs = beam.leader in scheduler.running
        if scheduler.requests.get(beam.leader.num) is not beam.leader or beam.ended:
            found.append(f"beams of {name} are live without their leader")
        listed = [r for r in scheduler.running if r.beam is beam]
        if sorted(r.num for r in listed) != (sorted(r.num for r in awake) if runs else []) or (
            not runs and awake != [beam.leader]
        ):
            found.append(f"of {name} the beams {[r.id for r in awake]} are awake, but {[r.id for r in listed]} run")
        for member in beam.leader.samples:
            if member.block_table or member.computed or member.reserved_blocks or member.num in scheduler.requests:
                found.append(f"beam {member.id} is parked, but it holds blocks or is listed")
        if len({len(member.token_ids) for member in beam.live}) != 1:
            found.append(f"the beams of {name} differ in length")
        if len({tuple(member.token_ids) for member in beam.live}) != len(beam.order):
            found.append(f"two beams of {name} are the same")
        waits = [slot for slot in beam.order if beam.members[slot] in awake and not beam.members[slot].remaining]
        if sorted(beam.reported) != sorted(waits):
            found.append(
                f"of {name} the slots {sorted(waits)} wait for the group, {sorted(beam.reported)} have reported"
            )
    return found
