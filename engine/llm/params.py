"""How outputs are asked for, under vLLM's names and with its defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.requests.fields import MAX_TOKEN_ID, real, whole
from engine.requests.hypotheses import MAX_WIDTH, MIN_WIDTH, check_penalty
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.scheduling.forking import MAX_SAMPLES


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Raises ValueError, in one sentence that begins with the field, for what is out of range.

    ``n``: samples of the prompt. ``max_tokens``: of the output, None for as many as there is room for. ``top_k``: 0 or -1
    for all. ``logprobs``: how many of the likeliest tokens are told with each chosen one. The others as
    `engine.requests.sampling.Sampling` and `engine.requests.stopping.StopRules` explain them.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] | None = None
    seed: int | None = None
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        whole("n", self.n, 1, MAX_SAMPLES, "samples of one prompt")
        if self.max_tokens is not None:
            whole("max_tokens", self.max_tokens, 1, MAX_TOKEN_ID)
        self.sampling()
        self.stop_rules()

    def sampling(self) -> Sampling:
        """In the engine's terms."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=tuple((self.logit_bias or {}).items()),
            seed=self.seed,
            logprobs=self.logprobs,
            min_tokens=self.min_tokens,
        )

    def stop_rules(self) -> StopRules:
        """In the engine's terms."""
        stop = () if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        return StopRules(frozenset(self.stop_token_ids or ()), stop, self.ignore_eos)


@dataclass(frozen=True, slots=True)
class BeamSearchParams:
    """``beam_width``: 2 to 16. ``length_penalty``: the power of the output's length that its log-probability is divided
    by. Raises ValueError as `SamplingParams`."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        whole("beam_width", self.beam_width, MIN_WIDTH, MAX_WIDTH, "beams of a search")
        whole("max_tokens", self.max_tokens, 1, MAX_TOKEN_ID)
        check_penalty(real("length_penalty", self.length_penalty))
