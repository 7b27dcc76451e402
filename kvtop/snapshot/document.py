"""What an engine is doing, as one JSON document for the incident review. Fields and units: ``docs/snapshot.md``.

Pure: `kvtop.snapshot.files` writes it. Unknown is null; NaN never occurs; prompts and generated text are left out whatever the engine exposes.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kvtop import __version__
from kvtop.alarms import Report
from kvtop.alarms.report import alarm_document
from kvtop.protocol import ROUTINE_EVENTS, Durations, Event, Hello, TierLevel
from kvtop.state import BlockArrays, EngineState, LogEntry, RequestRow
from kvtop.state.ledger import check
from kvtop.state.tiers import total_name
from kvtop.views.definition import LONG_WINDOW, RATE_WINDOW, SINCE_START
from kvtop.views.numbers import in_file, numbers, sent_as_it_is

SCHEMA = "kvtop.snapshot/1"
EVENTS = 200
"""Latest events a snapshot holds, and as many of those that are not routine."""

PIECE = 1000
"""Entries of a list that are encoded at once."""

UNITS = {number.file: number.measure for number in numbers() if number.file} | {
    "taken": "ISO 8601, UTC, the viewer's clock",
    "started, wall": "Unix seconds, the engine's clock",
    "mono": "seconds of the engine's monotonic clock",
    "*_bytes, bytes_per_token": "bytes",
    "*_blocks, kv_blocks_*": "blocks of geometry.block_size tokens",
    "*_tokens": "tokens",
    "*_s, p50, p95, window": "seconds",
    "*_ms, ms_per_block_*": "milliseconds",
    "counters": SINCE_START,
}
"""Of numbers by their names; then of what their table does not list, by patterns."""

_TOLD_ELSEWHERE = {"iteration", "batch_size_by_iteration", "ledger_violations"}
"""Numbers at the top of the document that are not among its headlines."""


def snapshot_document(state: EngineState, wall: float, now: float, alarms: Report | None = None) -> dict[str, Any]:
    """The snapshot of ``state``; ``wall`` is Unix seconds, ``now`` the viewer's monotonic clock that fed the state.
    ``alarms``: what the watch has found in it.

    ``state`` is only read: any thread may do this with one that stands still (`kvtop.state.freeze.frozen`).
    Raises ValueError where no engine has been heard yet.
    """
    hello = state.hello
    if hello is None or state.mono is None:
        raise ValueError("no engine has been heard yet")
    mono = state.mono_now(now)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "kvtop": __version__,
        "taken": datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "units": UNITS,
        **_identity(hello, state, wall, now),
        **_headline(hello, state),
        "status": None if state.status is None else state.status.model_dump(),
        "verdict": None if state.verdict is None else state.verdict.model_dump(),
        "queue": None if state.queue is None else state.queue.model_dump(),
        "gauges": dict(state.gauges),
        "counters": dict(state.counters),
        "rates": _rates(state, mono),
        "latencies": _latencies(state, mono),
        "tiers": _tiers(state, mono),
        "iteration_ms": _durations(state),
        "ledger_violations": state.counters.get("ledger_violations"),
        "contradictions": check(state),
        "alarms": None if alarms is None else [alarm_document(check, mono) for check in alarms.checks],
        "batch_size_by_iteration": list(state.batches),
        "requests": _requests(state, hello, mono),
        "events": [_event(entry) for entry in chosen_events(list(state.events))],
        "blocks": None if state.blocks is None else _blocks(state, state.blocks),
    }
    cleaned: dict[str, Any] = _finite(document)
    return cleaned


def dumps(document: Mapping[str, Any]) -> str:
    """JSON, ``schema`` first, one line for each field, and for each request, event and run of blocks."""
    return "".join(pieces(document))


def pieces(document: Mapping[str, Any]) -> Iterator[str]:
    """The same bit by bit: a million blocks are fifty megabytes, and no other thread gets its turn while a text of that
    size is made, put into a larger one, or encoded."""
    before = "{\n"
    for name, value in document.items():
        yield f"{before} {json.dumps(name)}: "
        before = ",\n"
        if isinstance(value, list) and value and isinstance(value[0], dict):
            for place, item in enumerate(value):
                yield ",\n  " if place else "[\n  "
                yield from _compact(item)
            yield "\n ]"
        else:
            yield from _compact(value)
    yield "\n}\n" if document else "{\n\n}\n"


# -- the parts of the document ----------------------------------------------------------------------------------


def _identity(hello: Hello, state: EngineState, wall: float, now: float) -> dict[str, Any]:
    """What a fair comparison needs to know."""
    started = hello.engine.started
    return {
        "engine": hello.engine.model_dump()
        | {"uptime_s": None if started is None else max(0.0, wall - started), "protocol": hello.protocol},
        "link": {"up": state.link.up, "reason": state.link.reason, "age_s": state.age(now)},
        "iteration": state.iteration if state.counts_iterations else None,
        "wall": state.wall,
        "mono": state.mono,
        "model": hello.model.model_dump(),
        "precisions": {"weights": hello.model.weight_dtype, "kv_cache": hello.geometry.cache_dtype},
        "memory": None if hello.memory is None else hello.memory.model_dump(),
        "device": hello.device,
        "attention_backend": hello.attention,
        "geometry": hello.geometry.model_dump(),
        "limits": hello.limits,
        "policies": state.policy,
        "policy_id": state.policy_id,
        "policy_axes": [axis.model_dump() for axis in hello.axes],
        "workload": hello.workload,
        "notice": hello.notice,
        "capabilities": hello.capabilities,
    }


def _headline(hello: Hello, state: EngineState) -> dict[str, Any]:
    """The fields that tools look up by name."""
    gauges, counters = state.gauges, state.counters
    geometry = hello.geometry
    on_device = sum(pool.blocks for pool in geometry.pools if pool.tier == "device")
    total = gauges.get("kv_blocks_total", on_device or None)
    block_bytes = None
    if geometry.block_size is not None and geometry.bytes_per_token is not None:
        block_bytes = geometry.block_size * geometry.bytes_per_token
    held = None
    if "kv_blocks_active" in gauges and "kv_blocks_shared" in gauges:
        held = gauges["kv_blocks_active"] + gauges["kv_blocks_shared"]
    used = None if held is None or block_bytes is None else held * block_bytes
    levels: dict[str, dict[str, Any]] = {"gauges": gauges, "counters": counters}
    sent = {number.file: sent_as_it_is(levels, number) for number in in_file() if number.file not in _TOLD_ELSEWHERE}
    return sent | {
        "kv_capacity_bytes": None if total is None or block_bytes is None else total * block_bytes,
        "kv_bytes_used": gauges.get("kv_bytes_used", used),
        "kv_blocks_total": total,
    }


def _rates(state: EngineState, mono: float | None) -> dict[str, Any]:
    rates = state.rates
    return {
        "window": rates.span(mono, RATE_WINDOW),
        "prefill_tokens": rates.per_second("prefill_tokens", mono, RATE_WINDOW),
        "decode_tokens": rates.per_second("decode_tokens", mono, RATE_WINDOW),
        "iterations": rates.per_second("iterations", mono, RATE_WINDOW),
        "preemptions": rates.per_second("preemptions", mono, RATE_WINDOW),
        "evictions": rates.per_second("evictions", mono, RATE_WINDOW),
        "prefix_hit_share": rates.hit_rate(mono, RATE_WINDOW),
        "prefix_hit_share_since_start": rates.hit_rate_lifetime(),
    }


def _latencies(state: EngineState, mono: float | None) -> dict[str, Any]:
    """Nearest-rank percentiles over the requests that got their first token (ttft) or finished (tpot) in the window."""
    found: dict[str, Any] = {"window": LONG_WINDOW}
    for name, latencies in (("ttft", state.ttft), ("tpot", state.tpot)):
        summary = latencies.summary(mono, LONG_WINDOW)
        none = 0 if state.requests is not None else None
        found[name] = {"p50": None, "p95": None, "n": none} if summary is None else summary._asdict()
    return found


def _tiers(state: EngineState, mono: float | None) -> list[dict[str, Any]] | None:
    """Levels and totals as the engine sent them, with their rates; None where it exposes no tiers."""
    if not state.tiers:
        return None
    rates = state.tier_rates

    def rate(level: TierLevel, total: str, window: float) -> float | None:
        return rates.per_second(total_name(level, total), mono, window)

    found = []
    for level in state.tiers:
        hits, misses = (rate(level, name, LONG_WINDOW) for name in ("hit_tokens", "miss_tokens"))
        looked_up = None if hits is None or misses is None else hits + misses
        found.append(
            level.model_dump()
            | {
                "window": rates.span(mono, RATE_WINDOW),
                "bytes_in_per_s": rate(level, "bytes_in", RATE_WINDOW),
                "bytes_out_per_s": rate(level, "bytes_out", RATE_WINDOW),
                "hit_window": rates.span(mono, LONG_WINDOW),
                "hit_share": None if hits is None or not looked_up else hits / looked_up,
            }
        )
    return found


def _durations(state: EngineState) -> dict[str, Any] | None:
    """Mean milliseconds of an iteration by part, over the iterations seen; None where none was, or the engine times none."""
    iterations = sum(timing.iterations for timing in state.durations)
    known = [(name, value) for timing in state.durations for name, value in timing.durations if value is not None]
    totals: dict[str, float | None] = dict.fromkeys(Durations.model_fields)
    for name, value in known:
        totals[name] = (totals[name] or 0.0) + value
    if not iterations or not any(totals.values()):
        return None
    means = {f"{name}_ms": None if total is None else total / iterations for name, total in totals.items()}
    return {"iterations": iterations} | means


_RENAMED: dict[str, str] = {
    "prompt_tokens": "input_tokens",
    "max_tokens": "max_output_tokens",
    "ttft_s": "ttft",
    "tpot_s": "tpot",
    "lost_s": "lost_time",
}
PROTOCOL_NAMES = {theirs: name for name, theirs in _RENAMED.items()}
"""What the protocol calls the fields of a request that have another name here."""

_NOT_COPIED = {
    "blocks",
    "table",
    "life",
    "stamp",
    "words",
    "phase_since",
    "queue_s",
    "prefill_s",
    "decode_s",
    "prompt_text",
    "output_text",
    "text_ends",
}


def _requests(state: EngineState, hello: Hello, mono: float | None) -> list[dict[str, Any]] | None:
    if state.requests is None:
        return None
    return [_request(row, hello, mono) for row in sorted(state.requests.values(), key=lambda row: row.num)]


def _request(row: RequestRow, hello: Hello, mono: float | None) -> dict[str, Any]:
    copied = {_RENAMED.get(f.name, f.name): getattr(row, f.name) for f in fields(row) if f.name not in _NOT_COPIED}
    return copied | {
        # One pool has one precision, so what holds for the engine holds for each of its requests.
        "cache_dtype": row.cache_dtype or hello.geometry.cache_dtype,
        "attention_mode": row.attention_mode or hello.attention,
        "allocated_blocks": row.block_count,
        "queue_time": row.queue_time(mono),
        "prefill_time": row.prefill_time(mono),
        "decode_time": row.decode_time(mono),
        "block_table": row.table,
    }


def chosen_events(events: list[LogEntry]) -> list[LogEntry]:
    """The latest `EVENTS`, and before them the latest `EVENTS` of those kinds that a busy engine would crowd out."""
    older, latest = events[:-EVENTS], events[-EVENTS:]
    return [entry for entry in older if entry.kind not in ROUTINE_EVENTS][-EVENTS:] + latest


def _event(entry: LogEntry) -> dict[str, Any]:
    """Only what applies to its kind."""
    if isinstance(entry, Event):
        return entry.model_dump(exclude_none=True)
    return {
        "kind": entry.kind,
        "wall": entry.wall,
        "iteration": entry.iteration,
        "severity": entry.severity,
        "detail": entry.text,
        "written_by": "viewer",
    }


def _blocks(state: EngineState, blocks: BlockArrays) -> dict[str, Any]:
    return {
        "total": blocks.total,
        "by_state": state.counts(),
        "tiers": [{"tier": name, "first": span.start, "blocks": len(span)} for name, span in state.tier_spans()],
        "states": state.state_names(),
        "run_fields": ["start", "count", "state", "owner", "refs", "fill", "tier", "group"],
        "runs": BlockRuns(blocks),
    }


class BlockRuns(Sequence[list[int]]):
    """Lists of ``start, count, state, owner, refs, fill, tier, group``, as in a keyframe, each made when it is asked for.

    A fragmented pool has as many runs as blocks: as lists they would take hundreds of megabytes, and the collector's time.
    """

    def __init__(self, blocks: BlockArrays) -> None:
        self._columns: list[npt.NDArray[Any]] = [
            *(blocks.state, blocks.owner, blocks.refs, blocks.fill, blocks.tier, blocks.group)
        ]
        differs = np.zeros(max(0, blocks.total - 1), dtype=np.bool_)
        for column in self._columns:
            differs |= column[1:] != column[:-1]
        first = [0] if blocks.total else []
        self._starts = np.concatenate((np.array(first, dtype=np.int64), np.flatnonzero(differs) + 1))
        self._counts = np.diff(np.append(self._starts, blocks.total))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, place: int) -> list[int]: ...

    @overload
    def __getitem__(self, place: slice) -> list[list[int]]: ...

    def __getitem__(self, place: int | slice) -> list[int] | list[list[int]]:
        starts, counts = self._starts[place], self._counts[place]
        runs: list[int] | list[list[int]] = np.stack(
            [starts, counts, *(column[starts].astype(np.int64) for column in self._columns)], axis=-1
        ).tolist()
        return runs


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _compact(value: Any) -> Iterator[str]:
    """One line. Long lists come in pieces; the encoder gives no other thread its turn while it works on one."""
    if isinstance(value, dict):
        yield "{"
        for place, (name, item) in enumerate(value.items()):
            yield f"{', ' if place else ''}{json.dumps(name)}: "
            yield from _compact(item)
        yield "}"
    elif isinstance(value, BlockRuns) or (isinstance(value, list) and len(value) > PIECE):
        yield "["
        for at in range(0, len(value), PIECE):
            piece = json.dumps(value[at : at + PIECE], allow_nan=False, separators=(", ", ": "))
            yield f"{', ' if at else ''}{piece[1:-1]}"
        yield "]"
    else:
        yield json.dumps(value, allow_nan=False, separators=(", ", ": "))
