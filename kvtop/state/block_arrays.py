"""The block pool as arrays, one entry a block, kept up to date from run lengths."""

from collections.abc import Callable, Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from kvtop.protocol import BlockAge, BlockHash, BlockRun
from kvtop.state.changes import NO_BLOCKS, Indices

MAX_BLOCKS = 16 * 1024 * 1024
"""Largest pool a viewer keeps (about 450 MB); what lies beyond is counted as a bad fact."""

_CHUNK = 1 << 20
_MANY = 64
"""Items from which on they are written as arrays."""

_DIGITS = np.full(256, 255, dtype=np.uint8)
"""What a character is worth as a hexadecimal digit."""
for _character in "0123456789abcdefABCDEF":
    _DIGITS[ord(_character)] = int(_character, 16)

_LIMITS = np.iinfo(np.int32).max
_Runs = npt.NDArray[np.int64]

Complain = Callable[[str], None]
"""Takes one sentence about a fact that cannot be true."""


class BlockArrays:
    """All arrays have ``total`` entries. ``touched`` is the engine's monotonic time, NaN where unknown.

    ``states`` is the number of state codes the hello names. The first ``device`` blocks (by default all) are the
    device's, those after them of lower tiers; ``counts[code]``, of the device's blocks, is kept with every change.
    """

    def __init__(self, total: int, states: int, device: int | None = None) -> None:
        self.total = total
        self.device = total if device is None else min(device, total)
        self.states = min(states, 256)
        self.state = np.zeros(total, dtype=np.uint8)
        self.owner = np.full(total, -1, dtype=np.int32)
        self.refs = np.zeros(total, dtype=np.int32)
        self.fill = np.zeros(total, dtype=np.int32)
        self.tier = np.zeros(total, dtype=np.uint8)
        self.group = np.zeros(total, dtype=np.uint8)
        self.touched = np.full(total, np.nan, dtype=np.float64)
        self.counts = np.zeros(256, dtype=np.int64)
        self.counts[0] = self.device
        self._hash: npt.NDArray[np.uint64] | None = None
        self._hashed: npt.NDArray[np.bool_] | None = None

    def apply_runs(self, runs: Sequence[BlockRun], mono: float | None, complain: Complain) -> Indices:
        """Writes the runs in their order (a later one wins) and returns the blocks they named.

        ``mono`` dates them in `touched`; None leaves that alone. Runs that cannot be true are left out.
        """
        if not runs:
            return NO_BLOCKS
        table = self._valid(runs, complain)
        budget = max(16 * self.total, _CHUNK)
        changed: list[Indices] = []
        start = 0
        sizes = np.cumsum(table[:, 1])
        while start < len(table):
            before = int(sizes[start - 1]) if start else 0
            if before > budget:
                complain(f"block runs of one frame cover the pool more than {budget // max(1, self.total)} times")
                break
            stop = max(start + 1, int(np.searchsorted(sizes, before + _CHUNK, side="right")))
            changed.append(self._write(table[start:stop], mono))
            start = stop
        if not changed:
            return NO_BLOCKS
        return changed[0] if len(changed) == 1 else np.unique(np.concatenate(changed))

    def _valid(self, runs: Sequence[BlockRun], complain: Complain) -> _Runs:
        try:
            table = np.array(runs, dtype=np.int64).reshape(-1, 8)
        except OverflowError:
            small = [run for run in runs if all(-1 <= value <= _LIMITS for value in run)]
            complain(f"{len(runs) - len(small)} block runs with numbers beyond 32 bits")
            table = np.array(small, dtype=np.int64).reshape(-1, 8)
        start, count, state, owner, refs, fill, tier, group = table.T
        inside = (start >= 0) & (count >= 1) & (count <= self.total) & (start <= self.total - count)
        sane = (
            ((state >= 0) & (state < self.states) & (owner >= -1) & (owner <= _LIMITS))
            & ((refs >= 0) & (refs <= _LIMITS) & (fill >= 0) & (fill <= _LIMITS))
            & ((tier >= 0) & (tier <= 255) & (group >= 0) & (group <= 255))
        )
        good = inside & sane
        if not good.all():
            if bad := int((~inside).sum()):
                complain(f"{bad} block runs outside the pool of {self.total} blocks")
            if bad := int((inside & ~sane).sum()):
                complain(f"{bad} block runs with a state, owner, count or tier out of range")
            table = table[good]
        return table

    def _write(self, table: _Runs, mono: float | None) -> Indices:
        count = table[:, 1]
        if int(count.max()) == 1:
            index, values = table[:, 0], table
        else:
            ends = np.cumsum(count)
            offsets = np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - count, count)
            index = np.repeat(table[:, 0], count) + offsets
            values = np.repeat(table, count, axis=0)
        unique = index if _ascend(index) else np.unique(index)
        counted = unique if self.device == self.total else unique[: np.searchsorted(unique, self.device)]
        self.counts -= np.bincount(self.state[counted], minlength=256)
        # Where an index occurs twice, numpy assigns the last value: the later run wins.
        for array, column in (
            (self.state, 2),
            (self.owner, 3),
            (self.refs, 4),
            (self.fill, 5),
            (self.tier, 6),
            (self.group, 7),
        ):
            array[index] = values[:, column]
        self.counts += np.bincount(self.state[counted], minlength=256)
        if mono is not None:
            self.touched[unique] = mono
        return unique

    def apply_hashes(self, hashes: Sequence[BlockHash], complain: Complain) -> list[int]:
        """Sets or clears prefix-cache hashes and returns the blocks concerned."""
        if not hashes:
            return []
        if self._hash is None or self._hashed is None:
            self._hash = np.zeros(self.total, dtype=np.uint64)
            self._hashed = np.zeros(self.total, dtype=np.bool_)
        if len(hashes) >= _MANY and (written := self._write_hashes(hashes)) is not None:
            return written
        changed, bad = [], 0
        for block, text in hashes:
            if not 0 <= block < self.total:
                bad += 1
                continue
            if text is None:
                self._hashed[block] = False
            else:
                try:
                    self._hash[block] = _hash_value(text)
                except ValueError:
                    bad += 1
                    continue
                self._hashed[block] = True
            changed.append(block)
        if bad:
            complain(f"{bad} block hashes outside the pool or not 16 hex digits")
        return changed

    def _write_hashes(self, hashes: Sequence[BlockHash]) -> list[int] | None:
        """What many blocks have or lost, in their order, as keyframes tell it; None, and nothing is done, for anything
        else."""
        blocks = list(map(itemgetter(0), hashes))
        known = [each for each in hashes if each[1] is not None]
        texts = list(map(itemgetter(1), known))
        if known and set(map(len, texts)) != {16}:
            return None
        try:
            places = np.array(blocks, dtype=np.int64)
            digits = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8)
        except (OverflowError, UnicodeError):
            return None
        values = _DIGITS[digits.reshape(-1, 16)]
        if places[0] < 0 or places[-1] >= self.total or not _ascend(places) or (values > 15).any():
            return None
        assert self._hash is not None
        assert self._hashed is not None
        if len(known) < len(hashes):
            self._hashed[places] = False
            places = np.array(list(map(itemgetter(0), known)), dtype=np.int64)
        pairs = (values[:, ::2] << 4) | values[:, 1::2]
        self._hash[places] = pairs.view(">u8").reshape(-1)
        self._hashed[places] = True
        return blocks

    def apply_ages(self, ages: Sequence[BlockAge], mono: float, complain: Complain) -> None:
        """``ages`` of a keyframe: seconds before ``mono`` at which blocks were last touched."""
        if len(ages) >= _MANY and self._write_ages(ages, mono):
            return
        bad = covered = 0
        for start, count, age in ages:
            covered += max(0, count)
            if start < 0 or count < 1 or start + count > self.total or age < 0 or covered > 2 * self.total:
                bad += 1
                continue
            self.touched[start : start + count] = mono - age
        if bad:
            complain(f"{bad} block ages outside the pool or negative")

    def _write_ages(self, ages: Sequence[BlockAge], mono: float) -> bool:
        """Many ages, in the order of their blocks; False, and nothing is done, where one cannot be or they overlap."""
        table = np.array(ages, dtype=np.float64)
        start, count, age = table.T
        ends = start + count
        sane = (start >= 0) & (count >= 1) & (ends <= self.total) & (age >= 0)
        if not sane.all() or (start[1:] < ends[:-1]).any():
            return False
        counts = count.astype(np.int64)
        offsets = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        self.touched[np.repeat(start.astype(np.int64), counts) + offsets] = np.repeat(mono - age, counts)
        return True

    def hash_of(self, block: int) -> str | None:
        """The block's prefix-cache hash as 16 hex digits, None when it has none."""
        if self._hash is None or self._hashed is None or not self._hashed[block]:
            return None
        return f"{int(self._hash[block]):016x}"


def _ascend(numbers: npt.NDArray[np.int64]) -> bool:
    """Each is larger than the one before it, as in what engines send: to sort it would cost ten times as much."""
    return bool((numbers[1:] > numbers[:-1]).all())


def _hash_value(text: str) -> int:
    if not 1 <= len(text) <= 16 or not text.isalnum():
        raise ValueError(text)
    return int(text, 16)
