"""GGUF files: metadata, and weights dequantised to float32 one tensor at a time.

Dequantising and parsing the vocabulary take some seconds; what they give is kept beside the file
(`engine.model.files.gguf_cache`).
"""

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, ReaderTensor
from gguf.quants import dequantize
from torch import Tensor

from engine.model.errors import ModelError
from engine.model.files.gguf_cache import CachedFile, read_cache, write_cache
from engine.model.files.lazy import LazyTensors

_Type = GGMLQuantizationType
UNQUANTISED = (_Type.F32, _Type.F16, _Type.BF16)
READ = (*UNQUANTISED, _Type.Q8_0, _Type.Q4_0, _Type.Q4_1, _Type.Q4_K, _Type.Q6_K)
"""Types of weights."""

MOST_CACHED_BYTES = 2 << 30
"""Of float32 weights; larger models are dequantised at every start, because a user's disk is not ours to fill."""

_CHUNK_ELEMENTS = 1 << 22
"""Dequantised at once: intermediate results take several times their size."""


@dataclass(frozen=True)
class GgufFile:
    """An open GGUF file. ``tensors`` are read and dequantised when they are asked for; float32, shaped as stored: ``[rows,
    columns]``, rows being outputs."""

    path: Path
    sha256: str
    stored_as: str
    """Type most of the weights have in the file, such as ``Q4_1``."""

    fields: dict[str, Any]
    tensors: Mapping[str, Tensor]


def file_sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_gguf(path: Path, *, use_cache: bool = True) -> GgufFile:
    """Metadata and tensors of ``path``, from the cache beside it when that is sound.

    Raises `ModelError` when the file is missing, is not a GGUF file that the `gguf` package understands, or holds a tensor
    of a type that is not in `READ`.
    """
    try:
        info = path.stat()
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    source = [info.st_size, info.st_mtime_ns]
    cache = cache_path(path)
    if use_cache and (cached := read_cache(cache, source)) is not None:
        return GgufFile(path, cached.sha256, cached.stored_as, cached.fields, cached.tensors)
    tensors, fields = _open(path)
    elements: Counter[str] = Counter()
    for tensor in tensors.values():
        elements[tensor.tensor_type.name] += int(tensor.n_elements)
    file = GgufFile(
        path,
        file_sha256(path),
        elements.most_common(1)[0][0],
        fields,
        LazyTensors(tensors, lambda name: _dequantised(tensors[name])),
    )
    quantised = any(tensor.tensor_type not in UNQUANTISED for tensor in tensors.values())
    if use_cache and quantised and 4 * elements.total() <= MOST_CACHED_BYTES:
        # A folder that cannot be written, or a full disk, costs only the time saved at the next start.
        with contextlib.suppress(OSError):
            shapes = {name: _shape(tensor) for name, tensor in tensors.items()}
            write_cache(cache, CachedFile(file.sha256, file.stored_as, fields, file.tensors), shapes, source)
    return file


def cache_path(path: Path) -> Path:
    """Where the dequantised weights of ``path`` are kept."""
    return path.with_name(path.name + ".f32")


def _open(path: Path) -> tuple[dict[str, ReaderTensor], dict[str, Any]]:
    # The reader trusts the counts and offsets in the file; a damaged one can fail anywhere in it.
    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {str(tensor.name): tensor for tensor in reader.tensors}
    except Exception as error:
        fault = str(error) or type(error).__name__
        if _has_mark(path):
            fault = f"it ends too early, as while it is still being copied, or is damaged ({fault})"
        raise ModelError(f"{path} is not a readable GGUF file: {fault}") from None
    if not tensors:
        raise ModelError(f"{path} holds no tensors")
    for name, tensor in tensors.items():
        if tensor.tensor_type not in READ:
            known = ", ".join(each.name for each in READ)
            raise ModelError(f"{path}: tensor {name} is {tensor.tensor_type.name}, which is not built in; {known} are")
        # The reader multiplies in 64 bits, where sizes that are too large come out as few elements, or none.
        if not 0 < math.prod(shape := _shape(tensor)) == int(tensor.n_elements):
            raise ModelError(f"{path}: tensor {name} has the shape {shape}, which no weights have; the file is damaged")
    return tensors, fields


def _has_mark(path: Path) -> bool:
    """Whether it begins as GGUF files do."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(4) == b"GGUF"
    return False


def _shape(tensor: ReaderTensor) -> list[int]:
    """Rows first; the file names columns first."""
    return [int(size) for size in reversed(tensor.shape)]


def _dequantised(tensor: ReaderTensor) -> Tensor:
    shape = _shape(tensor)
    rows = tensor.data if len(shape) > 1 else tensor.data[None]
    out = np.empty((len(rows), int(tensor.n_elements) // max(len(rows), 1)), np.float32)
    step = max(_CHUNK_ELEMENTS // max(out.shape[1], 1), 1)
    for first in range(0, len(rows), step):
        out[first : first + step] = dequantize(rows[first : first + step], tensor.tensor_type)
    return torch.from_numpy(out.reshape(shape))
