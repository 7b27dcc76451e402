"""Tracks of a trace: one a request with its phases, one for each way between two tiers. Slices follow one another, none overlap."""

from collections.abc import Iterable, Mapping
from typing import Any

from kvtop.protocol import TierTraffic
from kvtop.state import Changes, EngineState, RequestRow
from kvtop.state.lifeline import Phase, runs

Trace = dict[str, Any]
"""An event of the trace."""

MAX_WAYS = 64
"""Ways between tiers that have a track; engines have a handful."""

NAMES = {
    Phase.QUEUED: "waiting",
    Phase.PREEMPTED: "preempted",
    Phase.SWAPPED: "swapped",
    Phase.LOADING: "loading",
    Phase.PREFILL: "prefill",
    Phase.DECODE: "decode",
    Phase.UNKNOWN: "unknown",
    Phase.FOLDED: "several phases",
}

_TOLD = (
    "priority",
    "tier",
    "prompt_tokens",
    "max_tokens",
    "cached_tokens",
    "computed_tokens",
    "output_tokens",
    "blocks",
    "preemptions",
    "recomputed_tokens",
    "finish_reason",
)
"""Fields of a request that its slices tell, as at their ends."""


class RequestTracks:
    """Phases of the requests of one run. Kept of each that has not ended: its phase and when that began."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._open: dict[int, tuple[Phase, int]] = {}

    def track(self, num: int) -> Trace:
        return {"pid": self.pid, "tid": num + 1}

    def is_open(self, num: int) -> bool:
        """Whether a slice of that request goes on."""
        return num in self._open

    def take(self, state: EngineState, changes: Changes, before: int, now: int) -> list[Trace]:
        """What came of requests between two frames, at ``before`` and ``now`` microseconds."""
        found: list[Trace] = []
        table: Mapping[int, RequestRow] = {} if state.requests is None else state.requests
        whole = changes.full or changes.hello
        nums = [*table] if whole else sorted(changes.requests)
        for num in nums:
            row = table.get(num)
            if row is not None and state.mono is not None:
                found += self._follow(row, state.mono, before, now)
        if whole or len(self._open) > len(table):
            for num in [num for num in self._open if num not in table]:
                found.append(self._end(num, now, None))
        return found

    def close_all(self, at: int) -> list[Trace]:
        """Nothing more is told of any."""
        return [self._end(num, max(at, since), None) for num, (_, since) in list(self._open.items())]

    def _follow(self, row: RequestRow, mono: float, before: int, now: int) -> list[Trace]:
        """The phases of its lifeline that are younger than the one that is open."""
        found: list[Trace] = []
        steps: list[tuple[int, Phase]] = []
        for phase, since in runs(row.life):
            at = max(before, min(now, now - round((mono - since) * 1e6)))
            if steps and steps[-1][0] >= at:
                steps.pop()  # over before the frame before, or at once
            steps.append((at, phase))
        for at, phase in steps:
            known = self._open.get(row.num)
            if known is None:
                if phase is not Phase.ENDED:
                    found += [self._named(row, at), self._begin(row, phase, at)]
            elif phase is not known[0] and at >= known[1]:
                found.append(self._end(row.num, at, row))
                if phase is not Phase.ENDED:
                    found.append(self._begin(row, phase, at))
        return found

    def _named(self, row: RequestRow, at: int) -> Trace:
        name = f"{row.name} {row.label}" if row.label else row.name
        return {"name": "thread_name", "ph": "M", "ts": at, "args": {"name": name}} | self.track(row.num)

    def _begin(self, row: RequestRow, phase: Phase, at: int) -> Trace:
        self._open[row.num] = (phase, at)
        told: Trace = {"name": NAMES[phase], "cat": "request", "ph": "B", "ts": at, "args": {"request": row.name}}
        return told | self.track(row.num)

    def _end(self, num: int, at: int, row: RequestRow | None) -> Trace:
        del self._open[num]
        told = {} if row is None else {name: getattr(row, name) for name in _TOLD}
        args = {name: value for name, value in told.items() if value is not None}
        return {"ph": "E", "ts": at, "args": args} | self.track(num)


class TransferTracks:
    """Copies between tiers: what a frame tells of one way is one slice, which ends with the frame."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ways: dict[tuple[str, str], int] = {}

    def take(self, traffic: Iterable[TierTraffic], before: int, now: int) -> list[Trace]:
        """A slice is no longer than the time since the frame before; ``ms`` is what the copies took in all."""
        found: list[Trace] = []
        told: set[tuple[str, str]] = set()
        for moved in traffic:
            way = (moved.source, moved.target)
            if way in told or (way not in self._ways and len(self._ways) >= MAX_WAYS):
                continue
            told.add(way)
            name = f"{moved.source[:32]} → {moved.target[:32]}"
            new = way not in self._ways
            track = {"pid": self.pid, "tid": self._ways.setdefault(way, len(self._ways) + 1)}
            if new:
                found.append({"name": "thread_name", "ph": "M", "ts": before, "args": {"name": name}} | track)
            begun = max(before, now - round(moved.ms * 1000))
            args = {"blocks": moved.blocks, "bytes": moved.bytes, "ms": moved.ms, "stalls": moved.stalls}
            found.append(
                {"name": name, "cat": "tier", "ph": "X", "ts": begun, "dur": now - begun, "args": args} | track
            )
        return found
