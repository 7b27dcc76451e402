"""A tier whose memory was given up and could not be had again."""

from torch import Tensor

from engine.tiers.store import StoreError


class ShutStore:
    """Refuses whatever is asked of it: what cannot be kept below is computed again. ``why`` is a part of a sentence.

    Reading and writing raise `StoreError`.
    """

    def __init__(self, name: str, slots: int, block_bytes: int, why: str) -> None:
        self.name = name
        self.slots = slots
        self.block_bytes = block_bytes
        self._why = why

    def read(self, slot: int, generation: int) -> Tensor:
        raise StoreError(f"the {self.name} tier is shut: {self._why}")

    def write(self, slot: int, generation: int, data: Tensor) -> None:
        raise StoreError(f"the {self.name} tier is shut: {self._why}")

    def close(self) -> None:
        pass
