"""A change of the KV cache's element type while the engine serves.

KV of one type is worth nothing in another, so nothing of it is kept: the switch comes when no request holds a block and
no copy is under way. Until then nothing is admitted (or, with the transition *preempt*, all that run are preempted). The
scheduler only says when a switch is due; `carry_out` empties its books and has the storage made anew.
"""

from collections.abc import Callable
from typing import Protocol

from engine.scheduling.kv_types import Switch, sizes
from engine.scheduling.roster import Roster
from engine.words import counted


class KVSwitchError(RuntimeError):
    """The storage cannot be made in the new type; the old one is back, empty. The text says why."""


class Storage(Protocol):
    """The memory of all blocks, in every tier."""

    def switch(self, kv_dtype: str) -> None:
        """Give up what is there and make it anew, empty, in this type. Raises `KVSwitchError`."""
        ...

    @property
    def bytes_per_token(self) -> int:
        """Of keys and values in one block, scales included."""
        ...


def is_due(roster: Roster) -> bool:
    """The type in force is not the policies', and nothing holds the switch up any more."""
    return roster.regime.switching and not _held_up(roster)


def waits_for(roster: Roster) -> str:
    """What a switch that was asked for still waits for, in a few words."""
    return _held_up(roster) or "the next iteration"


def _held_up(roster: Roster) -> str:
    if roster.running:
        count = len(roster.running)
        return f"{counted(count, 'request')} that still {'runs' if count == 1 else 'run'}"
    if roster.tiers is not None and roster.tiers.pending:
        count = roster.tiers.pending
        return f"{count} {'copy' if count == 1 else 'copies'} between tiers"
    return "copies of blocks" if roster.copies.planned() else ""


def carry_out(roster: Roster, storage: Storage, now: float, *, unpinned: int, forget: Callable[[], int]) -> Switch:
    """Forget all content, make the storage anew; the policies follow where that failed. The switch `is_due`.

    ``forget`` drops what can be found in any tier, pins (``unpinned`` of them) included, and returns how many blocks.
    """
    types, tiers = roster.regime.kv_types, roster.tiers
    old, new, old_bytes = types.in_force, roster.regime.policies.kv_dtype, storage.bytes_per_token
    swapped = [] if tiers is None else list(tiers.swapped)
    if tiers is not None:
        for num in swapped:
            tiers.drop(num, now)
    forgotten = forget()
    error = None
    try:
        storage.switch(new)
        types.in_force = new
    except KVSwitchError as failure:
        error = str(failure)
        roster.regime.policies = roster.regime.policies.changed({"kv_dtype": old})
    switch = Switch(
        old, new, old_bytes, storage.bytes_per_token, _tokens(roster), forgotten, unpinned, len(swapped), error
    )
    types.done.append(switch)
    return switch


def _tokens(roster: Roster) -> int:
    """What the blocks of all tiers have room for."""
    below = () if roster.tiers is None else roster.tiers.books
    return (roster.pool.total + sum(books.slots for books in below)) * roster.pool.block_size


def effects(roster: Roster, pins: int, new: str, left: int) -> list[str]:
    """What asking for ``new`` does, in sentences; ``left`` requests run on, the others are preempted
    for it. ``pins``: how many there are."""
    types = roster.regime.kv_types
    if new == types.in_force:
        return [f"KV stays {new}; the switch to {roster.regime.policies.kv_dtype} is called off."]
    when = (
        f"once {counted(left, 'request')} {'has' if left == 1 else 'have'} ended, and nothing is admitted until then"
        if left
        else "before the next iteration"
    )
    said = [f"KV goes from {types.in_force} to {new} {when}."]
    if types.bytes_of is not None:
        said.append(f"Memory: {sizes(types.bytes_of(types.in_force), types.bytes_of(new), _tokens(roster))}.")
    tiers = roster.tiers
    cached = len(roster.pool.index) + sum(len(books.index) for books in (tiers.books if tiers else ()))
    said.append(
        f"What blocks hold is forgotten then: {counted(cached, 'block')} that could be found now, "
        f"{counted(pins, 'pin')}."
    )
    if tiers is not None and tiers.swapped:
        said.append(f"{counted(len(tiers.swapped), 'swapped request')} will be computed again.")
    return said
