"""A recording in a file: its index from the headers alone, its lines chunk by chunk, its damage told and passed over."""

import os
from pathlib import Path

from kvtop.protocol.base import ProtocolError
from kvtop.protocol.codec import check_version
from kvtop.record.chunk import (
    HEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    ChunkError,
    Head,
    NewerFormat,
    head_bytes,
    may_begin,
    read_head,
    unpack,
    unpack_digest,
)
from kvtop.record.tape import Damage, Indexed, Tape

READ_BYTES = 4096
"""Read where a header is expected: most fit into it."""

SEARCH_BYTES = 1 << 20
UNFINISHED = "an unfinished chunk"


class RecordingError(ValueError):
    """The file cannot be read as a recording at all. One sentence that names it."""


class Recording(Tape):
    """Opens ``path``. While it is being written, `refresh` takes up what has come; nothing is ever changed in it.

    Chunks that are damaged, and an unfinished one at the end, are passed over and told (`damage`, `torn`); all others can
    be read. Raises `RecordingError` where there is no recording, or one of a newer major version, and OSError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = Path(path)
        self.torn: Damage | None = None
        """What stands at the end and is no whole chunk: one that is being written, or was when its writer ended."""
        self._heads: list[Head] = []
        self._scanned = 0
        self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a FIFO is not waited for
        try:
            self.refresh()
            if not self._chunks:
                raise RecordingError(f"{self.path} {self._why_none()}")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)

    def again(self) -> "Recording":
        return Recording(self.path)

    @property
    def size(self) -> int:
        """Bytes that have been looked at."""
        return self._scanned

    def refresh(self) -> bool:
        size = os.fstat(self._file).st_size
        self._take_back(size)
        had = len(self._chunks)
        self.torn = None
        while self._scanned < size:
            at = self._scanned
            try:
                head = self._head(at)
            except ChunkError as error:
                found = self._next_head(at + 1, size)
                if found is None:
                    self.torn = Damage(at, size - at, str(error))
                    break
                self._damaged(Damage(at, found - at, str(error)))
                self._scanned = found
                continue
            if head is None or at + head.size > size:
                self.torn = Damage(at, size - at, UNFINISHED)
                break
            self._heads.append(head)
            self._add(len(self._chunks), head.summary, at)
            self._scanned = at + head.size
        return len(self._chunks) > had

    def _take_back(self, size: int) -> None:
        """The writer could not be sure of its last chunks, and has cut them off."""
        while self._chunks and self._scanned > size:
            self._scanned = self._chunks[-1].at
            del self._chunks[-1], self._firsts[-1], self._heads[-1]

    def read(self, chunk: Indexed) -> list[bytes]:
        head = self._heads[chunk.number]
        try:
            return unpack(head, self._bytes(chunk.at + head.lines_at, head.size - head.lines_at))
        except ChunkError as error:
            self._damaged(Damage(chunk.at, head.size, str(error)))
            return []

    def read_digest(self, chunk: Indexed) -> bytes | None:
        head = self._heads[chunk.number]
        if head.summary.digest_base is None:
            return None
        try:
            return unpack_digest(head, self._bytes(chunk.at + head.digest_at, head.lines_at - head.digest_at))
        except ChunkError:
            return None  # what it is made of is there

    def _bytes(self, at: int, size: int) -> bytes:
        parts = []
        while size > 0 and (part := os.pread(self._file, size, at)):
            parts.append(part)
            at, size = at + len(part), size - len(part)
        return b"".join(parts)

    def _head(self, at: int) -> Head | None:
        """The header there; None where the file ends in it. Raises `ChunkError` where there is none, `RecordingError`."""
        start = self._bytes(at, READ_BYTES)
        if len(start) < HEAD_BYTES:
            if not may_begin(start):
                raise ChunkError("no chunk begins here")
            return None
        size = head_bytes(start)
        if size > len(start):
            start += self._bytes(at + len(start), size - len(start))
            if size > len(start):
                return None
        try:
            head = read_head(start[:size])
            if head.summary.protocol:
                check_version(head.summary.protocol, "the recorded engine")
        except NewerFormat as error:
            raise RecordingError(f"{self.path} {error}") from None
        except ProtocolError as error:
            raise RecordingError(f"{self.path}: {error}") from None
        return head

    def _next_head(self, at: int, size: int) -> int | None:
        """Where the next sound header begins, at ``at`` or behind it."""
        overlap = len(MAGIC) - 1
        while at < size:
            block = self._bytes(at + MAGIC_AT, SEARCH_BYTES + overlap)
            found = -1
            while (found := block.find(MAGIC, found + 1)) >= 0:
                try:
                    if self._head(at + found) is not None:
                        return at + found
                except ChunkError:
                    continue
            at += SEARCH_BYTES
        return None

    def _why_none(self) -> str:
        if not self._scanned and self.torn is None:
            return "is empty: nothing has been recorded in it"
        if self.torn is not None and self.torn.at == 0 and self.torn.reason == UNFINISHED:
            return "has an unfinished beginning only: its first second was still being written"
        return "is no recording of kvtop, or nothing of it is whole"
