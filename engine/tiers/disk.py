"""The disk tier: a preallocated file of slots, each with a header that tells whether its bytes can be trusted.

A slot is ``header | block``, padded to whole pages. The header holds a mark, the run's own random number, slot,
generation, length and a BLAKE2b checksum over all of that and the bytes: a slot that was cut off, overwritten, exchanged
or left over from another run is found out when it is read. The file is scratch: private (0600), locked while in use,
removed at the end, and never read by another run.
"""

import contextlib
import fcntl
import os
import stat
import struct
from hashlib import blake2b
from pathlib import Path

import torch
from torch import Tensor

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
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"disk tier {path}: {error.strerror}") from None
        try:
            self._claim()
        except OSError as error:
            os.close(self._file)
            raise (
                error if isinstance(error, StoreError) else StoreError(f"disk tier {path}: {error.strerror}")
            ) from None

    def _claim(self) -> None:
        facts = os.fstat(self._file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise StoreError(f"disk tier {self.path}: not a regular file of this user")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"disk tier {self.path}: another engine uses this file") from None
        if facts.st_size > 0 and os.pread(self._file, len(MARK), 0) not in (MARK, bytes(len(MARK))):
            raise StoreError(f"disk tier {self.path}: the file holds something else; it would be overwritten")
        os.fchmod(self._file, 0o600)
        os.ftruncate(self._file, 0)
        size = self.slots * self._stride
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file, 0, size)
        else:
            os.ftruncate(self._file, size)

    def read(self, slot: int, generation: int) -> Tensor:
        try:
            raw = bytearray(os.pread(self._file, _HEADER.size + self.block_bytes, slot * self._stride))
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
            written = os.pwritev(self._file, [header, body], slot * self._stride)
        except OSError as error:
            raise StoreError(f"{self._place(slot)}: {error.strerror}") from None
        if written < _HEADER.size + self.block_bytes:
            raise StoreError(f"{self._place(slot)}: only {written} bytes could be written")

    def close(self) -> None:
        """Ends the use of the file and removes it."""
        with contextlib.suppress(OSError):
            # Only what is still there under this name: somebody may have put another file in its place.
            if os.path.samestat(os.fstat(self._file), os.stat(self.path, follow_symlinks=False)):
                os.unlink(self.path)
        with contextlib.suppress(OSError):
            os.close(self._file)

    def _checksum(self, slot: int, generation: int, length: int, data: memoryview) -> bytes:
        digest = blake2b(struct.pack("<8sQQQ", self._run, slot, generation, length), digest_size=16)
        digest.update(data)
        return digest.digest()

    def _place(self, slot: int) -> str:
        return f"disk tier {self.path}, slot {slot}"
