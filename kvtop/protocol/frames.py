"""What an engine says about itself while it runs: iteration frames, keyframes, gaps, errors.

Absent (null) means *unchanged* in an iteration frame and *not exposed* in a keyframe; it never means zero.
"""

from typing import Literal

from pydantic import Field

from kvtop.protocol.base import Message
from kvtop.protocol.hello import PolicyValue

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
    id: str | None = Field(default=None, max_length=256)
    label: str | None = Field(default=None, max_length=64, description="workload class or tenant")
    state: str | None = Field(default=None, description="waiting, prefill, decode, preempted, finished")
    priority: int | None = Field(default=None, description="smaller is more urgent")
    arrival: float | None = Field(default=None, description="Unix seconds")
    prompt_tokens: int | None = Field(default=None, ge=0)
    max_tokens: int | None = Field(default=None, ge=0, description="output tokens at most")
    cached_tokens: int | None = Field(
        default=None, ge=0, description="tokens taken from the prefix cache at its latest admission"
    )
    computed_tokens: int | None = Field(default=None, ge=0, description="tokens whose KV is in its blocks now")
    output_tokens: int | None = Field(default=None, ge=0)
    blocks: int | None = Field(default=None, ge=0, description="blocks in its table")
    reserved_blocks: int | None = Field(default=None, ge=0, description="blocks promised beyond those in its table")
    table_at: int | None = Field(
        default=None, ge=0, description="cut the block table to this length, then append table"
    )
    table: list[int] | None = None
    phase_since: float | None = Field(default=None, description="monotonic seconds at which the present state began")
    queue_s: float | None = Field(default=None, ge=0)
    prefill_s: float | None = Field(default=None, ge=0)
    decode_s: float | None = Field(default=None, ge=0)
    preemptions: int | None = Field(default=None, ge=0)
    recomputed_tokens: int | None = Field(default=None, ge=0, description="tokens computed again after preemptions")
    ttft_s: float | None = Field(default=None, ge=0, description="arrival to first output token")
    tpot_s: float | None = Field(
        default=None, ge=0, description="(last - first output token) / (outputs - 1), set at the end"
    )
    finish_reason: str | None = Field(default=None, max_length=64, description="stop, length, abort, error")
    attention_mode: str | None = Field(default=None, max_length=64)
    cache_dtype: str | None = Field(default=None, max_length=32)
    prompt_text: str | None = Field(default=None, description="only with --expose-text")
    output_text: str | None = Field(default=None, description="only with --expose-text; all so far")


class Event(Message):
    """Something that happened, once, with its cause. Ids rise by one within a run; none is ever skipped silently.

    Kinds: ``admit finish preempt abort evict policy command pause resume prefix_reset ledger notice``.
    A viewer shows an unknown kind by its ``detail``.
    """

    id: int = Field(ge=0)
    kind: str = Field(max_length=32)
    iteration: int = Field(ge=0)
    wall: float = Field(description="Unix seconds")
    severity: Literal["info", "warn", "error"] = "info"
    request: int | None = Field(default=None, description="num of the request it happened to (the victim)")
    request_id: str | None = Field(default=None, max_length=256)
    by: int | None = Field(default=None, description="num of the request that caused it")
    by_id: str | None = Field(default=None, max_length=256)
    cause: str | None = Field(default=None, max_length=500)
    need_blocks: int | None = Field(default=None, description="blocks the causing request lacked")
    free_blocks: int | None = Field(default=None, description="blocks available before")
    blocks: int | None = Field(
        default=None, description="preempt, abort, finish: blocks released; evict: blocks evicted; admit: blocks taken"
    )
    tokens: int | None = Field(
        default=None,
        description="preempt: computed tokens given up; admit: tokens from the prefix cache; finish: output tokens",
    )
    seconds: float | None = Field(
        default=None, description="admit: time queued; finish: arrival to end; preempt: compute time given up"
    )
    axis: str | None = Field(default=None, max_length=64)
    old: PolicyValue | None = None
    new: PolicyValue | None = None
    uid: int | None = Field(default=None, description="who commanded it")
    pid: int | None = None
    detail: str | None = Field(default=None, max_length=1000)


class Verdict(Message):
    """Why the head of the waiting queue was not admitted in this iteration.

    Codes: ``needs_blocks never_fits max_running token_budget batch_running after_preemption paused draining``.
    """

    request: int
    request_id: str | None = Field(default=None, max_length=256)
    code: str = Field(max_length=64)
    rule: str | None = Field(default=None, max_length=128, description="the policy that said no, as axis=value")
    need_blocks: int | None = Field(
        default=None, description="blocks it needs to be admitted, beyond those cached for it"
    )
    available_blocks: int | None = Field(
        default=None, description="blocks it could have: free + evictable - promised to others - watermark"
    )
    reserved_blocks: int | None = None
    watermark_blocks: int | None = None
    limit: int | None = Field(default=None, description="the limit that was reached, where the rule is a limit")
    detail: str | None = Field(default=None, max_length=500)


class Durations(Message):
    """Milliseconds of an iteration, by part; summed over merged iterations."""

    schedule: float = Field(default=0.0, ge=0)
    forward: float = Field(default=0.0, ge=0)
    sample: float = Field(default=0.0, ge=0)
    transfer_wait: float = Field(default=0.0, ge=0)
    publish: float = Field(default=0.0, ge=0, description="building the previous frame")


class Batch(Message):
    """Composition of the batch; tokens are sums and requests are of the latest over merged iterations."""

    prefill_tokens: int = Field(default=0, ge=0)
    decode_tokens: int = Field(default=0, ge=0)
    prefill_requests: int = Field(default=0, ge=0)
    decode_requests: int = Field(default=0, ge=0)
    token_budget: int | None = None


class Gauges(Message):
    """Levels at the end of the iteration."""

    kv_blocks_total: int | None = None
    kv_blocks_free: int | None = Field(default=None, description="no owner, no content")
    kv_blocks_cached: int | None = Field(default=None, description="no owner, content still valid; evictable")
    kv_blocks_active: int | None = Field(default=None, description="in exactly one block table")
    kv_blocks_shared: int | None = Field(default=None, description="in more than one block table")
    kv_blocks_reserved: int | None = Field(
        default=None, description="promised to running requests, not yet taken; part of free + cached"
    )
    kv_bytes_used: int | None = Field(default=None, description="bytes of active and shared blocks")
    kv_tokens: int | None = Field(default=None, description="tokens held for live requests (shared ones once)")
    kv_usage: float | None = Field(default=None, ge=0, le=1, description="share in use, where blocks are not exposed")
    running: int | None = None
    waiting: int | None = None
    preempted: int | None = Field(default=None, description="of waiting, those that have run before")


class Counters(Message):
    """Totals since the engine started. A total that falls means the engine restarted."""

    iterations: int | None = None
    prefill_tokens: int | None = Field(default=None, description="prompt tokens computed, recomputation included")
    decode_tokens: int | None = Field(default=None, description="output tokens sampled")
    prefix_query_tokens: int | None = Field(
        default=None, description="tokens looked up, once for each request's first admission"
    )
    prefix_hit_tokens: int | None = Field(default=None, description="of those, found")
    recomputed_tokens: int | None = Field(default=None, description="tokens computed again after a preemption")
    admissions: int | None = None
    finished: int | None = None
    aborted: int | None = None
    preemptions: int | None = None
    evictions: int | None = Field(default=None, description="cached blocks whose content was dropped for new content")
    host_offload_bytes: int | None = None
    host_promotions: int | None = None
    ledger_checks: int | None = None
    ledger_violations: int | None = None


class TierTraffic(Message):
    """Bytes that moved between two tiers in this frame."""

    source: str
    target: str
    blocks: int = Field(ge=0)
    bytes: int = Field(ge=0)
    ms: float = Field(default=0.0, ge=0)
    stalls: int = Field(default=0, ge=0)


class Queue(Message):
    """The waiting queue in the order in which it will be tried; only its first part where it is long."""

    order: list[int] = Field(default_factory=list)
    total: int = Field(default=0, ge=0)


class Status(Message):
    """What the engine as a whole is doing."""

    state: str = Field(description="running, idle, paused, draining")
    since: float | None = Field(default=None, description="monotonic seconds")
    detail: str | None = Field(default=None, max_length=500)


class IterationFrame(Message):
    """One iteration, or several merged into one (``merged`` > 1); ``seq`` is that of the last."""

    type: Literal["iteration"] = "iteration"
    seq: int = Field(ge=0, description="frame number; consecutive (less the merged ones) unless a gap is announced")
    merged: int = Field(default=1, ge=1)
    iteration: int = Field(ge=0)
    wall: float = Field(description="Unix seconds at the end of the iteration")
    mono: float = Field(description="monotonic seconds at the end of the iteration")
    durations: Durations = Field(default_factory=Durations)
    batch: Batch | None = None
    policy_id: int | None = None
    policy: dict[str, PolicyValue] | None = None
    status: Status | None = None
    blocks: list[BlockRun] = Field(default_factory=list)
    hashes: list[BlockHash] = Field(default_factory=list)
    requests: list[RequestChange] = Field(default_factory=list)
    forgotten: list[int] = Field(default_factory=list, description="nums of finished requests no longer kept")
    queue: Queue | None = None
    verdict: Verdict | None = Field(default=None, description="absent: nothing is held back")
    events: list[Event] = Field(default_factory=list)
    traffic: list[TierTraffic] = Field(default_factory=list)
    gauges: Gauges | None = None
    counters: Counters | None = None


class Keyframe(Message):
    """Everything at one moment: the first frame a viewer gets, after any gap, and on request."""

    type: Literal["keyframe"] = "keyframe"
    seq: int = Field(ge=0)
    iteration: int = Field(ge=0)
    wall: float
    mono: float
    policy_id: int = 0
    policy: dict[str, PolicyValue] = Field(default_factory=dict)
    status: Status
    blocks: list[BlockRun] | None = Field(default=None, description="absent: not exposed")
    hashes: list[BlockHash] = Field(default_factory=list)
    ages: list[BlockAge] = Field(default_factory=list)
    requests: list[RequestChange] | None = Field(default=None, description="absent: not exposed")
    queue: Queue | None = None
    verdict: Verdict | None = None
    events: list[Event] = Field(default_factory=list, description="the latest, repeated; ids tell which are known")
    gauges: Gauges = Field(default_factory=Gauges)
    counters: Counters = Field(default_factory=Counters)
    recent_batches: list[int] = Field(
        default_factory=list, description="requests in the batch of each of the last iterations, oldest first"
    )


class Gap(Message):
    """Frames this viewer will not get. Its events follow here, so none is lost; a keyframe comes next."""

    type: Literal["gap"] = "gap"
    first: int = Field(description="seq of the first frame left out")
    last: int
    reason: str = Field(default="viewer too slow", max_length=200)
    events: list[Event] = Field(default_factory=list)
    events_lost: int = Field(default=0, ge=0, description="events that even the event log no longer held")


class Fault(Message):
    """The peer's last line could not be used. ``fatal``: the connection ends after this line."""

    type: Literal["fault"] = "fault"
    code: str = Field(max_length=64, description="bad_line, line_too_long, version, busy, not_here, internal")
    message: str = Field(max_length=1000)
    fatal: bool = False


class Bye(Message):
    """The engine is leaving in an orderly way."""

    type: Literal["bye"] = "bye"
    reason: str = Field(default="engine stopped", max_length=200)
