"""What a number of the table is now, in words: the one under its definition when somebody asks what it means."""

from collections.abc import Callable

from kvtop.state import EngineState, RequestRow, Summary
from kvtop.views.block_states import used
from kvtop.views.definition import LAST_5_S, LAST_60_S, Number
from kvtop.views.exposure import not_exposed
from kvtop.views.format import UNKNOWN, called, count, percent, rate, seconds, serial, size
from kvtop.views.limit import batch_text, spent
from kvtop.views.tiers import figures_of, kept_below

NO_REQUEST = "select a request to see it"


def present(number: Number, state: EngineState, now: float, selected: RequestRow | None) -> str:
    """Its value as the screen shows it, ``–`` where it is unknown. ``selected``: the request whose numbers are asked for;
    ``now``: the viewer's monotonic clock."""
    if state.seq is None:
        return UNKNOWN
    mono = state.mono_now(now)
    part, _, field = number.sources[0].partition(".")
    if number.name in _OWN:
        return _OWN[number.name](state, mono)
    if of_a_request(number):
        if state.requests is None:
            return not_exposed(state, "requests")
        return NO_REQUEST if selected is None else _of_request(number, selected, mono)
    if part == "tiers":
        return figures_of(state, now, *_TITLES.get(number.name, (number.name,))) or UNKNOWN
    if part == "durations":
        times = spent(state)
        return " / ".join(seconds(times[s.partition(".")[2]] / 1000) for s in number.sources) if times else UNKNOWN
    if number.window == LAST_5_S:
        return rate(state.rates.per_second(field, mono))
    if number.window == LAST_60_S:
        return rate(state.rates.per_minute(field, mono))
    return count((state.gauges if part == "gauges" else state.counters).get(field))


def of_a_request(number: Number) -> bool:
    """Whether it is one of each request, and not of the engine."""
    return number.sources[0].startswith("requests.") and number.name not in _OWN


def _of_request(number: Number, row: RequestRow, mono: float | None) -> str:
    match number.name:
        case "wait":
            return seconds(row.queue_time(mono))
        case "prefill, decode":
            return f"{seconds(row.prefill_time(mono))} / {seconds(row.decode_time(mono))}"
        case "lost":
            return seconds(row.lost_s)
        case "score":
            return UNKNOWN if row.score is None else f"{row.score:.3f}"
        case "blocks":
            return count(row.block_count)
    value: float | None = getattr(row, number.sources[0].partition(".")[2])
    return count(value)


def _memory(state: EngineState, _mono: float | None) -> str:
    memory = state.hello.memory if state.hello is not None else None
    if memory is None:
        return not_exposed(state, "memory")
    parts = (memory.weights_bytes, memory.runtime_bytes, memory.kv_bytes, memory.headroom_bytes)
    return f"{' + '.join(map(size, parts))} of {size(memory.total_bytes)}"


def _used(state: EngineState, _mono: float | None) -> str:
    counts = state.counts()
    if counts is not None and state.blocks is not None and state.blocks.device:
        held, total = used(counts), state.blocks.device
    else:
        parts = [state.gauges.get(f"kv_blocks_{name}") for name in ("active", "shared")]
        known, whole = [int(part) for part in parts if part is not None], state.gauges.get("kv_blocks_total")
        if not known or not whole:
            return UNKNOWN
        held, total = sum(known), int(whole)
    return f"{count(held)} of {count(total)}, {percent(held / total)}"


def _hit(state: EngineState, mono: float | None) -> str:
    return f"{percent(state.rates.hit_rate(mono))}; ever {percent(state.rates.hit_rate_lifetime())}"


def _latency(summary: Summary | None) -> str:
    return UNKNOWN if summary is None else f"{seconds(summary.p50)} / {seconds(summary.p95)}, n={count(summary.n)}"


def _most(state: EngineState, _mono: float | None) -> str:
    first = state.requests.holders(1) if state.requests is not None else []
    return f"{count(first[0].block_count)} of {called(first[0].name)}" if first else UNKNOWN


def _oldest(state: EngineState, mono: float | None) -> str:
    return UNKNOWN if state.requests is None or mono is None else seconds(state.requests.longest_wait(mono))


def _together(state: EngineState, _mono: float | None) -> str:
    known = [state.gauges.get(f"kv_blocks_{name}") for name in ("active", "shared", "reserved", "total")]
    if any(value is None for value in known) or not known[-1]:
        return UNKNOWN
    *parts, total = [value for value in known if value is not None]
    return percent(sum(parts) / total)


def _iteration(state: EngineState, _mono: float | None) -> str:
    return serial(state.iteration) if state.counts_iterations else UNKNOWN


_OWN: dict[str, Callable[[EngineState, float | None], str]] = {
    "KV used": _used,
    "weights + runtime + KV + headroom": _memory,
    "hit": _hit,
    "ttft": lambda state, mono: _latency(state.ttft.summary(mono)),
    "tpot": lambda state, mono: _latency(state.tpot.summary(mono)),
    "batch": lambda state, _mono: batch_text(state).removeprefix("batch ").removesuffix(" tokens") or UNKNOWN,
    "batch, decode, prefill": lambda state, _mono: batch_text(state).removeprefix("batch ") or UNKNOWN,
    "together": _together,
    "p50, p90, p99, n": lambda state, mono: _latency(state.ttft.summary(mono)),
    "queue": lambda state, mono: _latency(state.latencies.queue.summary(mono)),
    "latency": lambda state, mono: _latency(state.latencies.latency.summary(mono)),
    "most blocks": _most,
    "oldest": _oldest,
    "iteration": _iteration,
    "kept below the device's": lambda state, _mono: kept_below(state) or UNKNOWN,
}
"""Numbers that are more than one fact."""

_TITLES = {"in, out": ("in", "out"), "hit, in the tiers": ("hit",)}
"""Numbers that the table of tiers calls otherwise."""
