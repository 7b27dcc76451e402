"""What happened in an engine: events, each told once."""

from pydantic import Field

from kvtop.protocol.base import Message
from kvtop.protocol.hello import PolicyValue

ROUTINE_EVENTS = frozenset({"admit", "finish", "evict", "copy", "beam"})
"""Kinds that happen all the time in a healthy engine. Logs keep them apart, so that they never push out the others."""


class Event(Message):
    """Something that happened, once, with its cause. Ids rise by one within a run; none is ever skipped silently.

    Kinds: ``admit finish preempt abort error fault evict policy command pause resume prefix_reset ledger notice``, of which
    ``finish``, ``abort`` and ``error`` are the three ends of a request, and a ``fault`` is a batch that could not be
    computed as a whole;
    of tiers ``swap_out`` (KV of a request copied to a lower tier), ``swap_in`` (and back), ``load_failed`` (a copy came
    back wrong or not at all; what it held is computed again), ``tier_drop`` (a full tier gave up content, or refused it);
    of blocks ``copy`` (a shared block was copied before a write), ``compact`` (blocks were moved together), ``pin``
    (blocks were pinned or unpinned); ``beam`` (a beam search ended, with its best score); ``kv_switch`` (the KV cache was
    made anew in another element type, or could not be); ``watchdog`` (no progress with work waiting, and its end); ``dump``
    (the flight recorder was written to a file, or could not be).
    A viewer shows an unknown kind by its ``detail``.
    """

    id: int = Field(ge=0, description="number of the event; rises by one")
    kind: str = Field(max_length=32, description="see above")
    iteration: int = Field(ge=0, description="iteration in which it happened")
    wall: float = Field(description="Unix seconds")
    severity: str = Field(default="info", max_length=16, description="how bad it is: info, warn, error")
    request: int | None = Field(default=None, description="num of the request it happened to (the victim)")
    request_id: str | None = Field(default=None, max_length=256, description="its id")
    by: int | None = Field(default=None, description="num of the request that caused it")
    by_id: str | None = Field(default=None, max_length=256, description="its id")
    cause: str | None = Field(default=None, max_length=500, description="why, in a sentence")
    need_blocks: int | None = Field(default=None, description="blocks the causing request lacked")
    free_blocks: int | None = Field(default=None, description="blocks available before")
    blocks: int | None = Field(
        default=None,
        description="preempt, and where told finish, abort, error: blocks released; evict: blocks evicted; admit: blocks in its table, those of cached tokens included; "
        "swap_out, swap_in, copy, compact: blocks copied; load_failed, tier_drop: blocks lost; pin: blocks (un)pinned",
    )
    tokens: int | None = Field(
        default=None,
        description="preempt: computed tokens given up; admit: tokens from the prefix cache; finish: output tokens; "
        "swap_out, swap_in: tokens kept; abort, error: output tokens so far; load_failed: tokens to compute again",
    )
    seconds: float | None = Field(
        default=None,
        description="admit: time queued; finish, abort, error: arrival to end; preempt: time since its latest admission, where "
        "what it computed since is given up; swap_in: time swapped "
        "out; watchdog: time without progress",
    )
    tier: str | None = Field(default=None, max_length=32, description="lower tier it concerns: host, disk")
    axis: str | None = Field(default=None, max_length=64, description="policy: which axis changed")
    old: PolicyValue | None = Field(default=None, description="policy: value before")
    new: PolicyValue | None = Field(default=None, description="policy: value after")
    uid: int | None = Field(default=None, description="who commanded it")
    pid: int | None = Field(default=None, description="process that commanded it")
    detail: str | None = Field(default=None, max_length=1000, description="more, in a sentence")
