"""A keyframe made beside the engine's work: gathered a little in each turn, put into JSON on another thread.

A keyframe tells of every block and every request at one moment. Gathered at once, that would lengthen one iteration by
a quarter of a second at a million blocks. So arrays are copied in pieces and requests one by one, while the frames
that go out meanwhile patch what has been gathered already; with the last piece all is as of the latest frame.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.memory.block_changes import run_bounds
from engine.memory.column_copy import ColumnCopy
from engine.memory.prefix import NO_HASH
from engine.serving.json_rows import Column, Hashes, Seconds, json_rows
from engine.serving.request_facts import RequestFacts
from engine.tiers.report import TierReport
from kvtop.protocol import Keyframe, RequestChange, encode
from kvtop.publish import EncodedKeyframe

REQUESTS_AT_ONCE = 8
"""Requests gathered between two looks at the clock."""

ENCODED_AT_ONCE = 32
"""Requests put into JSON before the engine's thread is let in."""


class RequestGathering:
    """All that is known of every request, request by request."""

    def __init__(self, facts: RequestFacts, *, anew: bool) -> None:
        """``anew``: nobody was told of anything yet."""
        self._facts = facts
        self._anew = anew
        self._to_come = facts.everybody()
        self._left = deque(self._to_come)
        self._gathered: dict[int, dict[str, Any]] = {}

    @property
    def done(self) -> bool:
        return not self._left

    def advance(self) -> None:
        """A few requests more."""
        for _ in range(min(REQUESTS_AT_ONCE, len(self._left))):
            request = self._to_come.pop(self._left.popleft())
            if self._facts.is_known(request):
                self._gathered[request.num] = self._facts.whole(request)

    def awaits(self, num: int) -> bool:
        """It is gathered later, and nobody knows of it: what changes until then need not be told before."""
        return self._anew and num in self._to_come

    def patch(self, changes: Iterable[RequestChange], forgotten: Iterable[int]) -> None:
        """A frame with these went out."""
        for change in changes:
            if change.num in self._to_come:
                continue
            said = {name: getattr(change, name) for name in change.model_fields_set}
            at, table = said.pop("table_at", None), said.pop("table", None)
            fields = self._gathered.setdefault(change.num, {"table_at": 0, "table": []})
            output_at, more = said.pop("output_at", None), said.pop("output_more", None)
            ends_at, ends = said.pop("text_ends_at", None), said.pop("text_ends", None)
            fields.update(said)
            if at is not None:
                fields["table"] = [*fields["table"][:at], *(table or ())]
            if output_at is not None:
                fields["output_text"] = f"{(fields.get('output_text') or '')[:output_at]}{more or ''}"
            if ends_at is not None:
                fields["text_ends_at"], fields["text_ends"] = 0, [*fields.get("text_ends", ())[:ends_at], *(ends or ())]
        for num in forgotten:
            self._gathered.pop(num, None)

    def result(self) -> list[dict[str, Any]]:
        return list(self._gathered.values())


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Blocks of one tier as columns; ``base``: the number of its first block."""

    base: int
    run: Sequence[NDArray[np.generic]]
    """state, owner, refs, fill, tier, group"""
    hashes: NDArray[np.uint64]
    last_use: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class KeyframeSnapshot:
    """Everything at one moment; nothing of it changes any more, so that it can be encoded by any thread."""

    head: Keyframe
    """All but blocks and requests."""
    requests: list[dict[str, Any]]
    parts: list[BlockPart]

    def encode(self) -> EncodedKeyframe:
        """The protocol's line. Lets other threads run between pieces."""
        line = encode(self.head)
        for name, rows in (
            ("blocks", [self._runs(part) for part in self.parts]),
            ("hashes", [_hashes(part) for part in self.parts]),
            ("ages", [_ages(part, self.head.mono) for part in self.parts]),
            ("requests", list(self._requests())),
        ):
            # In strings quotes are escaped, so this can stand for nothing but the field.
            line = line.replace(f'"{name}":[]'.encode(), f'"{name}":['.encode() + b",".join(filter(None, rows)) + b"]")
        return EncodedKeyframe(self.head.seq, line, self.head)

    @staticmethod
    def _runs(part: BlockPart) -> bytes:
        first, counts = run_bounds(None, part.run)
        columns = [first + part.base, counts, *(column[first] for column in part.run)]
        return json_rows([Column(column) for column in columns])

    def _requests(self) -> Iterable[bytes]:
        for start in range(0, len(self.requests), ENCODED_AT_ONCE):
            some = self.requests[start : start + ENCODED_AT_ONCE]
            yield b",".join(encode(RequestChange.trusted(fields)).rstrip() for fields in some)
            time.sleep(0)


def _hashes(part: BlockPart) -> bytes:
    hashed = np.flatnonzero(part.hashes != NO_HASH)
    return json_rows([Column(hashed + part.base), Hashes(part.hashes[hashed])])


def _ages(part: BlockPart, now: float) -> bytes:
    used = np.flatnonzero(~np.isnan(part.last_use))
    if not len(used):
        return b""
    ages = np.round(np.maximum(now - part.last_use[used], 0.0), 3)
    first, counts = run_bounds(used, [ages])
    return json_rows([Column(used[first] + part.base), Column(counts), Seconds(ages[first])])


class KeyframeBuilder:
    """Gathers one keyframe. `patch` with every frame that goes out meanwhile; `work` in between."""

    def __init__(self, facts: RequestFacts, device: ColumnCopy, tiers: TierReport | None, *, anew: bool) -> None:
        self.requests = RequestGathering(facts, anew=anew)
        self._device = device
        self._tiers = tiers
        self._parts: list[ColumnCopy | RequestGathering] = [device, *([] if tiers is None else tiers.start_copies())]
        self._parts.append(self.requests)

    def work(self, seconds: float) -> bool:
        """Goes on for about so long; whether all is gathered."""
        until = time.perf_counter() + seconds
        while (part := next((part for part in self._parts if not part.done), None)) is not None:
            part.advance()
            if time.perf_counter() >= until:
                break
        return all(part.done for part in self._parts)

    def snapshot(self, head: Keyframe) -> KeyframeSnapshot:
        """As of the latest frame, which ``head`` names."""
        state, owner, refs, fill, tier, group, hashes, last_use = self._device.columns
        parts = [BlockPart(0, (state, owner, refs, fill, tier, group), hashes, last_use)]  # type: ignore[arg-type]
        if self._tiers is not None:
            parts += [BlockPart(*part) for part in self._tiers.copied()]
        return KeyframeSnapshot(head, self.requests.result(), parts)
