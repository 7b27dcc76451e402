"""The disk tier: slots in a file of its own, each with a header that tells whether its bytes can be trusted.

A slot is ``header | block``, padded to whole pages. The header holds a mark, the run's own random number, slot,
generation, length and a BLAKE2b checksum over all of that and the bytes: a slot that was cut off, overwritten, exchanged
or left over from another run is found out when it is read. The file is scratch (`engine.tiers.scratch`): never read by
another run.
"""

import os
import struct
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

from engine.tiers.scratch import HEADER_BYTES, ScratchFile
from engine.tiers.store import StoreError

PAGE = 4096
MARK = b"kvtop kv"
_HEADER = struct.Struct("<8s8sQQQ16s")
"""Mark, run, slot, generation, bytes, checksum."""


class DiskStore:
    """Raises `StoreError`, naming the file, when it cannot be made or filled to its size."""

    name = "disk"

    def __init__(self, path: Path, slots: int, block_bytes: int) -> None:
        self.path = path
        self.slots = slots
        self.block_bytes = block_bytes
        self._run = os.urandom(8)
        self._stride = -(-(_HEADER.size + block_bytes) // PAGE) * PAGE
        self._file = ScratchFile(path, slots * self._stride)

    def read(self, slot: int, generation: int) -> Tensor:
        try:
            raw = bytearray(os.pread(self._file.fd, _HEADER.size + self.block_bytes, self._offset(slot)))
        except OSError as error:
            raise StoreError(f"{self._place(slot)}: {error.strerror}") from None
        if len(raw) < _HEADER.size + self.block_bytes:
            raise StoreError(f"{self._place(slot)}: the file ends after {len(raw)} bytes of it")
        mark, run, said, written, length, checksum = _HEADER.unpack_from(raw)
        data = memoryview(raw)[_HEADER.size :]
        if (mark, run) != (MARK, self._run):
            raise StoreError(f"{self._place(slot)}: its header is not one of this engine")
        if checksum != self._checksum(said, written, length, data):
            raise StoreError(f"{self._place(slot)}: its checksum is wrong")
        if (said, written, length) != (slot, generation, self.block_bytes):
            raise StoreError(f"{self._place(slot)}: holds content {written} of slot {said}, not {generation}")
        return torch.frombuffer(raw, dtype=torch.uint8, offset=_HEADER.size)

    def write(self, slot: int, generation: int, data: Tensor) -> None:
        body = memoryview(data.contiguous().numpy().data)
        checksum = self._checksum(slot, generation, self.block_bytes, body)
        header = _HEADER.pack(MARK, self._run, slot, generation, self.block_bytes, checksum)
        try:
            written = os.pwritev(self._file.fd, [header, body], self._offset(slot))
        except OSError as error:
            raise StoreError(f"{self._place(slot)}: {error.strerror}") from None
        if written < _HEADER.size + self.block_bytes:
            raise StoreError(f"{self._place(slot)}: only {written} bytes could be written")

    def close(self) -> None:
        """Ends the use of the file and removes it."""
        self._file.remove()

    def _offset(self, slot: int) -> int:
        return HEADER_BYTES + slot * self._stride

    def _checksum(self, slot: int, generation: int, length: int, data: memoryview) -> bytes:
        digest = blake2b(struct.pack("<8sQQQ", self._run, slot, generation, length), digest_size=16)
        digest.update(data)
        return digest.digest()

    def _place(self, slot: int) -> str:
        return f"disk tier {self.path}, slot {slot}"
