"""Element types of the KV cache: which is in force, which can be, and the switches that were made."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine.words import counted


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
    most_bytes: int | None = None
    """Bytes of a token in one block for which all blocks have room in memory; None where nobody knows."""
    done: deque[Switch] = field(default_factory=lambda: deque(maxlen=16))
    """Switches that nobody has been told of yet."""

    def check(self, wanted: str) -> None:
        """Raises ValueError, in a sentence, for a type that cannot be switched to."""
        if wanted not in self.readable and wanted != self.in_force:
            raise ValueError(f"kv_dtype cannot be {wanted}: this engine reads KV of {', '.join(self.readable)}")
        if self.bytes_of is None or self.most_bytes is None:
            return
        needed = self.bytes_of(wanted)
        if needed > max(self.most_bytes, self.bytes_of(self.in_force)):
            raise ValueError(
                f"kv_dtype cannot be {wanted}: its blocks need {needed} bytes a token, and memory has room for "
                f"{self.most_bytes}"
            )
