"""What was read out of a GGUF file, kept beside it: metadata and float32 weights in one file, ``NAME.gguf.f32``.

It is written aside and moved into place, names the file it was made from, and carries a checksum: whatever is wrong with
it, it is made anew. It is mapped into memory, so that reading it holds no copy.
"""

import contextlib
import fcntl
import glob
import json
import math
import mmap
import os
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.model.files.lazy import LazyTensors

_MAGIC = b"kvtop-f32-2\n"
_MAX_HEADER_BYTES = 256 * 1024 * 1024
_CHUNK_BYTES = 16 << 20
_PART = ".part"
_ALIGNMENT = 64
"""Of the first weight in the file, bytes."""


@dataclass(frozen=True)
class CachedFile:
    """As in `engine.model.files.gguf.GgufFile`; the tensors are views of the mapped file."""

    sha256: str
    stored_as: str
    fields: dict[str, Any]
    tensors: Mapping[str, Tensor]


def write_cache(cache: Path, file: CachedFile, shapes: Mapping[str, list[int]], source: list[int]) -> None:
    """One tensor after the other. ``source``: what must be the same of the file it is made from. Raises OSError."""
    header = {
        "source": source,
        "sha256": file.sha256,
        "stored_as": file.stored_as,
        "fields": file.fields,
        "tensors": dict(shapes),
    }
    text = json.dumps(header).encode()
    text += b" " * (-(len(_MAGIC) + 8 + len(text)) % _ALIGNMENT)
    _sweep(cache)
    handle, temporary = tempfile.mkstemp(prefix=cache.name + ".", suffix=_PART, dir=cache.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            out.write(_MAGIC + len(text).to_bytes(8, "little") + text)
            checksum = zlib.crc32(text)
            for name in shapes:
                view = file.tensors[name].numpy().data.cast("B")
                checksum = zlib.crc32(view, checksum)
                out.write(view)
            out.write(checksum.to_bytes(4, "little"))
        os.replace(temporary, cache)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sweep(cache: Path) -> None:
    """Remove what was written aside by who was ended before it was in place: as large as the cache, under a new name each
    time. Who still writes has the lock of it."""
    for left in cache.parent.glob(f"{glob.escape(cache.name)}.????????{_PART}"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def read_cache(cache: Path, source: list[int]) -> CachedFile | None:
    """The cached file, or None when there is none or anything about it is wrong."""
    try:
        with cache.open("rb") as stream:
            # Copied where it is written to, which nobody does: torch knows no memory that must not be written.
            content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        return _parse(content, source)
    except (OSError, ValueError, KeyError, TypeError, MemoryError):
        return None


def _parse(content: mmap.mmap, source: list[int]) -> CachedFile | None:
    start = len(_MAGIC) + 8
    if content[: len(_MAGIC)] != _MAGIC:
        return None
    length = int.from_bytes(content[len(_MAGIC) : start], "little")
    if length > min(_MAX_HEADER_BYTES, len(content)) or (start + length) % _ALIGNMENT:
        return None
    header = json.loads(content[start : start + length])
    if header["source"] != source:
        return None
    places: dict[str, tuple[int, list[int]]] = {}
    elements = 0
    for name, shape in header["tensors"].items():
        places[name] = (elements, shape)
        elements += math.prod(shape)
    end = start + length + 4 * elements
    if len(content) != end + 4 or _checksum(content, start, end) != int.from_bytes(content[end:], "little"):
        return None
    weights = np.frombuffer(content, np.float32, elements, start + length)

    def read(name: str) -> Tensor:
        first, shape = places[name]
        return torch.from_numpy(weights[first : first + math.prod(shape)].reshape(shape))

    tensors = LazyTensors(places, read)
    return CachedFile(str(header["sha256"]), str(header["stored_as"]), header["fields"], tensors)


def _checksum(content: mmap.mmap, start: int, end: int) -> int:
    checksum = 0
    with memoryview(content) as view:
        for first in range(start, end, _CHUNK_BYTES):
            checksum = zlib.crc32(view[first : min(first + _CHUNK_BYTES, end)], checksum)
    return checksum
