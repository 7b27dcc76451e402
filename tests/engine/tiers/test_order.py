"""Copies within the device, then the batch, then copies between tiers: on a device that queues its work and does it late."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from engine.memory.copies import PendingCopies
from engine.memory.pool import BlockPool
from engine.model.kv_cache import KVCache
from engine.requests.batch import BlockCopy
from engine.tiers import fence
from engine.tiers.books import TierBooks
from engine.tiers.device import DeviceStore, fences_on
from engine.tiers.fence import PASSED, nothing_queued
from engine.tiers.host import HostStore
from engine.tiers.mover import Address, Copy, Mover
from engine.tiers.tiers import Tiers
from tests.engine.poison import PromptMover

BLOCKS, SIZE = 6, 4
SOURCE, TARGET = 1, 4


class LateDevice:
    """A cache of which block ``b`` holds the number ``b``. Copies are queued, as on a GPU; they are done when a fence behind
    them is waited for."""

    def __init__(self) -> None:
        self.cache = KVCache(layers=1, blocks=BLOCKS, block_size=SIZE, kv_heads=1, head_size=2)
        content = self.cache.parts[0]
        content[:] = torch.arange(BLOCKS).view(1, 1, -1, 1, 1, 1)
        self._queue: list[Callable[[], None]] = []

    def copy(self, copies: list[BlockCopy]) -> None:
        self._queue.append(lambda: self.cache.copy_blocks([(each.source, each.target) for each in copies]))

    def fence(self) -> "LateDevice":
        return self

    def wait(self) -> None:
        for work in self._queue:
            work()
        self._queue.clear()


class Scene:
    """A host tier below the device; block `TARGET` is stored while a copy into it is planned."""

    def __init__(self, *, waits: bool = True) -> None:
        self.device = LateDevice()
        self.pool = BlockPool(BLOCKS, SIZE)
        store = DeviceStore(self.device.cache.parts)
        self.host = HostStore(BLOCKS, store.block_bytes)
        mover = PromptMover({0: store, 1: self.host}, at_once=True)
        fences = self.device.fence if waits else nothing_queued
        self.tiers = Tiers(self.pool, [TierBooks(1, "host", BLOCKS)], mover, fences)
        self.copies = PendingCopies()
        self.copy = BlockCopy(SOURCE, TARGET, SIZE)
        self.copies.add(None, self.copy, "compaction")
        for _ in range(BLOCKS):
            self.pool.take(0, 0.0)
        self.tiers.offloads.store(TARGET, 77, 0.0)

    def serve(self) -> float:
        """As the engine does: plan, run, commit. Returns what has been stored."""
        self.tiers.flush(self.copies)
        self.device.copy([self.copy])
        self.copies.done([self.copy])
        self.tiers.flush(self.copies)
        assert self.tiers.books[0].knows(77)
        (result,) = self.tiers.mover.poll()
        row = self.host.read(result.copy.target.slot, result.copy.target.generation)
        return float(row.view(torch.float32).unique())


def test_what_is_copied_out_is_what_the_copies_before_it_left_there() -> None:
    assert Scene().serve() == SOURCE


def test_nothing_is_handed_over_while_copies_within_the_device_are_planned() -> None:
    scene = Scene()
    scene.tiers.flush(scene.copies)
    assert scene.tiers.pending == 1
    assert scene.tiers.mover.poll() == []
    assert scene.tiers.room == scene.tiers.mover.room - 1


def test_a_mover_that_does_not_wait_for_the_device_would_be_noticed() -> None:
    """A fault planted: plans of copies alone are not waited for."""
    assert Scene(waits=False).serve() == TARGET


def test_copies_between_tiers_that_go_first_would_be_noticed() -> None:
    """A fault planted: the order is not kept."""
    scene = Scene()
    with patch.object(PendingCopies, "planned", lambda self: []):
        assert scene.serve() == TARGET


def test_there_is_one_way_to_the_mover() -> None:
    """Whoever else called it could forget the order."""
    engine = Path(fence.__file__).parent.parent
    callers = [path.name for path in engine.rglob("*.py") if "mover.submit(" in path.read_text()]
    assert callers == ["transfers.py"]


def test_the_movers_thread_waits_for_the_fence() -> None:
    source, target = HostStore(1, 4), HostStore(1, 4)

    class Writes:
        def wait(self) -> None:
            source.write(0, 1, torch.tensor([1, 2, 3, 4], dtype=torch.uint8))

    mover = Mover({0: source, 1: target})
    mover.submit(Copy(0, Address(0, 0, 1), Address(1, 0, 1), after=Writes()))
    assert mover.wait(10.0)
    assert [result.error for result in mover.poll()] == [None]
    assert target.read(0, 1).tolist() == [1, 2, 3, 4]
    mover.close()


def test_a_fence_that_fails_is_a_copy_that_failed() -> None:
    class Broken:
        def wait(self) -> None:
            raise RuntimeError("the device is lost")

    mover = Mover({0: HostStore(1, 4), 1: HostStore(1, 4)})
    mover.submit(Copy(0, Address(0, 0, -1), Address(1, 0, 1), after=Broken()))
    assert mover.wait(10.0)
    assert [result.error for result in mover.poll()] == ["the device is lost"]
    mover.close()


def test_nothing_is_queued_on_a_cpu() -> None:
    assert fences_on(torch.device("cpu"))() is PASSED


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_fence_on_a_gpu_stands_behind_what_was_queued() -> None:
    device = torch.device("cuda")
    memory = torch.zeros(1 << 24, device=device)
    for _ in range(200):
        memory += 1
    fence = fences_on(device)()
    fence.wait()
    with torch.cuda.stream(torch.cuda.Stream(device)):
        assert memory[-1].item() == 200
