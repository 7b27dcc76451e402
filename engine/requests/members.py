"""A request and the others of its beam search: who stands for whom, and how much room they take."""

from collections.abc import Iterable, Sequence

from engine.requests.request import Request


def awake_of(request: Request) -> list[Request]:
    """Who is awake of its search, by lane; for a request without beams itself."""
    return [request] if request.beam is None else request.beam.awake


def leader_of(request: Request) -> Request:
    return request if request.beam is None else request.beam.leader


def width_taken(running: Iterable[Request]) -> int:
    """How much of ``max_running`` these take: a search counts as wide as it will be."""
    return sum(1 + (len(request.samples) if request.beam is not None else 0) for request in running)


def is_one_search(running: Sequence[Request]) -> bool:
    """Nothing runs but one beam search."""
    return bool(running) and running[0].beam is not None and all(r.beam is running[0].beam for r in running)
