"""Ids of requests: what viewers and clients call them. Of those that live no two have the same."""

import weakref

from engine.requests.fields import text
from engine.requests.request import Request, RequestState
from engine.scheduling.forking import sample_id

MAX_REQUEST_ID = 128
"""Characters of one that a client gives; the protocol has room for what is added to it."""


def checked_id(given: str) -> str:
    """Raises ValueError for what cannot be shown as the name of a request."""
    if not text("request_id", given, MAX_REQUEST_ID).strip():
        raise ValueError("request_id: it has no character that can be seen")
    return given


class RequestNames:
    """Not safe from several threads at a time."""

    def __init__(self) -> None:
        # Weakly: nobody has to say that a request has ended, and what is remembered of it goes with it.
        self._named: weakref.WeakValueDictionary[str, Request] = weakref.WeakValueDictionary()

    def free(self, wanted: str, requests: int = 1) -> str:
        """``wanted``, or where one that lives has it, that with a number behind it. ``requests``: for how many, the first of
        which is called so and the others as its samples are."""
        name, count = wanted, 1
        while self._lives(name) or any(self._lives(sample_id(name, place)) for place in range(1, requests)):
            count += 1
            name = f"{wanted}-{count}"
        return name

    def note(self, request: Request) -> None:
        """It has its id now, and so have its samples."""
        for each in (request, *request.samples):
            self._named[each.id] = each

    def _lives(self, name: str) -> bool:
        known = self._named.get(name)
        return known is not None and known.state is not RequestState.FINISHED
