"""The host tier: one preallocated tensor in ordinary memory, pinned where CUDA is there to use it."""

import torch
from torch import Tensor

from engine.footprint.room import available_memory
from engine.tiers.store import StoreError


class HostStore:
    """``slots`` rows of ``block_bytes`` bytes: a block as it lies on the device, all layers, keys and values."""

    name = "host"

    def __init__(self, slots: int, block_bytes: int) -> None:
        """Raises `StoreError` when the machine has not so much memory."""
        self.slots = slots
        self.block_bytes = block_bytes
        size, available = slots * block_bytes, available_memory()
        # Memory is given out before it is there: a tier that is too large would end the process as it fills.
        if available is not None and size > available:
            raise StoreError(
                f"a host tier of {slots} blocks needs {size / 2**30:.1f} GiB of memory, and {available / 2**30:.1f} GiB are "
                "available"
            )
        try:
            self._rows = torch.zeros((slots, block_bytes), dtype=torch.uint8, pin_memory=torch.cuda.is_available())
        except RuntimeError:
            raise StoreError(
                f"a host tier of {slots} blocks needs {size / 2**30:.1f} GiB of memory, which is not there"
            ) from None
        self._generations = [-1] * slots

    def read(self, slot: int, generation: int) -> Tensor:
        if self._generations[slot] != generation:
            raise StoreError(f"host slot {slot} holds content {self._generations[slot]}, not {generation}")
        return self._rows[slot]

    def write(self, slot: int, generation: int, data: Tensor) -> None:
        self._rows[slot].copy_(data)
        self._generations[slot] = generation

    def close(self) -> None:
        self._rows = torch.empty((0, self.block_bytes), dtype=torch.uint8)
