"""Host and disk stores with real memory and real files: what comes back is what was written, or an error naming the slot."""

import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from engine.footprint import room
from engine.tiers import host
from engine.tiers.device import DeviceStore
from engine.tiers.disk import PAGE, DiskStore
from engine.tiers.host import HostStore
from engine.tiers.scratch import HEADER_BYTES
from engine.tiers.store import BlockStore, StoreError

BYTES = 5000
SLOTS = 4


def block(seed: int) -> torch.Tensor:
    return torch.randint(0, 256, (BYTES,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[DiskStore]:
    store = DiskStore(tmp_path / "kv", SLOTS, BYTES)
    yield store
    store.close()


@pytest.fixture(params=["host", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockStore]:
    made: BlockStore = HostStore(SLOTS, BYTES) if request.param == "host" else DiskStore(tmp_path / "kv", SLOTS, BYTES)
    yield made
    made.close()


def test_every_slot_gives_back_what_it_was_given(store: BlockStore) -> None:
    for slot in range(SLOTS):
        store.write(slot, slot + 1, block(slot))
    for slot in reversed(range(SLOTS)):
        assert torch.equal(store.read(slot, slot + 1), block(slot))


def test_a_slot_in_new_hands_does_not_pass_for_its_old_content(store: BlockStore) -> None:
    store.write(2, 1, block(1))
    store.write(2, 2, block(2))
    with pytest.raises(StoreError, match=r"slot 2.* holds content 2.*not 1"):
        store.read(2, 1)
    assert torch.equal(store.read(2, 2), block(2))


def test_a_slot_that_was_never_written_is_not_read(store: BlockStore) -> None:
    with pytest.raises(StoreError, match="slot 1"):
        store.read(1, 1)


def test_a_file_cut_off_is_found_out_and_can_be_written_again(disk: DiskStore) -> None:
    for slot in range(SLOTS):
        disk.write(slot, 1, block(slot))
    os.truncate(disk.path, HEADER_BYTES + 3 * 2 * PAGE + 100)
    assert torch.equal(disk.read(0, 1), block(0))
    with pytest.raises(StoreError, match=r"kv, slot 3: the file ends after 100 bytes"):
        disk.read(3, 1)
    disk.write(3, 2, block(9))
    assert torch.equal(disk.read(3, 2), block(9))


@pytest.mark.parametrize("place", [0, 9, 17, 25, 33, 41, 60, 2000, 56 + BYTES - 1])
def test_one_flipped_bit_anywhere_in_a_slot_is_found_out(disk: DiskStore, place: int) -> None:
    disk.write(1, 7, block(1))
    with open(disk.path, "r+b") as file:
        file.seek(HEADER_BYTES + 2 * PAGE + place)
        byte = file.read(1)[0]
        file.seek(HEADER_BYTES + 2 * PAGE + place)
        file.write(bytes([byte ^ 0x10]))
    with pytest.raises(StoreError, match=r"kv, slot 1: its (checksum|header)"):
        disk.read(1, 7)


def test_a_slot_copied_over_another_is_found_out(disk: DiskStore) -> None:
    disk.write(0, 1, block(0))
    disk.write(1, 1, block(1))
    raw = disk.path.read_bytes()
    with open(disk.path, "r+b") as file:
        file.seek(HEADER_BYTES + 2 * PAGE)
        file.write(raw[HEADER_BYTES : HEADER_BYTES + 2 * PAGE])
    with pytest.raises(StoreError, match="slot 1: holds content 1 of slot 0"):
        disk.read(1, 1)


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_failed_write_names_file_and_slot(disk: DiskStore, fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(os, "pwritev", refuse)
    with pytest.raises(StoreError, match=f"kv, slot 3: {os.strerror(fault)}"):
        disk.write(3, 1, block(0))


def test_a_write_that_stops_half_way_is_an_error(disk: DiskStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 1000)
    with pytest.raises(StoreError, match="slot 0: only 1000 bytes"):
        disk.write(0, 1, block(0))


def test_what_another_run_wrote_is_never_read(tmp_path: Path) -> None:
    path = tmp_path / "kv"
    first = DiskStore(path, SLOTS, BYTES)
    first.write(0, 1, block(0))
    raw = path.read_bytes()
    first.close()
    second = DiskStore(path, SLOTS, BYTES)
    with open(path, "r+b") as file:
        file.write(raw)
    with pytest.raises(StoreError, match="header is not one of this engine"):
        second.read(0, 1)
    second.close()


def test_a_host_tier_larger_than_memory_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as it fills: the system gives out more than it has, and ends whoever then uses it."""
    monkeypatch.setattr(host, "available_memory", lambda: 10 * BYTES)
    HostStore(10, BYTES).close()
    with pytest.raises(
        StoreError, match=r"a host tier of 11 blocks needs 0\.0 GiB of memory, and 0\.0 GiB are available"
    ):
        HostStore(11, BYTES)
    monkeypatch.setattr(host, "available_memory", lambda: None)
    HostStore(11, BYTES).close()


def test_what_memory_is_available_is_known_here_or_unknown() -> None:
    available = room.available_memory()
    assert available is None or available > 0
    assert (available is None) == (platform.system() != "Linux")


def test_a_device_block_is_all_its_shares_of_every_part() -> None:
    content = torch.randn(3, 2, 5, 4, 2, 8)
    scales = torch.randn(3, 2, 5, 4, 2)
    before = content.clone()
    device = DeviceStore([content, scales])
    assert device.block_bytes == 4 * (content[:, :, 0].numel() + scales[:, :, 0].numel())
    device.write(3, 0, device.read(1))
    assert torch.equal(content[:, :, 3], before[:, :, 1])
    assert torch.equal(scales[:, :, 3], scales[:, :, 1])
    assert torch.equal(content[:, :, [0, 1, 2, 4]], before[:, :, [0, 1, 2, 4]])
