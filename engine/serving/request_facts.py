"""What viewers are told of requests: their fields and block tables, whole or as far as they changed."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.requests.output_text import TokenBytes
from engine.requests.request import Request, RequestState
from engine.scheduling.scheduler import Scheduler
from engine.serving.exposed_text import ExposedText, TextSent
from kvtop.protocol import RequestChange

COUNTS = ("computed_tokens", "output_tokens", "blocks")
"""What changes in nearly every iteration."""

_GROWING = ("num", "table_at", "table", "output_text", "text_ends_at", "text_ends")
"""Of all that is told of a request, what is not compared with what was told before: it is told as far as it grew."""

KEPT_FINISHED = 32
"""Finished requests that stay visible before they are forgotten."""

SHED_AT_ONCE = 64
"""Requests whose told fields are given back a frame."""


@dataclass(slots=True)
class _Told:
    """What was told of one request, and what it depended on."""

    key: tuple[object, ...]
    fields: dict[str, Any]
    counts: tuple[int, int, int]
    """`COUNTS` since then; ``fields`` has older ones."""


class RequestFacts:
    """Remembers what was told of each request, so that costs follow what changed.

    ``attention_mode`` is the same for every request; ``token_bytes`` is given only when text may travel.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        attention_mode: str,
        token_bytes: TokenBytes | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._attention_mode = attention_mode
        self._token_bytes = token_bytes
        self._texts: dict[int, ExposedText] = {}
        self._text_sent: dict[int, TextSent] = {}
        self._told: dict[int, _Told] = {}
        self._stale: list[dict[int, _Told]] = []
        self._table_sent: dict[int, tuple[int, tuple[int, int, int]]] = {}
        self._touched: dict[int, Request] = {}
        self._finished: OrderedDict[int, Request] = OrderedDict()

    @property
    def has_news(self) -> bool:
        return bool(self._touched)

    def touch(self, request: Request) -> None:
        """The request may have changed."""
        self._touched[request.num] = request
        if request.state is RequestState.FINISHED:
            self._finished[request.num] = request

    def resend_table(self, request: Request) -> None:
        """The next frame carries its whole block table, also when that is empty by then."""
        self._table_sent[request.num] = (0, (-1, -1, -1))

    def finished(self, wanted: int | str) -> Request | None:
        """The finished request of this num or id, while it is still visible."""
        return next((r for r in self._finished.values() if wanted in (r.num, r.id)), None)

    def take_changes(self, awaited: Callable[[int], bool] | None = None) -> list[RequestChange]:
        """What changed since the last call about those that were touched. Of those ``awaited`` (by num), whom nobody was
        told of yet, nothing: they are going to be told whole."""
        touched: Iterable[Request] = self._touched.values()
        if awaited is not None:
            touched = [request for request in touched if request.num in self._told or not awaited(request.num)]
        changes = [change for request in touched if (change := self._change(request)) is not None]
        self._touched.clear()
        self._shed()
        return changes

    def take_forgotten(self) -> list[int]:
        """Nums of finished requests that are no longer kept."""
        forgotten = []
        while len(self._finished) > KEPT_FINISHED:
            num, _ = self._finished.popitem(last=False)
            self._told.pop(num, None)
            self._texts.pop(num, None)
            self._text_sent.pop(num, None)
            self._table_sent.pop(num, None)
            forgotten.append(num)
        return forgotten

    def _shed(self) -> None:
        """Gives back some of what nobody knows any more."""
        if self._stale:
            last = self._stale[-1]
            for _ in range(min(SHED_AT_ONCE, len(last))):
                last.popitem()
            if not last:
                self._stale.pop()

    def everybody(self) -> dict[int, Request]:
        """Every request that is known, live or finished, by num."""
        live = self._scheduler.requests
        # Beams of a preempted group stand behind their leader; viewers know them and go on to be told what changes.
        parked = {
            each.num: each for r in live.values() if r.beam is not None for each in r.samples if each in r.beam.seen
        }
        return {**live, **parked, **self._finished}

    def all(self) -> list[RequestChange]:
        """All that is known of everybody."""
        return [RequestChange.trusted(self._gather(request)) for request in self.everybody().values()]

    def is_known(self, request: Request) -> bool:
        """Not finished so long ago that it is forgotten."""
        return request.state is not RequestState.FINISHED or request.num in self._finished

    def whole(self, request: Request) -> dict[str, Any]:
        """All that is known of it: the fields of a `RequestChange`. Where nobody was told of it yet, it counts as told."""
        fields = self._gather(request)
        if request.num not in self._told:
            told = {name: value for name, value in fields.items() if name not in _GROWING}
            self._told[request.num] = _Told(self._key(request), told, _counts(request))
            self._table_sent[request.num] = (len(request.block_table), _life(request))
            self._text_sent[request.num] = self._text_now(request)
        return fields

    def forget_touched(self) -> None:
        """Nobody is to be told of what changed up to now."""
        self._touched.clear()
        self.take_forgotten()
        self._shed()

    def start_over(self) -> None:
        """Nobody knows anything any more."""
        # What was told of ten thousand takes milliseconds to give back: it goes bit by bit.
        if self._told:
            self._stale.append(self._told)
            self._told = {}
        self._table_sent.clear()
        self._text_sent.clear()
        self._touched.clear()

    def _gather(self, request: Request) -> dict[str, Any]:
        whole = {"num": request.num, "table_at": 0, "table": list(request.block_table), **self._fields(request)}
        if self._token_bytes is not None:
            whole["output_text"] = None if request.text is None else request.text.text
            whole["text_ends_at"], whole["text_ends"] = 0, list(self._text_of(request).ends)
        return whole

    def _change(self, request: Request) -> RequestChange | None:
        told, key = self._told.get(request.num), self._key(request)
        counts = _counts(request)
        changed: dict[str, Any] = {"num": request.num}
        if told is not None and told.key == key:
            # What nearly every request does in nearly every iteration: it has some more tokens.
            if told.counts != counts:
                for name, value, known in zip(COUNTS, counts, told.counts, strict=True):
                    if value != known:
                        changed[name] = value
                told.counts = counts
        else:
            before = {} if told is None else {**told.fields, **dict(zip(COUNTS, told.counts, strict=True))}
            fields = self._fields(request)
            changed |= {name: value for name, value in fields.items() if before.get(name) != value}
            self._told[request.num] = _Told(key, fields, counts)
        table, (length, life) = request.block_table, self._table_sent.get(request.num, (0, (request.admissions, 0, 0)))
        now = _life(request)
        if life != now or len(table) < length:
            length, force = 0, True
        else:
            force = False
        if force or len(table) > length:
            changed["table_at"], changed["table"] = length, table[length:]
        if force or len(table) != length or life != now:
            self._table_sent[request.num] = (len(table), now)
        if self._token_bytes is not None:
            changed |= self._more_text(request)
        return RequestChange.trusted(changed) if len(changed) > 1 else None

    def _more_text(self, request: Request) -> dict[str, Any]:
        """What has come to its text since it was last told."""
        now, sent = self._text_now(request), self._text_sent.get(request.num, TextSent(takeovers=request.takeovers))
        if now == sent:
            return {}
        self._text_sent[request.num] = now
        fields: dict[str, Any] = {}
        if now.takeovers != sent.takeovers or now.characters < sent.characters or now.ends < sent.ends:
            sent = TextSent()
            fields = {"output_at": 0, "output_more": "", "text_ends_at": 0, "text_ends": []}
        if now.characters > sent.characters and request.text is not None:
            fields["output_at"], fields["output_more"] = sent.characters, request.text.text[sent.characters :]
        if now.ends > sent.ends:
            fields["text_ends_at"], fields["text_ends"] = sent.ends, self._texts[request.num].ends[sent.ends :]
        return fields

    def _text_now(self, request: Request) -> TextSent:
        if self._token_bytes is None:
            return TextSent()
        characters = 0 if request.text is None else len(request.text.text)
        return TextSent(characters, len(self._text_of(request).ends), request.takeovers)

    def _text_of(self, request: Request) -> ExposedText:
        assert self._token_bytes is not None
        text = self._texts.get(request.num)
        if text is None:
            text = ExposedText(request, self._token_bytes, self._scheduler.pool.block_size)
            self._texts[request.num] = text
        text.follow(request)
        return text

    def _key(self, request: Request) -> tuple[object, ...]:
        """All that `_fields` depends on beyond the counts: while it is the same, so are they. A few times cheaper."""
        times, pool, tiers = request.times, self._scheduler.pool, self._scheduler.tiers
        return (
            request.state,
            request.cached,
            request.reserved_blocks,
            times.since,
            times.queue,
            times.prefill,
            times.decode,
            request.first_token,
            request.preemptions,
            request.recomputed,
            request.lost_seconds,
            request.finish_reason,
            request.kv_dtype or self._scheduler.kv_types.in_force,
            request.first_sample,
            request.siblings,
            request.score,
            request.max_tokens,
            pool.pinned_total and self._pinned(request),
            tiers is not None and request.num in tiers.swapped and tiers.swapped[request.num].books.name,
        )

    def _fields(self, request: Request) -> dict[str, Any]:
        times = request.times
        state, tier = self._where(request)
        fields: dict[str, Any] = {
            "id": request.id,
            "label": request.label,
            "state": state,
            "tier": tier if self._scheduler.tiers is not None else None,
            "priority": request.priority,
            "group": request.first_sample,
            "siblings": None if request.first_sample is None else request.siblings,
            "score": request.score,
            "arrival": request.arrival_wall,
            "prompt_tokens": request.prompt_tokens,
            "max_tokens": request.max_tokens,
            "cached_tokens": request.cached,
            **dict(zip(COUNTS, _counts(request), strict=True)),
            "pinned_blocks": self._pinned(request),
            "reserved_blocks": request.reserved_blocks,
            "phase_since": times.since,
            "queue_s": times.queue,
            "prefill_s": times.prefill,
            "decode_s": times.decode,
            "preemptions": request.preemptions,
            "recomputed_tokens": request.recomputed,
            "lost_s": request.lost_seconds,
            "ttft_s": request.ttft,
            "tpot_s": request.tpot if request.state is RequestState.FINISHED else None,
            "finish_reason": None if request.finish_reason is None else str(request.finish_reason),
            "cache_dtype": request.kv_dtype or self._scheduler.kv_types.in_force,
            "attention_mode": self._attention_mode,
        }
        if self._token_bytes is not None:
            fields["prompt_text"] = self._text_of(request).prompt
        return fields

    def _where(self, request: Request) -> tuple[str, str]:
        """Its state and the tier of its KV, as the protocol names them."""
        tiers = self._scheduler.tiers
        if tiers is not None and request.state is RequestState.PREEMPTED and request.num in tiers.swapped:
            return "swapped", tiers.swapped[request.num].books.name
        return str(request.state), "device"

    def _pinned(self, request: Request) -> int:
        pool = self._scheduler.pool
        return int((pool.pins[request.held] > 0).sum()) if pool.pinned_total else 0


def _life(request: Request) -> tuple[int, int, int]:
    """While it is the same, the request's block table only grows at its end."""
    return request.admissions, request.holes, request.takeovers


def _counts(request: Request) -> tuple[int, int, int]:
    return request.computed_tokens, len(request.token_ids) - request.prompt_tokens, len(request.held)
