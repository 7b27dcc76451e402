"""What an engine says about itself while it runs: iteration frames, keyframes, gaps, errors.

Absent (null) means *unchanged* in an iteration frame and *not exposed* in a keyframe; it never means zero.
"""

from typing import Literal

from pydantic import Field

from kvtop.protocol.base import Message
from kvtop.protocol.events import Event
from kvtop.protocol.hello import Geometry, PolicyValue

BlockRun = tuple[int, int, int, int, int, int, int, int]
"""``(start, count, state, owner, refs, fill, tier, group)`` for the blocks ``start … start+count-1``.

``state`` indexes the hello's ``block_states``; ``owner`` is a request's ``num``, -1 for none (of several
owners, the first in the order of arrival); ``refs`` counts block tables; ``fill`` counts tokens written;
``tier`` indexes the distinct tiers of the hello's pools; ``group`` is the KV group.
"""

BlockHash = tuple[int, str | None]
"""``(block, hash)``: the prefix-cache hash (16 hex digits) the block now has, null when it lost it."""

BlockAge = tuple[int, int, float]
"""``(start, count, seconds)`` since these blocks were last allocated, written, shared or released."""


class RequestChange(Message):
    """What changed about one request; in a keyframe, all that is known of it.

    Times by phase are sums over the phases that have *ended*; the running phase began at ``phase_since``.
    """

    num: int = Field(ge=0, description="small number, unique in this run of the engine")
    id: str | None = Field(default=None, max_length=256, description="the request's own name")
    label: str | None = Field(default=None, max_length=64, description="workload class or tenant")
    state: str | None = Field(
        default=None,
        description="waiting, prefill, decode, finished; preempted: waits again, its KV given up; swapped: waits, its KV "
        "kept in the tier named; loading: KV is being copied to the device for it, it runs when that is done",
    )
    tier: str | None = Field(
        default=None, max_length=32, description="tier that holds its KV: device, or another where it is swapped out"
    )
    priority: int | None = Field(default=None, description="smaller is more urgent")
    arrival: float | None = Field(default=None, description="Unix seconds")
    prompt_tokens: int | None = Field(default=None, ge=0, description="tokens in the prompt")
    max_tokens: int | None = Field(default=None, ge=0, description="output tokens at most")
    cached_tokens: int | None = Field(
        default=None,
        ge=0,
        description="tokens it began with at its latest admission: from the prefix cache, or of the sample it forked from",
    )
    computed_tokens: int | None = Field(default=None, ge=0, description="tokens whose KV is in its blocks now")
    output_tokens: int | None = Field(default=None, ge=0, description="tokens sampled so far")
    blocks: int | None = Field(default=None, ge=0, description="blocks in its table")
    reserved_blocks: int | None = Field(default=None, ge=0, description="blocks promised beyond those in its table")
    pinned_blocks: int | None = Field(default=None, ge=0, description="of its blocks, those that are pinned")
    group: int | None = Field(
        default=None,
        ge=0,
        description="num of the first of the samples drawn from one prompt, or of its beams; the same for all of them. No KV group, which group is elsewhere",
    )
    siblings: int | None = Field(default=None, ge=0, description="samples in that group, itself included")
    score: float | None = Field(default=None, description="cumulative log-probability of this beam")
    table_at: int | None = Field(
        default=None, ge=0, description="cut the block table to this length, then append table"
    )
    table: list[int] | None = Field(
        default=None,
        description="physical blocks to append to the block table, in logical order, of each KV group one; "
        "-1 where one was given up",
    )
    phase_since: float | None = Field(default=None, description="monotonic seconds at which the present state began")
    queue_s: float | None = Field(
        default=None,
        ge=0,
        description="seconds waiting, before the first admission and after preemptions; swapped and loading included",
    )
    prefill_s: float | None = Field(default=None, ge=0, description="seconds in prefill")
    decode_s: float | None = Field(default=None, ge=0, description="seconds in decode")
    preemptions: int | None = Field(default=None, ge=0, description="times it was preempted")
    recomputed_tokens: int | None = Field(default=None, ge=0, description="tokens computed again after preemptions")
    lost_s: float | None = Field(
        default=None,
        ge=0,
        description="seconds given up by preemptions: from each admission to the preemption that gave up what was computed "
        "since; where its KV was swapped out instead, none",
    )
    ttft_s: float | None = Field(default=None, ge=0, description="seconds from arrival to the first output token")
    tpot_s: float | None = Field(
        default=None, ge=0, description="seconds: (time of last - first output token) / (outputs - 1), set at the end"
    )
    finish_reason: str | None = Field(default=None, max_length=64, description="stop, length, abort, error")
    attention_mode: str | None = Field(default=None, max_length=64, description="how its attention is computed")
    cache_dtype: str | None = Field(default=None, max_length=32, description="element type of its KV")
    prompt_text: str | None = Field(default=None, description="only with --expose-text")
    output_text: str | None = Field(default=None, description="only with --expose-text, and in keyframes: all so far")
    output_at: int | None = Field(
        default=None, ge=0, description="cut the output text to so many characters, then append output_more"
    )
    output_more: str | None = Field(default=None, description="only with --expose-text: what came to the output text")
    text_ends_at: int | None = Field(
        default=None, ge=0, description="cut text_ends to this length, then append text_ends"
    )
    text_ends: list[int] | None = Field(
        default=None,
        description="only with --expose-text, for each full logical block: how many characters of prompt and output text "
        "together its tokens and those before reach to",
    )


TEXT_FIELDS = frozenset({"prompt_text", "output_text", "output_at", "output_more", "text_ends_at", "text_ends"})
"""What of a `RequestChange` tells of prompts and generated text."""


class Verdict(Message):
    """Why the head of the waiting queue was not admitted in this iteration.

    Codes: ``needs_blocks never_fits max_running token_budget batch_running after_preemption resume_gate paused
    draining transfer``.
    """

    request: int = Field(description="num of the queue's head")
    request_id: str | None = Field(default=None, max_length=256, description="its id")
    code: str = Field(max_length=64, description="see above")
    rule: str | None = Field(default=None, max_length=128, description="the policy that said no, as axis=value")
    need_blocks: int | None = Field(
        default=None, description="blocks it needs to be admitted, beyond those cached for it"
    )
    available_blocks: int | None = Field(
        default=None, description="blocks it could have: free + evictable - promised to others - watermark"
    )
    reserved_blocks: int | None = Field(default=None, description="of the pool, promised to running requests")
    watermark_blocks: int | None = Field(default=None, description="of the pool, kept free on purpose")
    limit: int | None = Field(default=None, description="the limit that was reached, where the rule is a limit")
    detail: str | None = Field(default=None, max_length=500, description="more, in a sentence")


class Durations(Message):
    """Milliseconds of an iteration, by part; sums over merged iterations."""

    schedule: float = Field(default=0.0, ge=0, description="deciding what runs, and taking in what came of it")
    prepare: float | None = Field(
        default=None,
        ge=0,
        description="laying out the batch and copying blocks for it; absent: not told apart from forward",
    )
    forward: float = Field(default=0.0, ge=0, description="the model's forward pass")
    sample: float = Field(default=0.0, ge=0, description="choosing tokens")
    transfer_wait: float = Field(default=0.0, ge=0, description="waiting for copies between tiers")
    publish: float = Field(default=0.0, ge=0, description="building the previous frame")
    ledger: float = Field(default=0.0, ge=0, description="checking the books, in iterations that did")


class Batch(Message):
    """Composition of the batch; tokens are sums and requests are of the latest over merged iterations."""

    prefill_tokens: int = Field(
        default=0,
        ge=0,
        description="tokens computed for requests in prefill; after a preemption its outputs so far are among them",
    )
    decode_tokens: int = Field(default=0, ge=0, description="tokens computed for requests in decode")
    prefill_requests: int = Field(default=0, ge=0, description="requests in prefill")
    decode_requests: int = Field(default=0, ge=0, description="requests in decode")
    token_budget: int | None = Field(default=None, description="tokens an iteration may compute at most")


class Gauges(Message):
    """Levels at the end of the iteration."""

    kv_blocks_total: int | None = Field(default=None, description="blocks in the pool")
    kv_blocks_free: int | None = Field(default=None, description="no owner, no content")
    kv_blocks_cached: int | None = Field(default=None, description="no owner, content still valid; evictable")
    kv_blocks_active: int | None = Field(default=None, description="in exactly one block table")
    kv_blocks_shared: int | None = Field(default=None, description="in more than one block table")
    kv_blocks_reserved: int | None = Field(
        default=None, description="promised to running requests, not yet taken; part of free + cached"
    )
    kv_blocks_pinned: int | None = Field(
        default=None, description="kept by command: content stays though no table holds it; not evictable"
    )
    kv_blocks_transfer: int | None = Field(
        default=None,
        description="being copied to or from another tier, or within this one; not readable yet, or not free yet",
    )
    kv_bytes_used: int | None = Field(default=None, description="bytes of active and shared blocks")
    kv_tokens: int | None = Field(
        default=None,
        description="tokens held for live requests (shared ones once); of several KV groups, by the one that holds most",
    )
    kv_usage: float | None = Field(default=None, ge=0, le=1, description="share in use, where blocks are not exposed")
    running: int | None = Field(default=None, description="requests in prefill or decode")
    loading: int | None = Field(
        default=None,
        description="requests admitted whose KV is still being copied to the device; neither running nor waiting",
    )
    waiting: int | None = Field(
        default=None,
        description="requests in the queue, preempted and swapped ones included; the beams of a search wait as one",
    )
    preempted: int | None = Field(default=None, description="of waiting, those that have run before")


class Counters(Message):
    """Totals since the engine started. A total that falls means the engine restarted."""

    iterations: int | None = Field(default=None, description="iterations run")
    prefill_tokens: int | None = Field(
        default=None,
        description="tokens computed in prefill: of prompts, and after preemptions prompt and output tokens again",
    )
    decode_tokens: int | None = Field(default=None, description="output tokens sampled")
    prefix_query_tokens: int | None = Field(
        default=None,
        description="prompt tokens looked up, once for each prompt: at its first admission, not again for its further samples",
    )
    prefix_hit_tokens: int | None = Field(default=None, description="of those looked up, the prompt tokens found")
    recomputed_tokens: int | None = Field(
        default=None, description="tokens computed again after a preemption, which had taken their KV from the request"
    )
    admissions: int | None = Field(
        default=None, description="requests that left the queue to run, after preemptions again"
    )
    finished: int | None = Field(default=None, description="requests that came to their end: stop or length")
    aborted: int | None = Field(
        default=None, description="requests aborted, by command, client or preempt_action=abort"
    )
    errored: int | None = Field(default=None, description="requests that ended with an error")
    preemptions: int | None = Field(
        default=None,
        description="times a running request lost its blocks, or had them swapped out, for others or by command",
    )
    evictions: int | None = Field(default=None, description="cached blocks whose content was dropped for new content")
    host_offload_bytes: int | None = Field(default=None, description="KV bytes copied from the device to the host")
    host_promotions: int | None = Field(default=None, description="blocks brought back from the host to the device")
    disk_offload_bytes: int | None = Field(
        default=None, description="KV bytes copied to the disk, from the device and from the host"
    )
    disk_promotions: int | None = Field(default=None, description="blocks brought back from the disk to the device")
    ledger_checks: int | None = Field(default=None, description="checks that blocks and references add up")
    ledger_violations: int | None = Field(default=None, description="contradictions that those checks found")


class TierTraffic(Message):
    """Bytes that moved between two tiers in this frame."""

    source: str = Field(description="tier copied from")
    target: str = Field(description="tier copied to")
    blocks: int = Field(ge=0, description="blocks copied")
    bytes: int = Field(ge=0, description="bytes copied")
    ms: float = Field(default=0.0, ge=0, description="milliseconds the copies took")
    stalls: int = Field(default=0, ge=0, description="times the batch had to wait for one")


class TierLevel(Message):
    """One tier of KV memory (and KV group): what it holds, and totals of what went through it since the start.

    *In* is towards this tier, *out* is away from it. The device tier's own blocks are in the gauges too.
    """

    tier: str = Field(max_length=32, description="device, host, disk; as in the hello's pools")
    group: int = Field(default=0, ge=0, description="KV group")
    blocks_total: int | None = Field(default=None, ge=0, description="blocks it has room for")
    blocks_free: int | None = Field(default=None, ge=0, description="of these, without content")
    blocks_cached: int | None = Field(default=None, ge=0, description="holding prefix-cache content; evictable")
    blocks_held: int | None = Field(default=None, ge=0, description="holding KV of swapped requests; not evictable")
    blocks_transfer: int | None = Field(
        default=None, ge=0, description="being copied in or out now; not readable yet, or not free yet"
    )
    bytes_in: int | None = Field(default=None, ge=0, description="total of bytes copied into it")
    bytes_out: int | None = Field(
        default=None, ge=0, description="total of bytes copied out of it, to be used elsewhere"
    )
    ms_per_block_in: float | None = Field(
        default=None, ge=0, description="milliseconds to copy one block in, mean of the latest copies"
    )
    ms_per_block_out: float | None = Field(
        default=None, ge=0, description="milliseconds to copy one block out, mean of the latest copies"
    )
    hit_tokens: int | None = Field(
        default=None, ge=0, description="total of prompt tokens found in it, at first admissions"
    )
    miss_tokens: int | None = Field(
        default=None, ge=0, description="total of prompt tokens looked up in it and not found"
    )
    stalls: int | None = Field(default=None, ge=0, description="total of waits of the batch for copies of this tier")
    stall_ms: float | None = Field(default=None, ge=0, description="total of milliseconds of these waits")
    drops: int | None = Field(
        default=None, ge=0, description="total of blocks given up or refused because the tier was full"
    )
    failures: int | None = Field(
        default=None,
        ge=0,
        description="total of copies that failed or came back wrong; their content is computed again",
    )
    prefetched_blocks: int | None = Field(
        default=None,
        ge=0,
        description="total of blocks brought from it to the device before a request was admitted for them",
    )
    prefetch_used_blocks: int | None = Field(
        default=None, ge=0, description="of these, hit by an admission since; the rest was for nothing so far"
    )


class Queue(Message):
    """The waiting queue in the order in which it will be tried; only its first part where it is long."""

    order: list[int] = Field(default_factory=list, description="nums, head first")
    total: int = Field(default=0, ge=0, description="requests waiting, those not listed included")


class Status(Message):
    """What the engine as a whole is doing."""

    state: str = Field(description="running, idle, paused, draining")
    since: float | None = Field(default=None, description="monotonic seconds")
    detail: str | None = Field(default=None, max_length=500, description="more, in a sentence")
    warning: str | None = Field(
        default=None, max_length=500, description="that work waits and nothing comes of it, and why, in a sentence"
    )
    warning_since: float | None = Field(default=None, description="monotonic seconds at which that began")


class IterationFrame(Message):
    """One iteration, or several merged into one (``merged`` > 1), or news from between two; ``seq`` is that of the last."""

    type: Literal["iteration"] = "iteration"
    seq: int = Field(ge=0, description="frame number; consecutive (less the merged ones) unless a gap is announced")
    merged: int = Field(default=1, ge=1, description="frames in this one, those between iterations included")
    iteration: int = Field(ge=0, description="number of the iteration")
    wall: float = Field(description="Unix seconds at the end of the iteration")
    mono: float = Field(description="monotonic seconds at the end of the iteration")
    durations: Durations = Field(default_factory=Durations, description="where the time went")
    batch: Batch | None = Field(default=None, description="what was computed; absent: nothing ran")
    policy_id: int | None = Field(default=None, description="number of the policy set; rises with each change")
    policy: dict[str, PolicyValue] | None = Field(default=None, description="axis -> value, when it changed")
    status: Status | None = Field(default=None, description="when it changed")
    geometry: Geometry | None = Field(
        default=None, description="when it changed: element type and bytes of KV from now on; pools stay as they were"
    )
    blocks: list[BlockRun] = Field(
        default_factory=list, description="blocks that changed, in order; a later run overrides"
    )
    hashes: list[BlockHash] = Field(default_factory=list, description="prefix-cache hashes that changed")
    requests: list[RequestChange] = Field(default_factory=list, description="requests that changed")
    forgotten: list[int] = Field(default_factory=list, description="nums of finished requests no longer kept")
    queue: Queue | None = Field(default=None, description="when it changed")
    verdict: Verdict | None = Field(default=None, description="absent: nothing is held back")
    events: list[Event] = Field(default_factory=list, description="what happened, each event once")
    traffic: list[TierTraffic] = Field(default_factory=list, description="copies between tiers")
    tiers: list[TierLevel] = Field(default_factory=list, description="all tiers, when one changed; empty: unchanged")
    gauges: Gauges | None = Field(default=None, description="levels that changed")
    counters: Counters | None = Field(default=None, description="totals that changed")


class Keyframe(Message):
    """Everything at one moment: the first frame a viewer gets, after any gap, and on request."""

    type: Literal["keyframe"] = "keyframe"
    seq: int = Field(ge=0, description="that of the last iteration frame it includes")
    iteration: int = Field(ge=0, description="number of that iteration")
    wall: float = Field(description="Unix seconds")
    mono: float = Field(description="monotonic seconds")
    policy_id: int = Field(default=0, description="number of the policy set")
    policy: dict[str, PolicyValue] = Field(default_factory=dict, description="axis -> value, all axes")
    status: Status = Field(description="what the engine is doing")
    geometry: Geometry | None = Field(default=None, description="where it has changed since the engine's start")
    blocks: list[BlockRun] | None = Field(default=None, description="absent: not exposed")
    hashes: list[BlockHash] = Field(default_factory=list, description="prefix-cache hash of every block that has one")
    ages: list[BlockAge] = Field(
        default_factory=list, description="blocks by time since last use; blocks not listed: unknown"
    )
    requests: list[RequestChange] | None = Field(default=None, description="absent: not exposed")
    queue: Queue | None = Field(default=None, description="absent: not exposed")
    verdict: Verdict | None = Field(default=None, description="absent: nothing is held back")
    events: list[Event] = Field(default_factory=list, description="the latest, repeated; ids tell which are known")
    gauges: Gauges = Field(default_factory=Gauges, description="all levels; absent ones are not exposed")
    counters: Counters = Field(default_factory=Counters, description="all totals; absent ones are not exposed")
    tiers: list[TierLevel] = Field(default_factory=list, description="all tiers; empty: not exposed")
    recent_batches: list[int] = Field(
        default_factory=list, description="requests in the batch of each of the last iterations, oldest first"
    )


class Gap(Message):
    """Frames this viewer will not get. Its events follow here, so none is lost; a keyframe comes next."""

    type: Literal["gap"] = "gap"
    first: int = Field(description="seq of the first frame left out")
    last: int = Field(description="seq of the last frame left out")
    reason: str = Field(default="viewer too slow", max_length=200, description="why they were left out")
    events: list[Event] = Field(default_factory=list, description="events of the frames left out")
    events_lost: int = Field(default=0, ge=0, description="events that even the event log no longer held")


class Fault(Message):
    """The peer's last line could not be used, or the peer cannot be served."""

    type: Literal["fault"] = "fault"
    code: str = Field(
        max_length=64, description="bad_line, line_too_long, unknown_type, version, busy, not_here, internal"
    )
    message: str = Field(max_length=1000, description="what was wrong and where, in a sentence")
    fatal: bool = Field(default=False, description="the connection ends after this line")


class Bye(Message):
    """The engine is leaving in an orderly way."""

    type: Literal["bye"] = "bye"
    reason: str = Field(default="engine stopped", max_length=200, description="why it leaves")
