"""Whether a load went so that a script may go on: whether its requests were answered, by and large and to the end."""

from kvtop.load.result import LoadResult
from kvtop.load.sample import Failure

MOST_FAILED = 0.1
"""Share of the measured requests that came to their end; above it the run has failed."""

LAST = 10
"""Requests at the end of a run that tell, where all of them failed, that the server had gone: a run of many answers before
that has but a small share of failures."""


def unhealthy(result: LoadResult) -> str | None:
    """Why the run has failed, in words; None: it has not. Requests that the end of the run cut off say nothing."""
    finished, failed = result.counts["finished"], result.counts["failed"]
    if not finished:
        return "no request was answered"
    if failed > MOST_FAILED * (finished + failed):
        return f"{failed} of {finished + failed} requests failed"
    ended = [request for request in result.requests if request.failure != Failure.UNFINISHED]
    if all(request.failure is not None for request in ended[-LAST:]):
        return f"the last {LAST} requests failed"
    return None
