"""The same facts under vLLM's names, labels and bounds, for dashboards that exist. What vLLM has and this engine has not is
left out.

Phases are this engine's: the time for which a request was preempted is time in the queue, which vLLM counts as decode.
"""

from collections.abc import Callable, Mapping
from functools import reduce

from engine.http.metrics.definitions import Kind, Metric, Moment, Samples
from engine.serving.histogram import Counted
from engine.serving.meter import ByPolicy, Reading

_FIRST_TOKEN_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_TOKEN_S = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0,
    7680.0,
)  # fmt: skip
_PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)


def _metric(
    name: str, kind: Kind, help_: str, read: Callable[[Reading], Samples], labels: tuple[str, ...] = ()
) -> Metric:
    def found(moment: Moment) -> Samples:
        if moment.reading is None:
            return ()
        own = ("0", moment.names[0] if moment.names else moment.reading.hello.model.name)
        return [((*own, *values), value) for values, value in read(moment.reading)]

    return Metric(f"vllm:{name}", kind, help_, found, ("engine", "model_name", *labels))


def _one(name: str, kind: Kind, help_: str, value: Callable[[Reading], float]) -> Metric:
    return _metric(name, kind, help_, lambda r: [((), value(r))])


def _together(found: Mapping[ByPolicy, Counted]) -> Counted:
    return reduce(Counted.joined, found.values())


def _time(name: str, key: str, bounds: tuple[float, ...], help_: str) -> Metric:
    return _metric(name, "histogram", help_, lambda r: [((), _together(r.times[key]).within(bounds))])


def _size(name: str, key: str, help_: str, bounds: tuple[float, ...] | None = None) -> Metric:
    def read(reading: Reading) -> Samples:
        sizes = reading.sizes[key]
        return [((), sizes if bounds is None else sizes.within(bounds))]

    return _metric(name, "histogram", help_, read)


def _usage(reading: Reading) -> float:
    gauges = reading.gauges
    return 1.0 - (gauges["kv_blocks_free"] + gauges["kv_blocks_cached"]) / max(1, gauges["kv_blocks_total"])


def _cached_by_source(reading: Reading) -> Samples:
    if not reading.tiers:
        return [(("device",), reading.counters["prefix_hit_tokens"])]
    return [((level.tier,), level.hit_tokens) for level in reading.tiers if level.hit_tokens is not None]


_CACHE_LABELS = ("block_size", "cache_dtype", "enable_prefix_caching", "num_gpu_blocks")


def _cache_config(reading: Reading) -> Samples:
    policies, blocks = reading.policies, reading.gauges["kv_blocks_total"]
    size = reading.hello.geometry.block_size
    return [((str(size), policies["kv_dtype"], str(policies["prefix_cache"] == "on"), str(blocks)), 1)]


def _http(moment: Moment) -> Samples:
    grouped: dict[tuple[str, ...], float] = {}
    for (route, method, status), count in moment.responses.items():
        labels = (route, method, f"{status // 100}xx")
        grouped[labels] = grouped.get(labels, 0) + count
    return list(grouped.items())


VLLM: tuple[Metric, ...] = (
    _one("num_requests_running", "gauge", "Requests in prefill or decode.", lambda r: r.gauges["running"]),
    _one(
        "num_requests_waiting",
        "gauge",
        "Requests in the queue, and those whose KV is being copied to the device.",
        lambda r: r.gauges["waiting"] + r.gauges["loading"],
    ),
    _metric(
        "num_requests_waiting_by_reason",
        "gauge",
        "The same by reason: capacity, for room; deferred, for their KV.",
        lambda r: [(("capacity",), r.gauges["waiting"]), (("deferred",), r.gauges["loading"])],
        ("reason",),
    ),
    _one("kv_cache_usage_perc", "gauge", "Share of the blocks that nobody else can have; 1 is all.", _usage),
    _one(
        "prefix_cache_queries_total",
        "counter",
        "Prompt tokens looked up in the prefix cache.",
        lambda r: r.counters["prefix_query_tokens"],
    ),
    _one(
        "prefix_cache_hits_total",
        "counter",
        "Of those looked up, the prompt tokens found.",
        lambda r: r.counters["prefix_hit_tokens"],
    ),
    _one("num_preemptions_total", "counter", "Preemptions.", lambda r: r.counters["preemptions"]),
    _one(
        "prompt_tokens_total",
        "counter",
        "Tokens of the prompts that have been computed, cached ones among them.",
        lambda r: r.prompt_tokens,
    ),
    _one(
        "prompt_tokens_cached_total",
        "counter",
        "Prompt tokens found in the prefix cache.",
        lambda r: r.counters["prefix_hit_tokens"],
    ),
    _metric(
        "prompt_tokens_cached_by_source_total",
        "counter",
        "The same by the tier that had them.",
        _cached_by_source,
        ("source",),
    ),
    _one("generation_tokens_total", "counter", "Output tokens sampled.", lambda r: r.counters["decode_tokens"]),
    _metric(
        "request_success_total",
        "counter",
        "Requests that ended, by reason.",
        lambda r: [((str(reason),), count) for reason, count in r.ended.items()],
        ("finished_reason",),
    ),
    _size("request_prompt_tokens", "prompt", "Prompt tokens of a request."),
    _size("request_generation_tokens", "output", "Output tokens of a request."),
    _size("iteration_tokens_total", "iteration_tokens", "Tokens computed in prefill and sampled in an iteration."),
    _size("request_params_n", "samples", "Outputs that were asked for together."),
    _size("request_params_max_tokens", "max_tokens", "Output tokens that a request could have."),
    _size("request_max_num_generation_tokens", "max_tokens", "Output tokens that a request could have."),
    _size("request_num_preemptions", "preemptions", "Preemptions of a request.", _PREEMPTIONS),
    _size(
        "request_prefill_kv_computed_tokens",
        "computed",
        "Prompt tokens of a request that its latest admission did not find in the prefix cache.",
    ),
    _time("time_to_first_token_seconds", "first_token", _FIRST_TOKEN_S, "Seconds from arrival to the first token."),
    _time("inter_token_latency_seconds", "between_tokens", _TOKEN_S, "Seconds between two tokens of a request."),
    _time(
        "request_time_per_output_token_seconds", "per_token", _TOKEN_S, "Mean seconds between the tokens of a request."
    ),
    _time("e2e_request_latency_seconds", "end_to_end", _REQUEST_S, "Seconds from arrival to the end."),
    _time("request_queue_time_seconds", "queue", _REQUEST_S, "Seconds waiting, preemptions included."),
    _time("request_inference_time_seconds", "inference", _REQUEST_S, "Seconds running."),
    _time("request_prefill_time_seconds", "prefill", _REQUEST_S, "Seconds in prefill."),
    _time("request_decode_time_seconds", "decode", _REQUEST_S, "Seconds in decode."),
    _metric("cache_config_info", "gauge", "1; how the KV cache is cut up.", _cache_config, _CACHE_LABELS),
    Metric(
        "http_requests_total",
        "counter",
        "HTTP answers by place, method and kind of status.",
        _http,
        ("handler", "method", "status"),
    ),
)
