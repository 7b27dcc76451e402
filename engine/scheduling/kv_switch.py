"""A change of the KV cache's element type while the engine serves.

KV of one type is worth nothing in another, so nothing of it is kept: the switch comes when no request holds a block and
no copy is under way. Until then nothing is admitted (or, with the transition *preempt*, all that run are preempted). The
scheduler only says when a switch is due; `carry_out` empties its books and has the storage made anew.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from engine.words import counted

if TYPE_CHECKING:
    from engine.scheduling.scheduler import Scheduler


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


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch that was carried out, or (``error``) could not be: then ``old`` is in force again."""

    old: str
    new: str
    old_bytes: int
    """A token, in one block."""
    new_bytes: int
    tokens: int
    """That the blocks of all tiers have room for."""
    forgotten: int
    """Blocks whose content could be found before, in all tiers."""
    unpinned: int
    unswapped: int
    """Requests whose state lay in a lower tier; they are computed again."""
    error: str | None = None

    @property
    def text(self) -> str:
        """What happened, in a sentence."""
        lost = f"{counted(self.forgotten, 'block')} forgotten, {counted(self.unpinned, 'pin')} undone, "
        lost += f"{counted(self.unswapped, 'swapped request')} to be computed again"
        if self.error is not None:
            return f"KV stays {self.old}: it cannot be {self.new}: {self.error}; {lost}"
        return f"KV {self.old} -> {self.new}, {sizes(self.old_bytes, self.new_bytes, self.tokens)}; {lost}"


def sizes(old: int, new: int, tokens: int) -> str:
    """What memory becomes, for so many ``tokens``; ``old`` and ``new`` are bytes a token."""
    return f"{old} -> {new} bytes a token, {old * tokens / 2**20:.1f} -> {new * tokens / 2**20:.1f} MiB in all"


@dataclass(slots=True)
class KVTypes:
    """Which type is in force, and which the attention backend can read (``readable``)."""

    in_force: str
    readable: Sequence[str]
    bytes_of: Callable[[str], int] | None = None
    """Bytes of a token in one block, by type; None where nobody knows."""
    done: deque[Switch] = field(default_factory=lambda: deque(maxlen=16))
    """Switches that nobody has been told of yet."""

    def check(self, wanted: str) -> None:
        """Raises ValueError, in a sentence, for a type that cannot be switched to."""
        if wanted not in self.readable and wanted != self.in_force:
            raise ValueError(f"kv_dtype cannot be {wanted}: this engine reads KV of {', '.join(self.readable)}")


def is_due(scheduler: "Scheduler") -> bool:
    """The type in force is not the policies', and nothing holds the switch up any more."""
    return scheduler.switching and not _held_up(scheduler)


def waits_for(scheduler: "Scheduler") -> str:
    """What a switch that was asked for still waits for, in a few words."""
    return _held_up(scheduler) or "the next iteration"


def _held_up(scheduler: "Scheduler") -> str:
    if scheduler.running:
        count = len(scheduler.running)
        return f"{counted(count, 'request')} that still {'runs' if count == 1 else 'run'}"
    if scheduler.tiers is not None and scheduler.tiers.pending:
        count = scheduler.tiers.pending
        return f"{count} {'copy' if count == 1 else 'copies'} between tiers"
    return "copies of blocks" if scheduler.copies.planned() else ""


def carry_out(scheduler: "Scheduler", storage: Storage, now: float) -> Switch:
    """Forget all content, make the storage anew; the policies follow where that failed. The switch `is_due`."""
    types, tiers = scheduler.kv_types, scheduler.tiers
    old, new, old_bytes = types.in_force, scheduler.policies.kv_dtype, storage.bytes_per_token
    unpinned, swapped = len(scheduler.pins), [] if tiers is None else list(tiers.swapped)
    if tiers is not None:
        for num in swapped:
            tiers.drop(num, now)
    forgotten = scheduler.reset_prefix_cache()
    scheduler.partial.clear()
    error = None
    try:
        storage.switch(new)
        types.in_force = new
    except KVSwitchError as failure:
        error = str(failure)
        scheduler.policies = scheduler.policies.changed({"kv_dtype": old})
    switch = Switch(
        old, new, old_bytes, storage.bytes_per_token, _tokens(scheduler), forgotten, unpinned, len(swapped), error
    )
    types.done.append(switch)
    return switch


def _tokens(scheduler: "Scheduler") -> int:
    """What the blocks of all tiers have room for."""
    below = () if scheduler.tiers is None else scheduler.tiers.books
    return (scheduler.pool.total + sum(books.slots for books in below)) * scheduler.pool.block_size


def effects(scheduler: "Scheduler", new: str, left: int) -> list[str]:
    """What asking for ``new`` does, in sentences; ``left`` requests run on, the others are preempted for it."""
    types = scheduler.kv_types
    if new == types.in_force:
        return [f"KV stays {new}; the switch to {scheduler.policies.kv_dtype} is called off."]
    when = (
        f"once {counted(left, 'request')} {'has' if left == 1 else 'have'} ended, and nothing is admitted until then"
        if left
        else "before the next iteration"
    )
    said = [f"KV goes from {types.in_force} to {new} {when}."]
    if types.bytes_of is not None:
        said.append(f"Memory: {sizes(types.bytes_of(types.in_force), types.bytes_of(new), _tokens(scheduler))}.")
    tiers = scheduler.tiers
    cached = len(scheduler.pool.index) + sum(len(books.index) for books in (tiers.books if tiers else ()))
    said.append(
        f"What blocks hold is forgotten then: {counted(cached, 'block')} that could be found now, "
        f"{counted(len(scheduler.pins), 'pin')}."
    )
    if tiers is not None and tiers.swapped:
        said.append(f"{counted(len(tiers.swapped), 'swapped request')} will be computed again.")
    return said
