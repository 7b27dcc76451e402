"""Makes the tiers that an engine is started with."""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from engine.memory.pool import BlockPool
from engine.tiers.books import TierBooks
from engine.tiers.device import DeviceStore, fences_on
from engine.tiers.disk import DiskStore
from engine.tiers.host import HostStore
from engine.tiers.mover import Mover
from engine.tiers.store import BlockStore
from engine.tiers.tiers import Tiers


def open_tiers(
    pool: BlockPool, parts: Sequence[Tensor], *, host_blocks: int, disk_blocks: int, disk_path: Path
) -> Tiers | None:
    """Tiers of that many blocks below the KV cache whose memory is ``parts``; None when both are 0.

    Raises `StoreError`, saying what is not there, when one cannot be made.
    """
    if not host_blocks and not disk_blocks:
        return None
    stores = open_stores(parts, host_blocks=host_blocks, disk_blocks=disk_blocks, disk_path=disk_path)
    books = [TierBooks(tier, store.name, store.slots) for tier, store in stores.items() if tier]
    return Tiers(pool, books, Mover(stores), fences_on(parts[0].device))


def open_stores(
    parts: Sequence[Tensor], *, host_blocks: int, disk_blocks: int, disk_path: Path
) -> dict[int, BlockStore]:
    """By tier number, the device's blocks and what lies below. Raises `StoreError`; nothing is left open then."""
    device = DeviceStore(parts)
    below: list[BlockStore] = []
    try:
        if host_blocks:
            below.append(HostStore(host_blocks, device.block_bytes))
        if disk_blocks:
            below.append(DiskStore(disk_path, disk_blocks, device.block_bytes))
    except OSError:
        for store in below:
            store.close()
        raise
    return {0: device, **dict(enumerate(below, start=1))}
