"""One chunk of a recording: a header that can be read alone, then the protocol's lines, compressed.

The header is a skippable frame of zstandard and the lines are a frame after it, so that ``zstd -dc FILE`` prints a whole
recording as its lines. All numbers are little-endian::

    0  u32  0x184D2A5B, which zstandard skips     16  u32  bytes of the compressed lines
    4  u32  bytes of the header behind this       20  u32  CRC-32 of the compressed lines
    8  4 B  "KVTR"                                24  u32  bytes of the summary
   12  u8   major version of this format          28  u32  CRC-32 of the header, these four bytes as zeros
   13  u8   minor version                         32       the summary, JSON
   14  u16  0                                      …       the digest, compressed, where the summary tells of one
                                                   …       the compressed lines

The digest is one line: the chunk's frames and those of chunks before it merged into one, for readers in a hurry.
"""

import struct
import zlib
from typing import NamedTuple

import zstandard
from pydantic import ValidationError

from kvtop.protocol.base import MAX_FRAME_BYTES
from kvtop.record.summary import Summary

FORMAT_MAJOR = 1
FORMAT_MINOR = 0

SKIPPABLE = 0x184D2A5B
MAGIC = b"KVTR"
MAGIC_AT = 8
_HEAD = struct.Struct("<II4sBBHIIII")
HEAD_BYTES = _HEAD.size
_CRC = struct.Struct("<I")
_CRC_AT = HEAD_BYTES - _CRC.size

MAX_SUMMARY_BYTES = 1 << 20
MAX_LINES_BYTES = MAX_FRAME_BYTES + (16 << 20)
"""Most that one chunk may decompress to: the longest line there may be, and what came before it."""

LEVEL = 3
"""Of compression. Higher ones cost several times the time for a tenth of the size."""


class ChunkError(ValueError):
    """Bytes that are no chunk, or no longer what was written. The text says what is wrong."""


class NewerFormat(ValueError):
    """A sound chunk of a major version that this reader does not know. The text names both."""


class Packed(NamedTuple):
    """A chunk as it goes to its store."""

    summary: Summary
    blob: bytes


class Head(NamedTuple):
    """A header. ``size``: bytes of the whole chunk."""

    summary: Summary
    digest_at: int
    """Bytes from the start of the chunk to the digest."""
    lines_at: int
    """And to the compressed lines."""
    size: int
    crc: int


def pack(
    summary: Summary,
    lines: bytes,
    compressor: zstandard.ZstdCompressor | None = None,
    digest: tuple[int, bytes] | None = None,
) -> Packed:
    """``lines``: whole ones, with their newlines. ``digest``: the seq that it builds on, and its line."""
    compressor = zstandard.ZstdCompressor(LEVEL) if compressor is None else compressor
    data, extra = compressor.compress(lines), b""
    if digest is not None:
        extra = compressor.compress(digest[1])
        said = {"digest_base": digest[0], "digest_bytes": len(extra), "digest_crc": zlib.crc32(extra)}
        summary = summary.model_copy(update=said)
    told = summary.model_dump_json(exclude_defaults=True).encode()

    def head(crc: int) -> bytes:
        behind = HEAD_BYTES - MAGIC_AT + len(told) + len(extra)
        return _HEAD.pack(
            SKIPPABLE, behind, MAGIC, FORMAT_MAJOR, FORMAT_MINOR, 0, len(data), zlib.crc32(data), len(told), crc
        )

    return Packed(summary, head(zlib.crc32(told, zlib.crc32(head(0)))) + told + extra + data)


def _head_of(start: bytes) -> tuple[int, int, bytes, int, int, int, int, int, int, int]:
    return _HEAD.unpack_from(start)


def may_begin(start: bytes) -> bool:
    """Whether ``start``, fewer than `HEAD_BYTES`, can be the beginning of a chunk."""
    magic = start[MAGIC_AT : MAGIC_AT + len(MAGIC)]
    return SKIPPABLE.to_bytes(4, "little").startswith(start[:4]) and MAGIC.startswith(magic)


def head_bytes(start: bytes) -> int:
    """Bytes of the header and summary that begin with ``start`` (`HEAD_BYTES` or more). Raises `ChunkError`."""
    skippable, behind, magic, _, _, _, _, _, told, _ = _head_of(start)
    if skippable != SKIPPABLE or magic != MAGIC:
        raise ChunkError("no chunk begins here")
    if told > MAX_SUMMARY_BYTES or behind < HEAD_BYTES - MAGIC_AT + told:
        raise ChunkError("the lengths in a header contradict each other")
    return HEAD_BYTES + told


def read_head(start: bytes) -> Head:
    """``start``: as many bytes of a chunk as `head_bytes` says. Raises `ChunkError` and `NewerFormat`."""
    size = head_bytes(start)
    _, behind, _, major, minor, _, length, crc, _, own = _head_of(start)
    blank = start[:_CRC_AT] + bytes(_CRC.size)
    if len(start) < size or zlib.crc32(start[HEAD_BYTES:size], zlib.crc32(blank)) != own:
        raise ChunkError("a header is damaged")
    if major > FORMAT_MAJOR:
        raise NewerFormat(
            f"is of format {major}.{minor}, and this kvtop reads format {FORMAT_MAJOR}; open it with a newer kvtop"
        )
    try:
        summary = Summary.model_validate_json(start[HEAD_BYTES:size])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ChunkError(f"a summary says what cannot be: {place}: {first['msg']}") from None
    lines_at = MAGIC_AT + behind
    if lines_at != size + summary.digest_bytes:
        raise ChunkError("the lengths in a header contradict each other")
    return Head(summary, size, lines_at, lines_at + length, crc)


def unpack(head: Head, data: bytes) -> list[bytes]:
    """The lines, without their newlines, of the compressed ``data`` behind a header. Raises `ChunkError`."""
    if len(data) != head.size - head.lines_at or zlib.crc32(data) != head.crc:
        raise ChunkError("compressed lines are damaged")
    lines = _decompressed(data)
    return lines.split(b"\n")[:-1] if lines.endswith(b"\n") else lines.split(b"\n")


def unpack_digest(head: Head, data: bytes) -> bytes:
    """The line of the digest ``data``. Raises `ChunkError`."""
    if len(data) != head.summary.digest_bytes or zlib.crc32(data) != head.summary.digest_crc:
        raise ChunkError("a digest is damaged")
    return _decompressed(data)


def _decompressed(data: bytes) -> bytes:
    try:
        declared = zstandard.get_frame_parameters(data).content_size
        if declared > MAX_LINES_BYTES:  # also what stands for "not said"
            raise ChunkError(f"lines of more than {MAX_LINES_BYTES} bytes")
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=MAX_LINES_BYTES)
    except zstandard.ZstdError as error:
        raise ChunkError(f"lines cannot be decompressed: {error}") from None
