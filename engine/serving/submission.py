"""What is asked for at `engine.serving.server.Server.submit`, checked field by field before anything else is done with it.

Whatever passes here can be served, shown and told to every viewer: no value of one request may end the engine's loop. All
of it is checked in the thread of whoever asks.
"""

from collections.abc import Iterable, Sequence, Set, Sized
from dataclasses import dataclass
from typing import Any

from engine.requests.fields import MAX_TOKEN_ID, real, shown, text, whole
from engine.requests.hypotheses import MAX_WIDTH, MIN_WIDTH, check_penalty
from engine.requests.output_text import OutputText, StopString, TokenBytes
from engine.requests.request import Request
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import MAX_SAMPLES, add_samples
from engine.serving.names import checked_id
from kvtop.protocol import RequestChange

MAX_LABEL = next(m.max_length for m in RequestChange.model_fields["label"].metadata if hasattr(m, "max_length"))
"""Characters; the protocol's own limit."""

MAX_SALT = 256
"""Characters."""

MAX_RETENTIONS = 64
"""Ranges, each of which is looked at for each block."""

_PLAIN = Sampling()

PRIORITIES = range(-(1 << 31), 1 << 31)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What requests are written in: ``size`` token ids from 0 on, those that end an output, and the bytes of each; without
    ``token_bytes`` there is no text."""

    size: int = MAX_TOKEN_ID + 1
    eos_ids: frozenset[int] = frozenset()
    token_bytes: TokenBytes | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """One request as it was asked for; fields as `engine.serving.server.Server.submit` explains them. Raises ValueError in
    one sentence that begins with the name of the field."""

    token_ids: Sequence[int]
    max_tokens: int
    label: str | None = None
    priority: int = 0
    sampling: Sampling | None = None
    stop: StopRules | None = None
    retention: Sequence[Retention] = ()
    n: int = 1
    cache_salt: str = ""
    beam: int | None = None
    length_penalty: float = 1.0
    arrival: float | None = None
    request_id: str | None = None

    def __post_init__(self) -> None:
        self._become("token_ids", _token_ids(self.token_ids))
        self._become("max_tokens", whole("max_tokens", self.max_tokens, 1, MAX_TOKEN_ID))
        self._become("label", None if self.label is None else text("label", self.label, MAX_LABEL) or None)
        self._become("priority", whole("priority", self.priority, PRIORITIES[0], PRIORITIES[-1]))
        self._become("sampling", _one_of("sampling", self.sampling or Sampling(), Sampling))
        if (least := (self.sampling or Sampling()).min_tokens) > self.max_tokens:
            raise ValueError(f"min_tokens: {least} is above max_tokens, {self.max_tokens}")
        self._become("stop", _one_of("stop", self.stop or StopRules(), StopRules))
        self._become("retention", _retentions(self.retention))
        self._become("n", whole("n", self.n, 1, MAX_SAMPLES, "samples of one prompt"))
        self._become("cache_salt", text("cache_salt", self.cache_salt, MAX_SALT))
        if self.beam is not None:
            self._become("beam", whole("beam", self.beam, MIN_WIDTH, MAX_WIDTH, "beams of a search"))
            if self.n != 1:
                raise ValueError(f"n: a beam search draws no samples, so {self.n} cannot go with beam={self.beam}")
            self._check_beams(self.sampling or Sampling())
        self._become("length_penalty", real("length_penalty", self.length_penalty))
        check_penalty(self.length_penalty)
        if self.request_id is not None:
            self._become("request_id", checked_id(self.request_id))
        if self.arrival is not None:
            self._become("arrival", real("arrival", self.arrival))
            if self.arrival < 0:  # no clock showed it, and everybody's percentiles would be of its wait
                raise ValueError(f"arrival: {self.arrival} is before the engine's clock began")

    def _become(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)

    def _check_beams(self, sampling: Sampling) -> None:
        """A search ranks outputs by what the model says of them, so nothing may change that."""
        for field in ("presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "min_tokens"):
            if (value := getattr(sampling, field)) != getattr(_PLAIN, field):
                raise ValueError(
                    f"{field}: a beam search goes by the model alone, so {shown(value)} cannot go with beam={self.beam}"
                )

    @property
    def requests(self) -> int:
        """How many this makes: one, its samples, or its beams."""
        return self.beam or self.n

    def check(self, vocabulary: Vocabulary) -> None:
        """Raises ValueError for what this engine's model does not have."""
        stop, sampling = self.stop or StopRules(), self.sampling or Sampling()
        biased = [token for token, _ in sampling.logit_bias]
        for field, ids in (("token_ids", self.token_ids), ("stop_token_ids", stop.token_ids), ("logit_bias", biased)):
            if ids and not (min(ids) >= 0 and max(ids) < vocabulary.size):
                strange = next(token for token in ids if not 0 <= token < vocabulary.size)
                raise ValueError(f"{field}: {strange:.0f} is not in the model's vocabulary, 0 to {vocabulary.size - 1}")
        if stop.strings and vocabulary.token_bytes is None:
            raise ValueError("stop: strings need a tokenizer, and this engine has none; stop at token_ids")
        if sampling.min_tokens and len(stop.stop_ids(vocabulary.eos_ids)) >= vocabulary.size:
            raise ValueError("min_tokens: every token of the model's vocabulary ends this output")

    def name(self, num: int) -> str:
        """What its request is called: as its client wants, else by its label and ``num``."""
        return self.request_id or f"{self.label or 'r'}-{num:04d}"

    def build(
        self,
        nums: Sequence[int],
        name: str,
        vocabulary: Vocabulary,
        *,
        arrival: float,
        arrival_wall: float,
        readable: bool,
    ) -> Request:
        """The request, and behind it its samples or beams, with these ``nums``. ``readable``: somebody reads its text."""
        stop, sampling = self.stop or StopRules(), self.sampling or Sampling()
        wanted = vocabulary.token_bytes is not None and (readable or stop.strings)
        token_bytes = vocabulary.token_bytes if wanted else None
        request = Request(
            num=nums[0],
            id=name,
            token_ids=list(self.token_ids),
            prompt_tokens=len(self.token_ids),
            max_tokens=self.max_tokens,
            arrival_wall=arrival_wall,
            arrival=arrival,
            priority=self.priority,
            label=self.label,
            sampling=sampling,
            stop=stop,
            stop_ids=stop.stop_ids(vocabulary.eos_ids),
            text=None
            if token_bytes is None
            else OutputText(token_bytes, [StopString(string) for string in stop.strings], sampling.min_tokens),
            retention=tuple(self.retention),
            cache_salt=self.cache_salt,
        )
        if self.beam is not None:
            add_beams(request, list(nums[1:]), self.length_penalty)
        elif self.n > 1:
            add_samples(request, list(nums[1:]))
        return request


def _token_ids(given: Any) -> list[int]:
    no_list = isinstance(given, str | bytes | bytearray | memoryview | dict | Set)
    if no_list or not isinstance(given, Iterable) or not isinstance(given, Sized):
        raise ValueError(f"token_ids: {shown(given)} is not a list of token ids")
    ids = list(given)
    # Most come as they should: what a prompt of 100,000 tokens costs is one look at each.
    if not all(type(token) is int for token in ids):
        ids = [whole(f"token_ids[{place}]", token, 0, MAX_TOKEN_ID) for place, token in enumerate(ids)]
    if not ids:
        raise ValueError("token_ids: a prompt has one token at least")
    return ids


def _one_of(field: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{field}: {shown(value)} is not {kind.__name__}")
    return value


def _retentions(given: Any) -> tuple[Retention, ...]:
    if not isinstance(given, Sequence) or not all(isinstance(each, Retention) for each in given):
        raise ValueError(f"retention: {shown(given)} is not a list of Retention")
    if len(given) > MAX_RETENTIONS:
        raise ValueError(f"retention: {len(given)} ranges are too many; the most is {MAX_RETENTIONS}")
    return tuple(given)
