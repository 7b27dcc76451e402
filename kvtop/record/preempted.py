"""Who was preempted in a recording: how often, for whom and at what cost, from the index alone."""

from collections import Counter
from dataclasses import dataclass, field

from kvtop.record.tape import Place, Tape


@dataclass(slots=True)
class Preempted:
    """A request of one run. ``tokens`` and ``seconds``: given up in all; None where no preemption told.

    ``first`` and ``last``: the moments just after; ``first_wall``, ``last_wall``: Unix seconds, the engine's clock.
    """

    num: int
    name: str
    first: Place
    last: Place
    first_wall: float
    last_wall: float
    times: int = 0
    by: Counter[str] = field(default_factory=Counter)
    """Requests that it was preempted for, by name; those by command are in `times` alone."""
    tokens: int | None = None
    seconds: float | None = None


def preempted(tape: Tape, until: Place | None = None) -> tuple[list[Preempted], int]:
    """The most preempted first, up to the moment ``until``; and how many notable facts the index has no room for, of which
    some may be preemptions too."""
    found: dict[tuple[int, int], Preempted] = {}
    left_out = 0
    for chunk in tape.chunks:
        if until is not None and chunk.first > until:
            break
        left_out += chunk.summary.notable_left_out
        for fact in chunk.summary.notable:
            place = Place(chunk.first.run, fact.seq)
            if fact.kind != "preempt" or fact.request is None or (until is not None and place > until):
                continue
            key = (place.run, fact.request)
            if (request := found.get(key)) is None:
                name = fact.request_id or f"#{fact.request}"
                request = found[key] = Preempted(fact.request, name, place, place, fact.wall, fact.wall)
            request.times += 1
            request.last, request.last_wall = place, fact.wall
            if fact.by is not None:
                request.by[fact.by] += 1
            if fact.tokens is not None:
                request.tokens = (request.tokens or 0) + fact.tokens
            if fact.seconds is not None:
                request.seconds = (request.seconds or 0.0) + fact.seconds
    return sorted(found.values(), key=lambda r: (-r.times, -(r.tokens or 0), r.first)), left_out
