"""GGUF files: metadata, and weights dequantised to float32, which are cached beside the file.

Dequantising and parsing the vocabulary take some seconds; the cache (one file, ``NAME.gguf.f32``) takes a fraction of
one. It is written aside and moved into place, names the file it was made from, and carries a checksum: whatever is
wrong with it, it is made anew.
"""

import contextlib
import hashlib
import json
import os
import tempfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from numpy.typing import NDArray

_MAGIC = b"kvtop-f32-1\n"
_MAX_HEADER_BYTES = 256 * 1024 * 1024


class GgufError(ValueError):
    """The file cannot be used; the text says which file and why."""


@dataclass(frozen=True)
class GgufFile:
    """A GGUF file in memory. ``tensors`` are float32 and shaped as stored: ``[rows, columns]``, rows being outputs."""

    path: Path
    sha256: str
    stored_as: str
    """Type most of the weights have in the file, such as ``Q4_1``."""

    fields: dict[str, Any]
    tensors: dict[str, NDArray[np.float32]]


def file_sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_gguf(path: Path, *, use_cache: bool = True) -> GgufFile:
    """Metadata and dequantised tensors of ``path``, from the cache beside it when that is sound.

    Raises `GgufError` when the file is missing or is not a GGUF file that the `gguf` package understands.
    """
    try:
        info = path.stat()
    except OSError as error:
        raise GgufError(f"{path}: {error.strerror}") from None
    source = [info.st_size, info.st_mtime_ns]
    cache = cache_path(path)
    if use_cache and (cached := _read_cache(cache, path, source)) is not None:
        return cached
    file = _read_source(path)
    if use_cache:
        # A folder that cannot be written, or a full disk, costs only the time saved at the next start.
        with contextlib.suppress(OSError):
            _write_cache(cache, file, source)
    return file


def cache_path(path: Path) -> Path:
    """Where the dequantised weights of ``path`` are kept."""
    return path.with_name(path.name + ".f32")


def _read_source(path: Path) -> GgufFile:
    # The reader trusts the counts and offsets in the file; a damaged one can fail anywhere in it.
    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {}
        elements: Counter[str] = Counter()
        for tensor in reader.tensors:
            # Unquantised tensors come as views of the mapped file; a copy of ours may be written and outlives it.
            weights = dequantize(tensor.data, tensor.tensor_type)
            tensors[str(tensor.name)] = np.require(weights, np.float32, ["C", "W"])
            elements[tensor.tensor_type.name] += int(tensor.n_elements)
    except Exception as error:
        raise GgufError(f"{path} is not a readable GGUF file: {str(error) or type(error).__name__}") from None
    if not tensors:
        raise GgufError(f"{path} holds no tensors")
    return GgufFile(path, file_sha256(path), elements.most_common(1)[0][0], fields, tensors)


def _write_cache(cache: Path, file: GgufFile, source: list[int]) -> None:
    header = {
        "source": source,
        "sha256": file.sha256,
        "stored_as": file.stored_as,
        "fields": file.fields,
        "tensors": {name: list(data.shape) for name, data in file.tensors.items()},
    }
    text = json.dumps(header).encode()
    handle, temporary = tempfile.mkstemp(prefix=cache.name + ".", suffix=".part", dir=cache.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(_MAGIC + len(text).to_bytes(8, "little") + text)
            checksum = zlib.crc32(text)
            for data in file.tensors.values():
                view = data.data.cast("B")
                checksum = zlib.crc32(view, checksum)
                out.write(view)
            out.write(checksum.to_bytes(4, "little"))
        os.replace(temporary, cache)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read_cache(cache: Path, path: Path, source: list[int]) -> GgufFile | None:
    """The cached file, or None when there is none or anything about it is wrong."""
    try:
        with cache.open("rb") as stream:
            return _parse_cache(stream, path, source)
    except (OSError, ValueError, KeyError, TypeError, MemoryError):
        return None


def _parse_cache(stream: BinaryIO, path: Path, source: list[int]) -> GgufFile | None:
    if stream.read(len(_MAGIC)) != _MAGIC:
        return None
    length = int.from_bytes(stream.read(8), "little")
    if length > _MAX_HEADER_BYTES:
        return None
    text = stream.read(length)
    header = json.loads(text)
    if header["source"] != source:
        return None
    shapes: dict[str, list[int]] = header["tensors"]
    expected = len(_MAGIC) + 8 + length + 4 * sum(int(np.prod(shape)) for shape in shapes.values()) + 4
    if os.fstat(stream.fileno()).st_size != expected:
        return None
    checksum = zlib.crc32(text)
    tensors = {}
    for name, shape in shapes.items():
        data = np.fromfile(stream, dtype=np.float32, count=int(np.prod(shape)))
        checksum = zlib.crc32(data.data.cast("B"), checksum)
        tensors[name] = data.reshape(shape)
    if int.from_bytes(stream.read(4), "little") != checksum:
        return None
    return GgufFile(path, str(header["sha256"]), str(header["stored_as"]), header["fields"], tensors)
