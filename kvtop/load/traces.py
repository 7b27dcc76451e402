"""Public traces of production: when requests came, how long they were, which prompt blocks they had in common. No text.

Two formats are read, each also gzipped: Azure's of 2023 (CSV) and Mooncake's (JSON lines).
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from kvtop.errors import UserError

AZURE_COLUMNS = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]

MOONCAKE_BLOCK = 512
"""Prompt tokens behind one hash id."""

MOST_TOKENS = 10_000_000
"""A request with more is a fault of the file."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One request: ``at`` seconds after the first; ``blocks`` are the ids of its prompt's blocks of `MOONCAKE_BLOCK` tokens
    (equal ids, equal text up to there), None where the trace does not tell."""

    at: float
    prompt: int
    output: int
    blocks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    format: str
    rows: tuple[TraceRow, ...]

    def within(self, seconds: float) -> "Trace":
        """Its first ``seconds``."""
        return Trace(self.name, self.format, tuple(row for row in self.rows if row.at < seconds))


def read_trace(path: Path, most: int | None = None) -> Trace:
    """The first ``most`` rows (None: all) in the order of time. Raises `UserError` that names the line that is wrong."""
    try:
        with path.open("rb") as raw, _unpacked(raw) as text:
            first = text.readline(1_000_000)
            if first.startswith("{"):
                kind, rows = "mooncake", _mooncake(_chain(first, text), path)
            elif [name.strip() for name in first.split(",")] == AZURE_COLUMNS:
                kind, rows = "azure-2023", _azure(text, path)
            else:
                raise UserError(
                    f"{path}: neither Azure's CSV nor Mooncake's JSON lines",
                    f"a CSV begins with {','.join(AZURE_COLUMNS)}, a line of JSON with {{",
                    2,
                )
            kept = [row for row, _ in zip(rows, range(most), strict=False)] if most is not None else list(rows)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", code=2) from None
    except (EOFError, zlib.error):
        raise UserError(f"{path}: the compressed file is cut off or damaged", code=2) from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not text in UTF-8", code=2) from None
    if not kept:
        raise UserError(f"{path}: no requests in it", code=2)
    kept.sort(key=lambda row: row.at)
    start = kept[0].at
    rows_from_0 = tuple(TraceRow(row.at - start, row.prompt, row.output, row.blocks) for row in kept)
    return Trace(path.name, kind, rows_from_0)


def _unpacked(raw: io.BufferedReader) -> io.TextIOWrapper:
    if raw.peek(2)[:2] == b"\x1f\x8b":
        return io.TextIOWrapper(gzip.GzipFile(fileobj=raw), "utf-8-sig", newline="")
    return io.TextIOWrapper(raw, "utf-8-sig", newline="")


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _azure(lines: Iterator[str], path: Path) -> Iterator[TraceRow]:
    epoch: datetime | None = None
    for number, cells in enumerate(_cells(lines, path), 2):
        if not cells:
            continue
        if len(cells) != len(AZURE_COLUMNS):
            raise _wrong(path, number, f"{len(cells)} columns instead of {len(AZURE_COLUMNS)}")
        try:
            # Seven digits of a second, of which datetime takes six.
            when = datetime.fromisoformat(cells[0].strip()[:26])
            if epoch is None:
                epoch = when
            at = (when - epoch).total_seconds()
        except (ValueError, TypeError):
            raise _wrong(path, number, f"TIMESTAMP {cells[0]!r} is no time") from None
        yield TraceRow(
            at, _tokens(cells[1], "ContextTokens", path, number), _tokens(cells[2], "GeneratedTokens", path, number)
        )


def _cells(lines: Iterator[str], path: Path) -> Iterator[list[str]]:
    reader = csv.reader(lines)
    try:
        yield from reader
    except csv.Error as error:
        raise _wrong(path, reader.line_num + 1, str(error)) from None


def _mooncake(lines: Iterator[str], path: Path) -> Iterator[TraceRow]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(path, number, "not JSON") from None
        if not isinstance(row, dict):
            raise _wrong(path, number, "not an object")
        at = row.get("timestamp")
        if isinstance(at, bool) or not isinstance(at, int | float) or not abs(at) < 1e15:
            raise _wrong(path, number, "timestamp is no number of milliseconds")
        prompt = _tokens(row.get("input_length"), "input_length", path, number)
        output = _tokens(row.get("output_length"), "output_length", path, number)
        yield TraceRow(at / 1000, prompt, output, _blocks(row.get("hash_ids"), prompt, path, number))


def _blocks(ids: Any, prompt: int, path: Path, number: int) -> tuple[int, ...] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or not all(type(each) is int for each in ids):
        raise _wrong(path, number, "hash_ids is no list of whole numbers")
    if len(ids) * MOONCAKE_BLOCK < prompt:
        raise _wrong(path, number, f"{len(ids)} hash_ids for {prompt} prompt tokens: {MOONCAKE_BLOCK} tokens each")
    return tuple(ids)


def _tokens(value: Any, name: str, path: Path, number: int) -> int:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:20])
    if type(value) is not int or not 0 <= value <= MOST_TOKENS:
        raise _wrong(path, number, f"{name} is no number of tokens")
    return value


def _wrong(path: Path, number: int, what: str) -> UserError:
    return UserError(f"{path}, line {number}: {what}", code=2)
