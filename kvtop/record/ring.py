"""The latest minutes of a recording in bounded space: what an engine's flight recorder and a viewer look back on."""

import contextlib
import os
import secrets
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from kvtop.record.chunk import ChunkError, Packed, head_bytes, read_head, unpack
from kvtop.record.sink import FileSink
from kvtop.record.summary import Summary
from kvtop.record.tape import Damage, Indexed, Tape

SEGMENT_BYTES = 4 << 20
"""Bytes of a temporary file after which the next chunk that reading can start at goes to another one."""


class Kept(Protocol):
    """Where a chunk's bytes are."""

    def bytes(self) -> bytes:
        """Raises OSError."""


class _InMemory(NamedTuple):
    blob: bytes

    def bytes(self) -> bytes:
        return self.blob


class _InFile(NamedTuple):
    file: IO[bytes]
    at: int
    size: int

    def bytes(self) -> bytes:
        return os.pread(self.file.fileno(), self.size, self.at)


def in_memory(chunk: Packed) -> Kept:
    return _InMemory(chunk.blob)


class TemporaryFiles:
    """Keeps chunks in files without a name, which take no memory of the process and are gone when it ends.

    A file is given back when the last of its chunks is dropped. ``folder``: default: where temporary files go.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._size = 0

    def __call__(self, chunk: Packed) -> Kept:
        """Raises OSError."""
        if self._file is None or (chunk.summary.entry and self._size >= SEGMENT_BYTES):
            self._file, self._size = tempfile.TemporaryFile(buffering=0, dir=self._folder), 0  # noqa: SIM115
        at, written = self._size, 0
        while written < len(chunk.blob):
            written += os.pwrite(self._file.fileno(), chunk.blob[written:], at + written)
        self._size += len(chunk.blob)
        return _InFile(self._file, at, len(chunk.blob))


class _Held(NamedTuple):
    number: int
    summary: Summary
    kept: Kept
    size: int
    at: float


class Ring:
    """A store of chunks (`kvtop.record.Sink`) that always begins with one that reading can start at.

    What is older than ``max_s`` seconds or more than ``max_bytes`` goes, from an entry up to the next; the latest entry
    and what follows it stay whatever they take, so that there is always a moment to be told: let entries come often
    (`kvtop.record.Writer` has ``entry_bytes``). One thread appends; any may `dump` or open a `RingTape`.
    """

    def __init__(
        self,
        max_bytes: int,
        max_s: float,
        *,
        keep: Callable[[Packed], Kept] = in_memory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes, self._max_s = max_bytes, max_s
        self._keep, self._clock = keep, clock
        self._lock = threading.Lock()
        self._chunks: deque[_Held] = deque()
        self._entries: deque[int] = deque()
        """Numbers of the chunks that reading can start at."""
        self._next = 0
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Held now."""
        return self._bytes

    def append(self, chunks: Sequence[Packed]) -> None:
        kept = [(chunk, self._keep(chunk)) for chunk in chunks]
        now = self._clock()
        with self._lock:
            for chunk, place in kept:
                if chunk.summary.entry:
                    self._entries.append(self._next)
                if self._entries:  # nothing could be made of what comes before the first
                    self._chunks.append(_Held(self._next, chunk.summary, place, len(chunk.blob), now))
                    self._bytes += len(chunk.blob)
                self._next += 1
            self._trim(now)

    def _trim(self, now: float) -> None:
        while len(self._entries) > 1:
            oldest, following = self._chunks[0], self._chunks[self._entries[1] - self._chunks[0].number]
            # What was there so long ago is to be told still, so the entry before that moment stays.
            if self._bytes <= self._max_bytes and now - following.at <= self._max_s:
                break
            self._entries.popleft()
            while self._chunks[0].number < following.number:
                self._bytes -= self._chunks.popleft().size
            assert oldest.number < following.number

    def close(self) -> None:
        """What is held stays."""

    def held(self) -> list[_Held]:
        """All chunks now."""
        with self._lock:
            return list(self._chunks)

    def dump(self, path: Path) -> int:
        """Writes all of it as a recording to ``path``, which appears whole or not at all, mode 0600. Its bytes.

        Raises OSError, FileExistsError where there is such a file, and ValueError where nothing has been recorded.
        """
        held = self.held()
        if not held:
            raise ValueError("nothing has been recorded yet")
        unfinished = path.with_name(f".{path.name[:200]}.{secrets.token_hex(4)}")
        sink = FileSink(unfinished, forced=False)
        try:
            for chunk in held:
                sink.append([Packed(chunk.summary, chunk.kept.bytes())])
            sink.force()
            os.link(unfinished, path)  # unlike a renaming, never over a file that is there
        finally:
            sink.close()
            with contextlib.suppress(OSError):
                unfinished.unlink()
        return sink.size


class RingTape(Tape):
    """Looks at a ring as `kvtop.record.Recording` looks at a file; `refresh` drops what the ring has dropped."""

    def __init__(self, ring: Ring) -> None:
        super().__init__()
        self._ring = ring
        self._held: dict[int, _Held] = {}
        self.refresh()

    def refresh(self) -> bool:
        held = self._ring.held()
        last = self._chunks[-1].number if self._chunks else -1
        first = held[0].number if held else 0
        gone = sum(chunk.number < first for chunk in self._chunks)
        self._drop(gone)
        self._held = {chunk.number: chunk for chunk in held}
        new = [chunk for chunk in held if chunk.number > last]
        for chunk in new:
            self._add(chunk.number, chunk.summary, chunk.number)
        return bool(new)

    def read(self, chunk: Indexed) -> list[bytes]:
        held = self._held[chunk.number]
        try:
            blob = held.kept.bytes()
            head = read_head(blob[: head_bytes(blob)])
            return unpack(head, blob[head.lines_at :])
        except (ChunkError, OSError) as error:
            self._damaged(Damage(chunk.number, held.size, str(error)))
            return []

    def again(self) -> "RingTape":
        return RingTape(self._ring)

    def close(self) -> None:
        self._held = {}
