"""A plan in the making."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.requests.batch import BatchItem
from engine.requests.request import Request, RequestState
from engine.scheduling.output import Admission, Preemption


@dataclass(slots=True)
class Draft:
    """``budget``: tokens still to be given out. ``items`` by request num, in the order of the batch."""

    budget: int
    items: dict[int, BatchItem] = field(default_factory=dict)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    rejected: list[tuple[Request, str]] = field(default_factory=list)
    stalled: list[Request] = field(default_factory=list)
    """Running requests that wait for blocks which are still being copied out, or for room to copy some out."""

    def assign(self, request: Request, count: int, proposed: Sequence[int] = ()) -> None:
        """The next ``count`` tokens of ``request`` are part of the batch, and behind them ``proposed`` ones."""
        end = request.computed_tokens + count
        samples = end == len(request.token_ids)
        beam = request.beam if samples else None
        forks = tuple(request.samples) if samples and beam is None else ()
        candidates = 0 if beam is None else beam.search.candidates
        self.items[request.num] = BatchItem(
            request,
            request.computed_tokens,
            count + len(proposed),
            samples,
            forks,
            candidates,
            request.state is RequestState.DECODE,
            tuple(proposed),
        )
        self.budget -= count + len(proposed)

    def take_back(self, request: Request) -> None:
        """What ``request``, and its beams, were given in this plan goes to others."""
        members = [request] if request.beam is None else request.beam.members
        for planned in [self.items.pop(member.num, None) for member in members]:
            if planned is not None:
                self.budget += planned.count
