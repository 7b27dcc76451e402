"""The mover's thread with real stores."""

import threading

import pytest
import torch
from torch import Tensor

from engine.tiers.host import HostStore
from engine.tiers.mover import Address, Copy, CopyResult, Mover
from engine.tiers.store import StoreError

BYTES = 64


def filled(slots: int) -> HostStore:
    store = HostStore(slots, BYTES)
    for slot in range(slots):
        store.write(slot, 1, torch.full((BYTES,), slot, dtype=torch.uint8))
    return store


def collect(mover: Mover, count: int) -> list[CopyResult]:
    results: list[CopyResult] = []
    while len(results) < count:
        assert mover.wait(10.0), "the mover does nothing"
        results += mover.poll()
    return results


class Gate(HostStore):
    """Lets no read through before it is opened, and notes the order."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots, BYTES)
        self.open = threading.Event()
        self.reading = threading.Event()
        self.order: list[int] = []

    def read(self, slot: int, generation: int) -> Tensor:
        self.reading.set()
        assert self.open.wait(10.0)
        self.order.append(slot)
        return super().read(slot, generation)


def test_blocks_arrive_and_are_measured() -> None:
    target = HostStore(8, BYTES)
    mover = Mover({0: filled(8), 1: target})
    for slot in range(8):
        mover.submit(Copy(slot, Address(0, slot, 1), Address(1, 7 - slot, 5)))
    results = collect(mover, 8)
    assert sorted(result.copy.num for result in results) == list(range(8))
    assert all(result.error is None and result.bytes == BYTES and result.ms >= 0 for result in results)
    for slot in range(8):
        assert target.read(7 - slot, 5)[0] == slot
    mover.close()


def test_what_a_request_waits_for_goes_first_and_the_queue_has_an_end() -> None:
    gate = Gate(8)
    for slot in range(8):
        gate.write(slot, 1, torch.zeros(BYTES, dtype=torch.uint8))
    mover = Mover({0: gate, 1: HostStore(8, BYTES)}, limit=4)
    mover.submit(Copy(0, Address(0, 0, 1), Address(1, 0, 1)))
    assert gate.reading.wait(10.0)
    mover.submit(Copy(1, Address(0, 1, 1), Address(1, 1, 1)))
    mover.submit(Copy(2, Address(0, 2, 1), Address(1, 2, 1), urgent=True))
    mover.submit(Copy(3, Address(0, 3, 1), Address(1, 3, 1), urgent=True))
    assert mover.room == 0
    with pytest.raises(RuntimeError, match="full"):
        mover.submit(Copy(4, Address(0, 4, 1), Address(1, 4, 1)))
    assert mover.poll() == []
    gate.open.set()
    collect(mover, 4)
    assert gate.order == [0, 2, 3, 1]
    assert mover.room == 4
    mover.close()


def test_whatever_goes_wrong_comes_back_as_an_error() -> None:
    class Broken(HostStore):
        def write(self, slot: int, generation: int, data: Tensor) -> None:
            raise StoreError("slot 0: no room") if slot == 0 else RuntimeError("of another kind")

    mover = Mover({0: filled(2), 1: Broken(2, BYTES)})
    mover.submit(Copy(0, Address(0, 0, 1), Address(1, 0, 1)))
    mover.submit(Copy(1, Address(0, 1, 1), Address(1, 1, 1)))
    mover.submit(Copy(2, Address(0, 1, 9), Address(1, 1, 1)))
    errors = [result.error for result in collect(mover, 3)]
    assert errors[:2] == ["slot 0: no room", "of another kind"]
    assert errors[2] is not None
    assert "holds content 1, not 9" in errors[2]
    mover.close()


def test_closing_ends_the_thread_and_refuses_more() -> None:
    mover = Mover({0: filled(1), 1: HostStore(1, BYTES)})
    mover.close()
    assert not any(thread.name == "tier-mover" for thread in threading.enumerate())
    with pytest.raises(RuntimeError, match="closed"):
        mover.submit(Copy(0, Address(0, 0, 1), Address(1, 0, 1)))


def test_waiting_ends_when_nothing_comes() -> None:
    mover = Mover({0: filled(1), 1: HostStore(1, BYTES)})
    assert not mover.wait(0.01)
    mover.close()
