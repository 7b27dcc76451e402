"""Each type of weights in GGUF files, against a few lines that follow the format's description number by number."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter
from numpy.typing import NDArray

from engine.model.errors import ModelError
from engine.model.files.gguf import READ, cache_path, read_gguf

ROWS, COLUMNS = 3, 512


def _half(data: bytes, at: int = 0) -> float:
    return float(struct.unpack_from("<e", data, at)[0])


def _q8_0(block: bytes) -> list[float]:
    return [_half(block) * number for number in struct.unpack_from("<32b", block, 2)]


def _q4_0(block: bytes) -> list[float]:
    scale, bits = _half(block), block[2:]
    return [scale * ((byte & 15) - 8) for byte in bits] + [scale * ((byte >> 4) - 8) for byte in bits]


def _q4_1(block: bytes) -> list[float]:
    scale, least, bits = _half(block), _half(block, 2), block[4:]
    return [scale * (byte & 15) + least for byte in bits] + [scale * (byte >> 4) + least for byte in bits]


def _q4_k(block: bytes) -> list[float]:
    scale, least, packed, bits = _half(block), _half(block, 2), block[4:16], block[16:]
    out = []
    for part in range(8):
        if part < 4:
            six, under = packed[part] & 63, packed[part + 4] & 63
        else:
            six = packed[part + 4] & 15 | packed[part - 4] >> 6 << 4
            under = packed[part + 4] >> 4 | packed[part] >> 6 << 4
        for place in range(32):
            four = bits[part // 2 * 32 + place] >> 4 * (part % 2) & 15
            out.append(scale * six * four - least * under)
    return out


def _q6_k(block: bytes) -> list[float]:
    low, high, scales, scale = block[:128], block[128:192], struct.unpack_from("<16b", block, 192), _half(block, 208)
    out = []
    for number in range(256):
        half, place = divmod(number, 128)
        quarter, place = divmod(place, 32)
        four = low[half * 64 + place + 32 * (quarter % 2)] >> 4 * (quarter // 2) & 15
        two = high[half * 32 + place] >> 2 * quarter & 3
        out.append(scale * scales[number // 16] * ((four | two << 4) - 32))
    return out


def _bf16(block: bytes) -> list[float]:
    return [struct.unpack("<f", b"\0\0" + block)[0]]


FORMATS: dict[Type, tuple[int, Callable[[bytes], list[float]]]] = {
    Type.F32: (4, lambda block: [struct.unpack("<f", block)[0]]),
    Type.F16: (2, lambda block: [_half(block)]),
    Type.BF16: (2, _bf16),
    Type.Q8_0: (34, _q8_0),
    Type.Q4_0: (18, _q4_0),
    Type.Q4_1: (20, _q4_1),
    Type.Q4_K: (144, _q4_k),
    Type.Q6_K: (210, _q6_k),
}
"""Bytes of a block, and what it holds."""

_HALVES = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q4_K: (0, 2), Type.Q6_K: (208,)}
"""Where in a block there are numbers of 16 bits, which random bytes would make infinite."""


def _random(kind: Type) -> bytes:
    size, decode = FORMATS[kind]
    blocks = ROWS * COLUMNS // len(decode(bytes(size)))
    rng = np.random.default_rng(5)
    if kind == Type.BF16:
        return (rng.standard_normal(blocks).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if kind in (Type.F32, Type.F16):
        return rng.standard_normal(blocks).astype(np.float32 if kind == Type.F32 else np.float16).tobytes()
    data = bytearray(rng.integers(0, 256, blocks * size, np.uint8).tobytes())
    for block in range(blocks):
        for place in _HALVES[kind]:
            struct.pack_into("<e", data, block * size + place, rng.standard_normal())
    return bytes(data)


def _write(path: Path, kind: Type, data: bytes) -> Path:
    writer = GGUFWriter(path, "llama")
    dtypes: dict[Type, Any] = {Type.F32: np.float32, Type.F16: np.float16}
    rows: NDArray[Any] = np.frombuffer(data, dtypes.get(kind, np.uint8)).reshape(ROWS, -1)
    writer.add_tensor("some.weight", rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_every_type_that_is_read_is_held_against_its_format() -> None:
    assert set(FORMATS) == set(READ)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.name)
@pytest.mark.parametrize("chunk", [1, 1 << 22], ids=["row by row", "at once"])
def test_weights_are_what_the_format_says(
    kind: Type, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.model.files.gguf._CHUNK_ELEMENTS", chunk)
    data = _random(kind)
    size, decode = FORMATS[kind]
    expected = [number for at in range(0, len(data), size) for number in decode(data[at : at + size])]
    path = _write(tmp_path / "typed.gguf", kind, data)
    for _ in range(2):  # from the file, then from the cache
        file = read_gguf(path)
        assert file.stored_as == kind.name
        tensor = file.tensors["some.weight"]
        assert tensor.shape == (ROWS, COLUMNS)
        np.testing.assert_allclose(tensor.numpy().ravel(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [Type.F32, Type.F16, Type.BF16], ids=lambda kind: kind.name)
def test_what_is_not_quantised_needs_no_cache(kind: Type, tmp_path: Path) -> None:
    path = _write(tmp_path / "plain.gguf", kind, _random(kind))
    read_gguf(path)
    assert not cache_path(path).exists()


def test_a_large_model_leaves_no_cache_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.model.files.gguf.MOST_CACHED_BYTES", ROWS * COLUMNS * 4 - 1)
    path = _write(tmp_path / "large.gguf", Type.Q4_1, _random(Type.Q4_1))
    assert read_gguf(path).stored_as == "Q4_1"
    assert not cache_path(path).exists()


@pytest.mark.parametrize(("kind", "size"), [(Type.Q5_K, 176), (Type.Q2_K, 84), (Type.IQ4_XS, 136)], ids=str)
def test_another_type_is_refused_with_the_tensors_name(kind: Type, size: int, tmp_path: Path) -> None:
    path = _write(tmp_path / "other.gguf", kind, bytes(ROWS * COLUMNS // 256 * size))
    with pytest.raises(ModelError, match=rf"tensor some\.weight is {kind.name}, which is not built in; F32, "):
        read_gguf(path)
