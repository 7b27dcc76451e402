"""One request as far as the engine has told, and how its times go on between frames."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from kvtop.protocol import RequestChange
from kvtop.state.lifeline import Times

WAITING_STATES = frozenset({"waiting", "preempted", "swapped", "loading"})
MAX_TEXT = 65_536
"""Characters of an exposed prompt or output that are kept, from its beginning."""

MAX_NUMBER = 1 << 53
"""Larger numbers are no count, time or size of anything; floats could not hold them exactly either."""

MAX_TABLE = 1 << 20
"""Longest block table; of its places, no more name a block than the pool has."""

_SEARCHED = frozenset({"id", "label", "state"})
_stamps = count(1)

_TEXTS = frozenset({"prompt_text", "output_text", "output_at", "output_more", "text_ends", "text_ends_at"})
_COPIED = frozenset(RequestChange.model_fields) - {"num", "state", "table", "table_at"} - _TEXTS


NO_BLOCK = -1
"""In a block table: the request has given that block up, because no layer of the model sees its positions again."""


@dataclass(slots=True, eq=False)
class RequestRow:
    """Fields as in `RequestChange`; None is *not exposed*. ``table[i]`` is the physical block of logical block ``i``;
    with several KV groups ``table[i * groups + g]`` is that of group ``g``.

    ``stamp``: another one after each change, and never one that any row has had; what was made of a row is good while
    it stays. ``words``: its id, label and state in small letters, a line each, for searching."""

    num: int
    id: str | None = None
    label: str | None = None
    state: str | None = None
    tier: str | None = None
    priority: int | None = None
    arrival: float | None = None
    prompt_tokens: int | None = None
    max_tokens: int | None = None
    cached_tokens: int | None = None
    computed_tokens: int | None = None
    output_tokens: int | None = None
    blocks: int | None = None
    reserved_blocks: int | None = None
    pinned_blocks: int | None = None
    group: int | None = None
    siblings: int | None = None
    score: float | None = None
    phase_since: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    preemptions: int | None = None
    recomputed_tokens: int | None = None
    lost_s: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    finish_reason: str | None = None
    attention_mode: str | None = None
    cache_dtype: str | None = None
    prompt_text: str | None = None
    output_text: str | None = None
    text_ends: list[int] = field(default_factory=list, repr=False)
    table: list[int] = field(default_factory=list)
    life: bytes = field(default=b"", repr=False)
    stamp: int = field(default=0, repr=False)
    words: str = field(default="", repr=False)

    def apply(self, change: RequestChange, pool: int | None, complain: Callable[[str], None]) -> None:
        """Takes over what ``change`` names. ``pool`` bounds the block numbers of its table.

        A new state without a new ``phase_since`` leaves it unknown when that state began.
        """
        # Most changes name two or three of thirty fields.
        for name in change.model_fields_set & _COPIED:
            value = getattr(change, name)
            if value is None:
                continue
            if not isinstance(value, str) and abs(value) > MAX_NUMBER:
                complain(f"request {self.num}: {name} is beyond all measure")
            else:
                setattr(self, name, value)
        if change.state is not None and change.state[:32] != self.state:
            self.state = change.state[:32]
            self.phase_since = change.phase_since
        if not _TEXTS.isdisjoint(change.model_fields_set):
            self._apply_texts(change, complain)
        if change.table is not None or change.table_at is not None:
            self._apply_table(change, pool, complain)
        self.stamp = next(_stamps)
        if not self.words or not _SEARCHED.isdisjoint(change.model_fields_set):
            self.words = f"{self.name}\n{self.label or ''}\n{self.state or ''}".lower()

    def _apply_table(self, change: RequestChange, pool: int | None, complain: Callable[[str], None]) -> None:
        more = change.table or []
        at = len(self.table) if change.table_at is None else change.table_at
        if at > len(self.table):
            complain(f"request {self.num}: block table goes on at {at} but holds {len(self.table)}")
        elif more and (min(more) < NO_BLOCK or max(more) >= (1 << 62 if pool is None else pool)):
            complain(f"request {self.num}: block table names a block outside the pool")
        elif at + len(more) > max(MAX_TABLE, pool or 0) or len(more) - more.count(NO_BLOCK) > (pool or MAX_TABLE):
            complain(f"request {self.num}: block table longer than the pool")
        else:
            del self.table[at:]
            self.table += more

    def _apply_texts(self, change: RequestChange, complain: Callable[[str], None]) -> None:
        if change.prompt_text is not None:
            self.prompt_text = change.prompt_text[:MAX_TEXT]
        if change.output_text is not None:
            self.output_text = change.output_text[:MAX_TEXT]
        if change.output_at is not None:
            known = self.output_text or ""
            if change.output_at <= len(known):
                self.output_text = (known[: change.output_at] + (change.output_more or ""))[:MAX_TEXT]
            elif len(known) < MAX_TEXT:
                complain(f"request {self.num}: output goes on at {change.output_at} but has {len(known)} characters")
        if change.text_ends_at is not None:
            if change.text_ends_at > len(self.text_ends):
                complain(f"request {self.num}: ends of text go on at {change.text_ends_at} of {len(self.text_ends)}")
            else:
                self.text_ends = [*self.text_ends[: change.text_ends_at], *(change.text_ends or ())][:MAX_TABLE]

    def text_of(self, logical: int) -> str | None:
        """What the tokens of that logical block say; of the last one, as far as it is known. None: not exposed."""
        if self.prompt_text is None or logical > len(self.text_ends):
            return None
        start = self.text_ends[logical - 1] if logical else 0
        end = self.text_ends[logical] if logical < len(self.text_ends) else None
        cut = len(self.prompt_text)
        if cut >= MAX_TEXT and (end is None or end > cut):
            return None  # its end is not kept, and what comes after it not where it should
        head = self.prompt_text[start:end]
        tail = (self.output_text or "")[max(0, start - cut) : None if end is None else max(0, end - cut)]
        return head + tail

    @property
    def times(self) -> Times:
        return Times(self.state, self.phase_since, self.queue_s, self.prefill_s, self.decode_s, self.preemptions)

    @property
    def finished(self) -> bool:
        return self.state == "finished"

    @property
    def held(self) -> list[int]:
        """The blocks of its table, without those it has given up."""
        return [block for block in self.table if block != NO_BLOCK]

    @property
    def name(self) -> str:
        """Its id, else ``#num``."""
        return self.id if self.id else f"#{self.num}"

    @property
    def block_count(self) -> int | None:
        """Blocks in its table, by the engine's word or else by the table."""
        return self.blocks if self.blocks is not None else (len(self.held) or None)

    @property
    def sibling(self) -> int | None:
        """Its place in its group, from 1: their nums follow one another. None where it is no sample or beam of several."""
        if self.group is None or self.siblings is None or self.siblings < 2:
            return None
        place = self.num - self.group + 1
        return place if 1 <= place <= self.siblings else None

    def queue_time(self, mono_now: float | None) -> float | None:
        """Seconds waiting, the running wait included, after preemptions too."""
        return self._phase(self.queue_s, self.state in WAITING_STATES, mono_now)

    def prefill_time(self, mono_now: float | None) -> float | None:
        return self._phase(self.prefill_s, self.state == "prefill", mono_now)

    def decode_time(self, mono_now: float | None) -> float | None:
        return self._phase(self.decode_s, self.state == "decode", mono_now)

    @property
    def waits(self) -> bool:
        return self.state in WAITING_STATES

    def behind_clock(self, phase: str) -> float | None:
        """By how much its time in ``phase`` (``queue``, ``prefill``, ``decode``) lies above the engine's clock (that is,
        below zero) while it is in that phase: a number that stands still. None while its time does."""
        if self.phase_since is None:
            return None
        if phase == "queue":
            return (self.queue_s or 0.0) - self.phase_since if self.waits else None
        if phase == "prefill":
            return (self.prefill_s or 0.0) - self.phase_since if self.state == "prefill" else None
        return (self.decode_s or 0.0) - self.phase_since if self.state == "decode" else None

    def _phase(self, ended: float | None, running: bool, mono_now: float | None) -> float | None:
        if not running or self.phase_since is None or mono_now is None:
            return ended
        return (ended or 0.0) + max(0.0, mono_now - self.phase_since)
