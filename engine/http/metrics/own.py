"""This engine's metrics, with the prefix ``kvtop_``.

What viewers are told too means the same here: it has the description that the protocol's field has.
"""

from collections.abc import Mapping
from typing import get_args

from pydantic import BaseModel

from engine.http.gate import Status
from engine.http.metrics.definitions import Kind, Metric, Moment, Samples, of_reading, only
from engine.serving.histogram import Counted
from engine.serving.meter import COUNTS_BY_POLICY, PARTS, REQUEST_AXES, Reading
from kvtop.protocol import Counters, Gauges, RequestChange, TierLevel

_BY_POLICY = "; by the policies in force"


def _told(message: type[BaseModel], field: str) -> str:
    """What the protocol says that a field means."""
    description = message.model_fields[field].description
    assert description is not None
    return description


def _level(name: str, field: str, panel: str) -> Metric:
    return Metric(
        f"kvtop_{name}", "gauge", _told(Gauges, field), of_reading(lambda r: only(r.gauges[field])), panel=panel
    )


def _total(name: str, field: str, panel: str) -> Metric:
    name, said = f"kvtop_{name}_total", _told(Counters, field)
    if field in COUNTS_BY_POLICY:
        axes = COUNTS_BY_POLICY[field]
        return Metric(
            name, "counter", said + _BY_POLICY, of_reading(lambda r: _divided(r.by_policy[field])), axes, panel
        )
    return Metric(name, "counter", said, of_reading(lambda r: only(r.counters[field])), panel=panel)


def _divided(values: Mapping[tuple[tuple[str, str], ...], float | Counted]) -> Samples:
    return [(tuple(value for _, value in policies), found) for policies, found in values.items()]


def _time(name: str, key: str, said: str, panel: str) -> Metric:
    help_ = f"{said}{_BY_POLICY}"
    return Metric(
        f"kvtop_{name}_seconds", "histogram", help_, of_reading(lambda r: _divided(r.times[key])), REQUEST_AXES, panel
    )


def _size(name: str, key: str, said: str, panel: str) -> Metric:
    return Metric(f"kvtop_{name}", "histogram", said, of_reading(lambda r: only(r.sizes[key])), panel=panel)


def _tier(name: str, kind: Kind, field: str, panel: str, *, per: float = 1.0) -> Metric:
    """``per``: of the field's unit so many are one of the metric's."""

    def read(reading: Reading) -> Samples:
        found = [(level.tier, getattr(level, field)) for level in reading.tiers]
        return [((tier,), value / per) for tier, value in found if value is not None]

    said = _told(TierLevel, field).replace("total of milliseconds", "seconds").removeprefix("total of ")
    return Metric(f"kvtop_{name}", kind, said, of_reading(read), ("tier",), panel)


def _capacity(reading: Reading) -> Samples:
    geometry = reading.hello.geometry
    if geometry.bytes_per_token is None or geometry.block_size is None:
        return ()
    return only(reading.gauges["kv_blocks_total"] * geometry.block_size * geometry.bytes_per_token)


def _engine(reading: Reading) -> Samples:
    engine = reading.hello.engine
    return [((engine.name, engine.run or "", engine.version or ""), 1)]


def _model(reading: Reading) -> Samples:
    model, geometry = reading.hello.model, reading.hello.geometry
    found = (
        model.name,
        model.revision,
        model.weight_dtype,
        reading.policies["kv_dtype"],
        geometry.block_size,
        model.context_tokens,
    )
    return [(tuple("" if each is None else str(each) for each in found), 1)]


def _state(moment: Moment) -> Samples:
    return [((state,), float(state == moment.state)) for state in get_args(Status)]


_REQUESTS = "Requests"
_MEMORY = "KV memory, blocks"
_BYTES = "KV memory, bytes"
_LATENCY = "Request phases"

OWN: tuple[Metric, ...] = (
    Metric(
        "kvtop_engine_state",
        "gauge",
        "1 for what the engine does: starting, serving, draining (it is about to stop), stuck (nobody gets on)",
        _state,
        ("state",),
        "Engine",
    ),
    Metric(
        "kvtop_paused",
        "gauge",
        "1 while the scheduler is paused by command",
        of_reading(lambda r: only(float(r.paused))),
        panel="Engine",
    ),
    Metric(
        "kvtop_engine_info",
        "gauge",
        "1; the engine's name, this run of it, and kvtop's version",
        of_reading(_engine),
        ("name", "run", "version"),
    ),
    Metric(
        "kvtop_model_info",
        "gauge",
        "1; the model, and how its KV is kept",
        of_reading(_model),
        ("model", "revision", "weight_dtype", "kv_dtype", "block_size", "context_tokens"),
    ),
    Metric(
        "kvtop_policy_info",
        "gauge",
        "1 for the value that each policy axis has now",
        of_reading(lambda r: [((axis, value), 1) for axis, value in r.policies.items()]),
        ("axis", "value"),
        "Policies",
    ),
    _level("active_sequences", "running", _REQUESTS),
    _level("waiting_sequences", "waiting", _REQUESTS),
    _level("preempted_sequences", "preempted", _REQUESTS),
    _level("loading_sequences", "loading", _REQUESTS),
    _total("admissions", "admissions", "Admissions and preemptions"),
    _total("preemptions", "preemptions", "Admissions and preemptions"),
    Metric(
        "kvtop_requests_finished_total",
        "counter",
        "requests that ended, by reason: stop, length, abort (by a client, command or policy), error",
        of_reading(lambda r: [((str(reason),), count) for reason, count in r.ended.items()]),
        ("reason",),
        "Requests that ended",
    ),
    Metric("kvtop_kv_capacity_bytes", "gauge", "bytes of all blocks in the pool", of_reading(_capacity), panel=_BYTES),
    _level("kv_bytes_used", "kv_bytes_used", _BYTES),
    _level("kv_blocks_total", "kv_blocks_total", _MEMORY),
    _level("kv_blocks_free", "kv_blocks_free", _MEMORY),
    _level("kv_blocks_cached", "kv_blocks_cached", _MEMORY),
    _level("kv_blocks_active", "kv_blocks_active", _MEMORY),
    _level("kv_blocks_shared", "kv_blocks_shared", _MEMORY),
    _level("kv_blocks_reserved", "kv_blocks_reserved", _MEMORY),
    _level("kv_blocks_pinned", "kv_blocks_pinned", _MEMORY),
    _level("kv_blocks_transfer", "kv_blocks_transfer", _MEMORY),
    _level("live_cached_tokens", "kv_tokens", "KV memory, tokens"),
    _total("evictions", "evictions", "Evictions"),
    _total("prefix_cache_queries", "prefix_query_tokens", "Prefix cache"),
    _total("prefix_cache_hits", "prefix_hit_tokens", "Prefix cache"),
    Metric(
        "kvtop_prompt_tokens_total",
        "counter",
        "tokens of the prompts that have been computed, those found in the prefix cache among them",
        of_reading(lambda r: only(r.prompt_tokens)),
        panel="Tokens",
    ),
    _total("prefill_tokens", "prefill_tokens", "Tokens"),
    _total("decode_tokens", "decode_tokens", "Tokens"),
    _total("recomputed_tokens", "recomputed_tokens", "Tokens"),
    _time(
        "time_to_first_token",
        "first_token",
        f"{_told(RequestChange, 'ttft_s')}, of a beam search once",
        "Time to first token",
    ),
    _time(
        "time_between_tokens",
        "between_tokens",
        "seconds between two tokens of a request, or batches of tokens where it gets several at a time; preemptions included",
        "Time between tokens",
    ),
    _time(
        "time_per_output_token",
        "per_token",
        f"{_told(RequestChange, 'tpot_s')}; of requests that came to their end",
        "Time per output token",
    ),
    _time("request_queue", "queue", f"{_told(RequestChange, 'queue_s')}; of requests that came to their end", _LATENCY),
    _time(
        "request_prefill",
        "prefill",
        f"{_told(RequestChange, 'prefill_s')}; of requests that came to their end",
        _LATENCY,
    ),
    _time(
        "request_decode", "decode", f"{_told(RequestChange, 'decode_s')}; of requests that came to their end", _LATENCY
    ),
    _time(
        "request_end_to_end", "end_to_end", "seconds from arrival to the end, of requests that came to it", "End to end"
    ),
    _size(
        "request_prompt_tokens",
        "prompt",
        "tokens of their prompts, of requests that came to their end",
        "Sizes of requests",
    ),
    _size("request_output_tokens", "output", "output tokens, of requests that came to their end", "Sizes of requests"),
    _size(
        "request_preemptions",
        "preemptions",
        "preemptions, of requests that came to their end",
        "Preemptions of a request",
    ),
    _total("iterations", "iterations", "Iterations"),
    _size("batch_size_by_iteration", "batch", "requests in the batch of an iteration", "Batch size"),
    _size(
        "iteration_tokens",
        "iteration_tokens",
        "tokens computed in prefill and sampled in an iteration",
        "Tokens of an iteration",
    ),
    Metric(
        "kvtop_iteration_seconds_total",
        "counter",
        f"seconds of iterations by part: {', '.join(PARTS)}",
        of_reading(lambda r: [((part,), value) for part, value in r.seconds.items()]),
        ("part",),
        "Where the time goes",
    ),
    _total("ledger_checks", "ledger_checks", "Ledger"),
    _total("ledger_violations", "ledger_violations", "Ledger"),
    _total("host_offload_bytes", "host_offload_bytes", "Offload"),
    _total("disk_offload_bytes", "disk_offload_bytes", "Offload"),
    _total("host_promotions", "host_promotions", "Promotions"),
    _total("disk_promotions", "disk_promotions", "Promotions"),
    _tier("tier_blocks", "gauge", "blocks_total", "Tiers, blocks"),
    _tier("tier_blocks_free", "gauge", "blocks_free", "Tiers, blocks"),
    _tier("tier_blocks_cached", "gauge", "blocks_cached", "Tiers, blocks"),
    _tier("tier_blocks_held", "gauge", "blocks_held", "Tiers, blocks"),
    _tier("tier_blocks_transfer", "gauge", "blocks_transfer", "Tiers, blocks"),
    _tier("tier_in_bytes_total", "counter", "bytes_in", "Tiers, bytes"),
    _tier("tier_out_bytes_total", "counter", "bytes_out", "Tiers, bytes"),
    _tier("tier_hit_tokens_total", "counter", "hit_tokens", "Tiers, prompt tokens"),
    _tier("tier_miss_tokens_total", "counter", "miss_tokens", "Tiers, prompt tokens"),
    _tier("tier_stalls_total", "counter", "stalls", "Tiers, trouble"),
    _tier("tier_stall_seconds_total", "counter", "stall_ms", "Tiers, seconds stalled", per=1000.0),
    _tier("tier_drops_total", "counter", "drops", "Tiers, trouble"),
    _tier("tier_failures_total", "counter", "failures", "Tiers, trouble"),
    Metric(
        "kvtop_http_responses_total",
        "counter",
        "HTTP answers by route, method and status; places that are none are other, and what is no HTTP is not counted",
        lambda m: [((route, method, str(status)), count) for (route, method, status), count in m.responses.items()],
        ("route", "method", "status"),
        "HTTP answers",
    ),
    Metric(
        "kvtop_http_aborts_total",
        "counter",
        "requests whose client went away before the answer ended",
        lambda m: [((route,), count) for route, count in m.aborts.items()],
        ("route",),
        "HTTP aborts",
    ),
    Metric(
        "kvtop_http_requests_active",
        "gauge",
        "completions and chats that are being answered",
        lambda m: only(m.active),
        panel="HTTP now",
    ),
    Metric(
        "kvtop_http_connections", "gauge", "connections of clients", lambda m: only(m.connections), panel="HTTP now"
    ),
    Metric(
        "kvtop_http_tasks",
        "gauge",
        "tasks of the server's event loop, a few for each connection; where they rise and connections do not, answers never end",
        lambda m: only(m.tasks),
        panel="HTTP now",
    ),
)
"""In the order in which they are written and documented."""
