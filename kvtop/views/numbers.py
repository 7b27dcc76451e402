"""Every number's one definition: what it means, its unit, over which time it is taken, and which facts it comes from.

The help on the screen, ``docs/keys.md``, the tables of ``docs/snapshot.md`` and the snapshot's headline fields and units are
made of this table. A number that engines send as it is shown is defined where it is sent, in `kvtop.protocol.frames`, and
only named here: its ``sources`` is that one field, and its meaning is the field's.
"""

from collections.abc import Iterator
from typing import Any

from kvtop.protocol import Counters, Durations, Gauges, MemoryFacts, TierLevel
from kvtop.views.definition import (
    LAST_5_S,
    LAST_60_S,
    OVER_60_S,
    RATE_WINDOW,
    SINCE_START,
    Number,
    Section,
    Term,
    unit_of,
)
from kvtop.views.lifeline import LOOKS, window_text
from kvtop.views.request_fields import FIELDS
from kvtop.views.scheduling_numbers import LATENCY, POLICIES, SCHEDULER

__all__ = [
    "EVENTS",
    "HEADER",
    "IN_FILES",
    "LATENCY",
    "MAP",
    "POLICIES",
    "REQUESTS",
    "SCHEDULER",
    "SECTIONS",
    "TIERS",
    "in_file",
    "numbers",
]


def _since_start(name: str, source: str, unit: str, file: str = "") -> Number:
    return Number(name, unit, (source,), window=SINCE_START, file=file)


def _blocks(name: str, file: str = "") -> Number:
    return Number(name, "blocks", (f"gauges.kv_blocks_{name}",), file=file)


HEADER = Section(
    "Header and capacity",
    (
        Number("prefill", "tokens/s", ("counters.prefill_tokens",), window=LAST_5_S, file="rates.prefill_tokens"),
        Number("decode", "tokens/s", ("counters.decode_tokens",), window=LAST_5_S, file="rates.decode_tokens"),
        Term("(5s), (60s)", "over how long a rate is taken; less where less has been seen"),
        Number(
            "KV used",
            "blocks, and share of the pool",
            ("gauges.kv_blocks_active", "gauges.kv_blocks_shared"),
            "blocks in at least one block table, active and shared; pinned, copying and transfer ones, which nobody else can "
            "have either, are told beside it, and turn it red with them",
        ),
        Term(
            "2m KV, queue, tok/s, pre/min",
            "lines of the last minutes, as many as named: KV used from 0 to 100 % and requests waiting, the most of each step; "
            "output tokens a second and preemptions a minute, the mean of each. Behind a line stands what its height is; a "
            "line on the ground is 0, a blank is unknown: not seen, or not exposed",
        ),
        _blocks("free", "kv_blocks_free"),
        _blocks("cached"),
        _blocks("active"),
        _blocks("shared"),
        _blocks("reserved"),
        _blocks("pinned"),
        _blocks("transfer"),
        Number(
            "weights + runtime + KV + headroom",
            "bytes",
            tuple(f"memory.{name}" for name in MemoryFacts.model_fields if name.endswith("_bytes")),
            "what the engine takes of the memory there is, and leaves of it; with the host tier and what others take, where "
            "there is some (wide screens; the end of this help has each)",
            "when the engine started",
        ),
        Number(
            "hit",
            "share",
            ("counters.prefix_hit_tokens", "counters.prefix_query_tokens"),
            "of the prompt tokens looked up in the prefix cache, those found",
            f"{OVER_60_S}; (ever): {SINCE_START}",
        ),
        Number(
            "ttft",
            "seconds",
            ("requests.ttft_s",),
            "time to first token, from a request's arrival to its first output token: p50 and p95 of n requests",
            f"those that got it in the {OVER_60_S}",
            "latencies.ttft",
        ),
        Number(
            "tpot",
            "seconds",
            ("requests.tpot_s",),
            "time per output token after the first, (last - first) / (tokens - 1): p50 and p95 of n requests",
            f"those that finished in the {OVER_60_S}",
            "latencies.tpot",
        ),
        Number("preempt/min", "preemptions a minute", ("counters.preemptions",), window=LAST_60_S),
        Number("evict/min", "blocks a minute", ("counters.evictions",), window=LAST_60_S),
        Number(
            "schedule",
            "milliseconds",
            ("durations.schedule",),
            window="mean of the latest iterations, as many as named",
            file="iteration_ms.schedule_ms",
        ),
        Number(
            "forward",
            "milliseconds",
            ("durations.forward",),
            window="mean of the latest iterations, as many as named",
            file="iteration_ms.forward_ms",
        ),
        Number(
            "prepare, sample, transfer wait, publish, ledger",
            "milliseconds",
            tuple(f"durations.{name}" for name in ("prepare", "sample", "transfer_wait", "publish", "ledger")),
            "the other parts of an iteration: laying out the batch, choosing tokens, waiting for copies between tiers, "
            "building the frame for viewers, checking the books",
            "mean of the latest iterations, as many as named",
        ),
        Number(
            "batch",
            "tokens",
            ("batch.prefill_tokens", "batch.decode_tokens", "batch.token_budget"),
            "computed in an iteration, for prefill and decode, of those it may compute at most",
            "latest frame",
        ),
        Term(
            "limit",
            "beside the queue's title: what there is not enough of. KV blocks, compute or a rule, as the verdict on the "
            "queue's head says; where nothing waits, what most of an iteration's time goes to",
        ),
        Term("NOT ADDING UP", "blocks by state, gauges and pool contradict each other, by this viewer's own count"),
        Term(
            "CLOCK JUMPED",
            "for a minute after the engine's time of day, or the clock that dates waits and rates, went back or leapt at once "
            "(set, or its host slept); waits stay as long as they were, and what is taken over a time begins anew",
        ),
        Number("iteration", "iterations", ("counters.iterations",), window=SINCE_START, file="iteration"),
        Number("it/s", "iterations/s", ("counters.iterations",), window=LAST_5_S, file="rates.iterations"),
        Term(
            "nothing wrong: 7 of 8 checks, 7 of 8 checks fine",
            "no alarm fires, and so many of the kinds of trouble could be checked; the page of alarms says which not, and why",
        ),
        Term(
            "! ALARM",
            "what fires, the worst first, for how long, and how many more; the page of alarms has evidence, victim and what to "
            "try. It is over when it has not been so for a while, each alarm its own",
        ),
        Term(
            "STUCK",
            "the engine's watchdog: work waits and nothing comes of it, for how long, and which way of standing still it is",
        ),
        Term(
            "live, stale",
            "stale: time since the last frame came, by this machine's clock, once it is over 2 s and the engine is neither "
            "idle nor paused",
        ),
        Number(
            "most blocks",
            "blocks, and share of the pool",
            ("requests.blocks",),
            "who holds most: letter on the map, request, blocks in its table; shared blocks count for each",
        ),
    ),
)

MAP = Section(
    "Block map",
    (
        Term("cell", "one block, or the blocks the title says; a cell of several shows what most of them are"),
        Term("fill", "tokens written to the block, of the tokens it can hold"),
        Term(
            "held slots written",
            "of the tokens that blocks in block tables have room for, those written; of a shared block once (device; a large "
            "pool is looked at once a second, or every few seconds)",
        ),
        Term(
            "unwritten in last blocks, tail",
            "tokens that the last blocks of all block tables have room for beyond what is written, and their share of the "
            "slots held: what paging wastes",
        ),
        Term(
            "longest run",
            "of the blocks that are free or cached, the most with consecutive numbers. Paging needs no such runs: a request "
            "takes blocks wherever they are, so this tells how scattered they lie and limits nothing",
        ),
        Term(
            "in flight",
            "blocks being copied between tiers now. Of the device's, those in a block table are being read in for it; of the "
            "others nothing tells whether they go out or come ahead of need. A lower tier tells for whom it holds one",
        ),
        Term(
            "family",
            "requests whose block tables begin with the same block, or with blocks of the same hash: they share a prefix. "
            "Unknown where a table has given its first block up, and of cached blocks, whose hash does not tell where its "
            "prefix began",
        ),
        Term("refs", "block tables that hold the block"),
        Term("hash", "its key in the prefix cache; a block with a hash outlives its owner"),
        Term("age", "time since the block was last allocated, written, shared or released"),
        Term("text", "in a request's block table, with --expose-text alone: what the tokens in the block say"),
        Term("logical", "place of the block in its owner's block table: tokens logical x block size and on"),
    ),
)

REQUESTS = Section(
    "Requests and queue",
    (
        Term(
            "state",
            "waiting, prefill, decode, preempted (waits again), done and why; swap host, swap disk: waits, its KV kept in that "
            "tier; loading: its KV is coming back",
        ),
        Number("pri", "rank", ("requests.priority",), file="requests.priority"),
        Number("prompt", "tokens", ("requests.prompt_tokens",), file="requests.input_tokens"),
        Number("cached", "tokens", ("requests.cached_tokens",), file="requests.cached_tokens"),
        Number(
            "computed",
            "tokens",
            ("requests.computed_tokens",),
            file="requests.computed_tokens",
            beside="during prefill /n: of so many, the prompt and after a preemption its outputs so far",
        ),
        Number(
            "output",
            "tokens",
            ("requests.output_tokens",),
            file="requests.output_tokens",
            beside="of the most it may produce",
        ),
        Number(
            "blocks",
            "blocks",
            ("requests.blocks",),
            file="requests.allocated_blocks",
            beside="+n: reserved, n p: pinned",
        ),
        Number(
            "wait",
            "seconds",
            ("requests.queue_s",),
            "waiting for admission, after preemptions too, swapped and loading included, and the running wait",
            file="requests.queue_time",
        ),
        Number(
            "prefill, decode",
            "seconds",
            ("requests.prefill_s", "requests.decode_s"),
            "in that phase, the running phase included",
        ),
        Number("pre", "times", ("requests.preemptions",), file="requests.preemptions"),
        Number("recomp", "tokens", ("requests.recomputed_tokens",), file="requests.recomputed_tokens"),
        Number("lost", "seconds", ("requests.lost_s",), file="requests.lost_time"),
        Term(
            window_text(),
            "its life so far, 6 s a cell, the newest at the right: "
            + ", ".join(f"{look.glyph} {look.meaning}" for look in LOOKS.values())
            + "; a cell shows what took most of it, but a preemption in any case, and nothing before it arrived and after it "
            "ended. What happened between frames that were merged or missing is told by the times that ended, where they say "
            "it",
        ),
        Term("end", "why it ended: stop, length, abort, error"),
        Term("sample", 'of several outputs of one prompt, which this is: 2/4; with "beam", of a beam search'),
        Number(
            "score",
            "log-probability",
            ("requests.score",),
            file="requests.score",
            beside="the nearer to 0, the likelier",
        ),
        Term("label", "workload class or tenant"),
        Term(
            "filter",
            "words side by side must all hold, | stands between alternatives, ! before what must not hold. A text is looked for "
            'in id, class and state; in quotes it may hold blanks and signs ("a b"). Numbers are compared with > >= < <= = '
            "(4k is 4000; 500ms, 5s, 2m, 1h), texts with : (one of several: state:waiting,prefill) or ~ (contains). What is "
            "unknown matches neither a condition nor its opposite. Fields: "
            + "; ".join(f"{field.name}, {field.meaning}" for field in FIELDS),
        ),
        Number("oldest", "seconds", ("requests.queue_s",), "the longest wait of those who wait now"),
        Term(
            "verdict",
            "why the head of the queue was not admitted in the latest iteration: what it needs, what there is, which rule "
            "said no",
        ),
    ),
)

TIERS = Section(
    "Tiers",
    (
        Number(
            "kept below the device's",
            "blocks, and their share of the device's",
            ("tiers.blocks_cached", "tiers.blocks_held"),
            "blocks with content in lower tiers: what the tiers add to the device; content in two tiers counts twice",
        ),
        Term("contents", "bar over all blocks of the tier: held for swapped requests, cached, being copied, free"),
        Number(
            "filled",
            "blocks, of all of the tier",
            ("tiers.blocks_total", "tiers.blocks_free"),
            "blocks of the tier that are not free, cached ones included",
        ),
        Number("held", "blocks", ("tiers.blocks_held",)),
        Number(
            "in, out",
            "MB/s (10^6 bytes)",
            ("tiers.bytes_in", "tiers.bytes_out"),
            "copied into the tier, and out of it to be used",
            LAST_5_S,
        ),
        Number(
            "ms/block",
            "milliseconds",
            ("tiers.ms_per_block_in", "tiers.ms_per_block_out"),
            "to copy one block in / out",
            "mean of the latest copies",
        ),
        Number(
            "hit, in the tiers",
            "share",
            ("tiers.hit_tokens", "tiers.miss_tokens"),
            "of the prompt tokens looked up in this tier, those found there",
            OVER_60_S,
            "tiers.hit_share",
        ),
        _since_start("hits", "tiers.hit_tokens", "tokens"),
        Number(
            "stalls",
            "times, and how long in all",
            ("tiers.stalls", "tiers.stall_ms"),
            "waits of the batch for copies of this tier; one that lasts is one",
            SINCE_START,
        ),
        _since_start("drops", "tiers.drops", "blocks"),
        Number(
            "ahead",
            "blocks hit since / all of them",
            ("tiers.prefetch_used_blocks", "tiers.prefetched_blocks"),
            "brought to the device before a request was admitted for them (wide screens)",
            SINCE_START,
        ),
        _since_start("fails", "tiers.failures", "copies"),
    ),
)

EVENTS = Section(
    "Events",
    (
        Term("preempt", "who lost its blocks, to whom, why; tokens and compute seconds given up, blocks released"),
        Term("swap out, swap in", "KV of a request copied to a lower tier, and back: nothing is computed again"),
        Term("load failed", "a copy from a lower tier failed or came back wrong; what it held is computed again"),
        Term("tier drop", "a full tier gave up content, or refused it"),
        Term(
            "abort, error",
            "a request that did not come to its end: somebody wanted no more of it, or it could not go on",
        ),
        Term("watchdog", "work waits and nothing comes of it: since when and why; over: it goes on"),
        Term("evict", "cached blocks that lost their content because others needed them"),
        Term("policy", "who changed which policy from what to what; the iteration is the first under the new rule"),
    ),
)

SECTIONS: tuple[Section, ...] = (HEADER, MAP, REQUESTS, SCHEDULER, LATENCY, TIERS, POLICIES, EVENTS)
"""In the order of the help."""

IN_FILES: tuple[Number, ...] = (
    Number("", "bytes", (), "device pool: blocks x tokens in a block x KV bytes of a token", file="kv_capacity_bytes"),
    Number("", "bytes", ("gauges.kv_bytes_used",), file="kv_bytes_used"),
    Number("", "blocks", ("gauges.kv_blocks_total",), file="kv_blocks_total"),
    Number("", "tokens", ("gauges.kv_tokens",), file="live_cached_tokens"),
    Number("", "requests", ("gauges.running",), file="active_sequences"),
    Number("", "requests", ("gauges.waiting",), file="waiting_sequences"),
    _since_start("", "counters.admissions", "requests", "admissions"),
    _since_start("", "counters.preemptions", "times", "preemptions"),
    _since_start("", "counters.evictions", "blocks", "evictions"),
    _since_start("", "counters.prefix_hit_tokens", "tokens", "prefix_cache_hits"),
    _since_start("", "counters.prefix_query_tokens", "tokens", "prefix_cache_queries"),
    _since_start("", "counters.host_offload_bytes", "bytes", "host_offload_bytes"),
    _since_start("", "counters.host_promotions", "blocks", "host_promotions"),
    _since_start("", "counters.disk_offload_bytes", "bytes", "disk_offload_bytes"),
    _since_start("", "counters.disk_promotions", "blocks", "disk_promotions"),
    _since_start("", "counters.ledger_violations", "contradictions", "ledger_violations"),
    Number(
        "",
        "requests",
        ("batch.prefill_requests", "batch.decode_requests"),
        "in the batch of each of the last iterations (512 at most), oldest first; of iterations that reached the viewer merged "
        "into one frame, the last",
        file="batch_size_by_iteration",
    ),
    Number("", "preemptions/s", ("counters.preemptions",), window=LAST_5_S, file="rates.preemptions"),
    Number("", "blocks/s", ("counters.evictions",), window=LAST_5_S, file="rates.evictions"),
    Number(
        "",
        "share",
        ("counters.prefix_hit_tokens", "counters.prefix_query_tokens"),
        "of the prompt tokens looked up in the prefix cache, those found",
        f"last {RATE_WINDOW:g} s",
        "rates.prefix_hit_share",
    ),
    Number(
        "",
        "share",
        ("counters.prefix_hit_tokens", "counters.prefix_query_tokens"),
        "of the prompt tokens looked up in the prefix cache, those found",
        SINCE_START,
        "rates.prefix_hit_share_since_start",
    ),
    *(
        Number(
            "",
            "milliseconds",
            (f"durations.{part}",),
            window="mean of the latest iterations, as many as named",
            file=f"iteration_ms.{part}_ms",
        )
        for part in Durations.model_fields
        if part not in ("schedule", "forward")
    ),
    Number("", "bytes/s", ("tiers.bytes_in",), window=LAST_5_S, file="tiers.bytes_in_per_s"),
    Number("", "bytes/s", ("tiers.bytes_out",), window=LAST_5_S, file="tiers.bytes_out_per_s"),
    Number("", "Unix seconds", ("requests.arrival",), "when it arrived", file="requests.arrival"),
    Number("", "tokens", ("requests.max_tokens",), file="requests.max_output_tokens"),
    Number("", "requests", ("requests.siblings",), file="requests.siblings"),
    *(Number("", unit_of(name), (f"gauges.{name}",), file=f"gauges.{name}") for name in Gauges.model_fields),
    *(_since_start("", f"counters.{name}", unit_of(name), f"counters.{name}") for name in Counters.model_fields),
    *(
        Number("", unit_of(name), (f"tiers.{name}",), file=f"tiers.{name}")
        for name in TierLevel.model_fields
        if name not in ("tier", "group")
    ),
    *(
        Number("", "bytes", (f"memory.{name}",), window="when the engine started", file=f"memory.{name}")
        for name in MemoryFacts.model_fields
        if name.endswith("_bytes")
    ),
    Number("", "blocks", ("requests.reserved_blocks",), file="requests.reserved_blocks"),
    Number("", "blocks", ("requests.pinned_blocks",), file="requests.pinned_blocks"),
    Number(
        "", "seconds", ("requests.prefill_s",), "in prefill, the running phase included", file="requests.prefill_time"
    ),
    Number("", "seconds", ("requests.decode_s",), "in decode, the running phase included", file="requests.decode_time"),
    Number("", "seconds", ("requests.ttft_s",), file="requests.ttft"),
    Number("", "seconds", ("requests.tpot_s",), file="requests.tpot"),
)
"""Numbers that snapshots hold and no line of the help names."""


def numbers() -> Iterator[Number]:
    """All of them, those of the help first."""
    for section in SECTIONS:
        yield from (entry for entry in section.entries if isinstance(entry, Number))
    yield from IN_FILES


def in_file(part: str = "") -> list[Number]:
    """Those in a part of a snapshot (``requests``, ``rates``), or, without one, at its top."""
    found = [number for number in numbers() if number.file]
    return [number for number in found if number.file.rpartition(".")[0] == part]


def sent_as_it_is(levels: dict[str, dict[str, Any]], number: Number) -> Any:
    """Its value where it is one that an engine sent, of ``levels`` by the first part of sources; None: not exposed."""
    if len(number.sources) != 1:
        return None
    part, _, field = number.sources[0].partition(".")
    return levels.get(part, {}).get(field)
