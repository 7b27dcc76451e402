"""Copies of blocks within the pool that were planned and are not known to be done yet."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.requests.batch import BlockCopy
from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class Copied:
    """``request`` gets a block of its own with the content of another (None: content was moved, for whoever holds it).
    ``why``: in a few words."""

    request: Request | None
    copy: BlockCopy
    why: str


class PendingCopies:
    """Every plan repeats them until one is committed: a plan that was never run copied nothing."""

    def __init__(self) -> None:
        self._pending: list[Copied] = []

    def add(self, request: Request | None, copy: BlockCopy, why: str) -> None:
        self._pending.append(Copied(request, copy, why))

    def drop(self, request: Request) -> None:
        """``request`` gave up its blocks: nobody needs what would be copied for it."""
        if self._pending:
            self._pending = [copied for copied in self._pending if copied.request is not request]

    def awaits(self, request: Request) -> bool:
        """Content for ``request`` is still to be copied into its blocks."""
        return any(copied.request is request for copied in self._pending)

    def planned(self) -> list[Copied]:
        """In the order in which they must be done."""
        return list(self._pending)

    def done(self, copies: Sequence[BlockCopy]) -> None:
        """These were carried out."""
        if self._pending:
            carried_out = set(copies)
            self._pending = [copied for copied in self._pending if copied.copy not in carried_out]
