"""Frames of some seconds merged into one, so that whoever goes to a moment need not read each of them."""

from kvtop.protocol.codec import AnyFrame, encode
from kvtop.protocol.frames import BlockHash, BlockRun, IterationFrame
from kvtop.protocol.merge import merge_frames

DIGEST_S = 8.0
"""Seconds that one digest tells of."""

MAX_ITEMS = 200_000
"""Block runs and hashes in one; what changes faster than that is read frame by frame."""


class Digest:
    """Take every line's frame, and `close` with every chunk."""

    def __init__(self) -> None:
        self._merged: IterationFrame | None = None
        self._new: list[IterationFrame] = []
        self._began = 0.0

    def take(self, frame: AnyFrame | None, now: float) -> None:
        """``now``: monotonic seconds. Other lines than iterations are not merged: what is to be told begins behind them."""
        if not isinstance(frame, IterationFrame):
            self._merged, self._new = None, []
            return
        if self._merged is None and not self._new:
            self._began = now
        self._new.append(frame)

    def close(self, now: float) -> tuple[int, bytes] | None:
        """A chunk ends. Where it is time for one, the seq that the digest builds on and its line."""
        if not self._new:
            return None
        frames = [*([] if self._merged is None else [self._merged]), *self._new]
        merged = merge_frames(frames)
        merged = self._merged = merged.model_copy(
            update={"blocks": _last(merged.blocks), "hashes": _last_hashes(merged)}
        )
        self._new = []
        if len(merged.blocks) + len(merged.hashes) > MAX_ITEMS:
            self._merged = None
            return None
        if now - self._began < DIGEST_S:
            return None
        self._merged = None
        return merged.seq - merged.merged, encode(merged)


def _last(runs: list[BlockRun]) -> list[BlockRun]:
    """The same, each block once and in order: a block that is written to is told of in every frame."""
    blocks: dict[int, tuple[int, ...]] = {}
    for start, count, *what in runs:
        told = tuple(what)
        for block in range(start, start + min(count, MAX_ITEMS)):
            blocks[block] = told
        if len(blocks) > MAX_ITEMS:
            return runs
    joined: list[BlockRun] = []
    first, count, before = 0, 0, None
    for block in sorted(blocks):
        told = blocks[block]
        if told == before and block == first + count:
            count += 1
            continue
        if before is not None:
            joined.append((first, count, *before))  # type: ignore[arg-type]
        first, count, before = block, 1, told
    if before is not None:
        joined.append((first, count, *before))  # type: ignore[arg-type]
    return joined


def _last_hashes(frame: IterationFrame) -> list[BlockHash]:
    return sorted(dict(frame.hashes).items())
