"""A request as the scheduler sees it: its tokens, its block table, its limits, and where its time went."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from engine.requests.beam import Beam
from engine.requests.logprobs import TokenLogprob
from engine.requests.output_text import OutputText
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules


class RequestState(StrEnum):
    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    LOADING = "loading"
    """Admitted, and waiting for blocks that are copied to the device for it."""
    PREEMPTED = "preempted"
    FINISHED = "finished"


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"
    ERROR = "error"


@dataclass(slots=True)
class PhaseTimes:
    """Seconds by phase. The running phase began at ``since`` (monotonic) and is not in the sums yet."""

    since: float
    queue: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0


NULL_BLOCK = -1
"""In a block table: there was a block, and nobody needs it there any more."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Request:
    """One sequence. ``token_ids`` holds prompt then output; ``block_table[i]`` holds the KV of positions
    ``i*block_size …`` (with several KV groups see `engine.memory.groups`); positions below ``computed_tokens`` have their KV
    written."""

    num: int
    id: str
    token_ids: list[int]
    prompt_tokens: int
    max_tokens: int
    arrival_wall: float
    arrival: float
    priority: int = 0
    label: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    stop: StopRules = field(default_factory=StopRules)
    """What it asked to be stopped by."""
    stop_ids: frozenset[int] = frozenset()
    """All tokens that end it, the model's end of sequence among them unless it ignores that."""
    text: OutputText | None = None
    """The text of its output, where somebody needs that: to find stop strings, or to read it."""
    on_output: Callable[["Request"], None] | None = None
    """Told, on the engine's thread, when it has one token more and when it has ended."""
    cache_salt: str = ""
    retention: tuple[Retention, ...] = ()
    """What parts of it are worth keeping in the cache, and for how long."""
    samples: list["Request"] = field(default_factory=list)
    """Further samples of its prompt, which fork off as soon as that is computed; empty from then on."""
    first_sample: int | None = None
    """Num of the first of the samples drawn from one prompt; None for a request with one sample."""
    siblings: int = 1
    """Samples of that prompt, itself included."""
    beam: "Beam[Request] | None" = None
    """The beam search whose beam it is, one of ``siblings``."""
    score: float | None = None
    """Of a beam: the sum of the log-probabilities (nats) of its output tokens."""
    takeovers: int = 0
    """Times its tokens and its table were replaced by those of another beam."""

    state: RequestState = RequestState.WAITING
    block_table: list[int] = field(default_factory=list)
    holes: int = 0
    """Places of ``block_table`` that are `NULL_BLOCK`: no layer that had its KV there sees those positions again."""
    chained: int = 0
    """Leading logical blocks whose content can be found by its hash, or could when they were given up. What does not
    continue them is never found by others."""
    computed_tokens: int = 0
    cached: int = 0
    reserved_blocks: int = 0
    forked_tail: bool = False
    """Its last block came from a fork and is still incomplete: it may need one more, for a copy before it writes."""
    proposed: list[int] = field(default_factory=list)
    """Tokens that somebody expects to follow those it has: to be computed with the next one, and kept if they do."""
    hashes: list[int] = field(default_factory=list)
    """Chained hashes (64-bit) of its complete blocks known so far, by place."""

    admissions: int = 0
    """Times it began to run: from the queue, or beside the request that it forked from."""
    preemptions: int = 0
    lost_seconds: float = 0.0
    """From its admissions to the preemptions that gave up what it had computed since."""
    recomputed: int = 0
    computed_ever: int = 0
    """Highest ``computed_tokens`` it reached: tokens below it that are computed again are recomputation."""

    kv_dtype: str | None = None
    """Element type of its KV since its latest admission; None before the first."""

    started: float | None = None
    """Monotonic seconds of its latest admission."""

    first_token: float | None = None
    last_token: float | None = None
    token_before: float | None = None
    """Monotonic seconds of the token, or of those that came at a time, before the latest."""
    finish_reason: FinishReason | None = None
    finish_detail: str | None = None
    """Why it ended, in a sentence, where the reason alone does not say it."""

    times: PhaseTimes = field(init=False)

    logprobs: list[TokenLogprob] | None = field(init=False)
    """Of its output tokens, one each, but for those that were taken; None where it asked for none."""
    logprob_sum: float = field(init=False, default=0.0)
    """Of all its output tokens, for those of beams see ``score``."""

    def __post_init__(self) -> None:
        self.times = PhaseTimes(since=self.arrival)
        self.logprobs = None if self.sampling.logprobs is None else []

    @property
    def held(self) -> list[int]:
        """The blocks of its table, without those that it has given up."""
        return [block for block in self.block_table if block != NULL_BLOCK] if self.holes else self.block_table

    @property
    def output_tokens(self) -> int:
        return len(self.token_ids) - self.prompt_tokens

    @property
    def log_probability(self) -> float | None:
        """Of its output, by the model (nats); None where nobody asked for it."""
        return self.score if self.score is not None or self.logprobs is None else self.logprob_sum

    def take_logprobs(self) -> list[TokenLogprob]:
        """Those that have come since they were taken last: from now on whoever reads them keeps them."""
        if not self.logprobs:
            return []
        taken, self.logprobs = self.logprobs, []
        return taken

    @property
    def total_limit(self) -> int:
        """Tokens it can have at most, prompt and output."""
        return self.prompt_tokens + self.max_tokens

    @property
    def kv_limit(self) -> int:
        """Tokens whose KV it can need at most: the last token sampled is never fed back."""
        return self.total_limit - 1

    @property
    def remaining(self) -> int:
        """Tokens whose KV is still to be computed before the next one can be sampled."""
        return len(self.token_ids) - self.computed_tokens

    @property
    def is_at_first_admission(self) -> bool:
        """Its prompt is looked up in the prefix cache for the first time. That of a sample, which may have to wait for room
        with its first token, was looked up for the request it forked from."""
        return self.admissions == 1 and self.first_sample in (None, self.num)

    @property
    def stopped_by(self) -> int | str | None:
        """The stop token or stop string of its own that ended it; None for the model's end of sequence, and where none did."""
        if self.finish_reason is not FinishReason.STOP:
            return None
        last = self.token_ids[-1]
        if last in self.stop_ids:
            return last if last in self.stop.token_ids else None
        return None if self.text is None else self.text.matched

    @property
    def ttft(self) -> float | None:
        """Seconds from arrival to the first output token; None before it."""
        return None if self.first_token is None else max(0.0, self.first_token - self.arrival)

    @property
    def tpot(self) -> float | None:
        """Mean seconds between output tokens; None before the second."""
        if self.first_token is None or self.last_token is None or self.output_tokens < 2:
            return None
        return max(0.0, self.last_token - self.first_token) / (self.output_tokens - 1)

    def enter(self, state: RequestState, now: float) -> None:
        """Change state and book the time of the phase that ends."""
        spent = max(0.0, now - self.times.since)
        if self.state in (RequestState.WAITING, RequestState.PREEMPTED, RequestState.LOADING):
            self.times.queue += spent
        elif self.state is RequestState.PREFILL:
            self.times.prefill += spent
        elif self.state is RequestState.DECODE:
            self.times.decode += spent
        self.state = state
        self.times.since = now
        if state is RequestState.FINISHED:
            if self.text is not None:
                self.text.finish()
            if self.on_output is not None:
                self.on_output(self)
