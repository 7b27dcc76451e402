"""Where the bytes of blocks lie: one store a tier, all with the same three things one can do."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class StoreError(OSError):
    """A block could not be written, or what was read is not what was written. The text names the place and the slot."""


class BlockStore(Protocol):
    """``slots`` places of ``block_bytes`` bytes. Used by the mover's thread alone.

    ``generation`` is a number that the books give every content anew: reading with another one than was written is a
    `StoreError`, so that a slot in new hands never passes for its old content. The device has none: 0.
    """

    name: str
    slots: int
    block_bytes: int

    def read(self, slot: int, generation: int) -> "Tensor":
        """``block_bytes`` bytes (uint8, in ordinary memory), perhaps a view that holds until the next `write`.

        Raises `StoreError`.
        """
        ...

    def write(self, slot: int, generation: int, data: "Tensor") -> None:
        """Keep these bytes. Raises `StoreError`; the slot's content is then lost."""
        ...

    def close(self) -> None: ...
