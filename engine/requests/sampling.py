"""How the tokens of an output are chosen, as its client asked for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.requests.fields import MAX_TOKEN_ID, real, shown, whole

SEEDS = range(-(1 << 63), 1 << 64)
"""All that fit 64 bits, with a sign or without."""

MAX_LOGPROBS = 20
MAX_BIASES = 1024
"""Both bound what a request can cost the batch it runs in, for each of its tokens."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What changes the choice, in the order in which it does; every default changes nothing. Names as in vLLM.

    ``logit_bias``: what is added to the logits of these tokens; a mapping or pairs, kept as pairs by token.
    ``min_tokens``: before so many output tokens none that ends the output is chosen, and no stop string looked for.
    ``repetition_penalty``: positive logits of tokens that the prompt or the output has are divided by it, others
    multiplied. ``frequency_penalty``: taken off for each time that the output has the token; ``presence_penalty``: once, if
    it has it. ``temperature``: 0 takes the likeliest by then, and what follows has no effect. ``min_p``: tokens less likely
    than this share of the likeliest are out. ``top_k``: all but the k likeliest are out, 0 for none. ``top_p``: of the rest,
    all but the likeliest that together have this share. ``seed``: of the random choices.

    ``logprobs``: None, or how many of the likeliest tokens are told with each chosen one: their log-probabilities by the
    model alone, before all of the above.

    Raises ValueError, in one sentence that begins with the field, for what is out of range.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    logprobs: int | None = None
    min_tokens: int = 0

    adjusts: bool = field(init=False, repr=False, compare=False)
    """Whether the logits are changed before a token is chosen; most are not, and it is asked for each token."""

    def __post_init__(self) -> None:
        self._between("temperature", 0.0, 100.0)
        self._between("top_p", 0.0, 1.0, open_below=True)
        self._become("top_k", whole("top_k", self.top_k, 0, MAX_TOKEN_ID))
        self._between("min_p", 0.0, 1.0)
        self._between("presence_penalty", -2.0, 2.0)
        self._between("frequency_penalty", -2.0, 2.0)
        self._between("repetition_penalty", 0.0, 100.0, open_below=True)
        self._become("logit_bias", _biases(self.logit_bias))
        if self.seed is not None:
            self._become("seed", whole("seed", self.seed, SEEDS[0], SEEDS[-1]))
        if self.logprobs is not None:
            self._become("logprobs", whole("logprobs", self.logprobs, 0, MAX_LOGPROBS))
        self._become("min_tokens", whole("min_tokens", self.min_tokens, 0, MAX_TOKEN_ID))
        self._become("adjusts", self.penalises or bool(self.logit_bias) or self.min_tokens > 0)

    @property
    def penalises(self) -> bool:
        """Whether the choice depends on the tokens before it by more than the model."""
        return bool(self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1.0)

    def _between(self, field: str, low: float, high: float, *, open_below: bool = False) -> None:
        value = real(field, getattr(self, field))
        if not low <= value <= high or (open_below and value == low):
            raise ValueError(
                f"{field}: {value} is not in {f'({low:g}, {high:g}]' if open_below else f'{low:g}…{high:g}'}"
            )
        self._become(field, value)

    def _become(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)


def _biases(given: Mapping[int, float] | Iterable[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    pairs = list(given.items()) if isinstance(given, Mapping) else given
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
        raise ValueError(f"logit_bias: {shown(given)} is not a mapping of token ids to numbers")
    found: dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"logit_bias: {shown(pair)} is not a pair of a token id and a number")
        token, bias = whole("logit_bias", pair[0], 0, MAX_TOKEN_ID), real(f"logit_bias[{shown(pair[0])}]", pair[1])
        if not -100.0 <= bias <= 100.0:
            raise ValueError(f"logit_bias[{token}]: {bias} is not in -100…100")
        if token in found:
            raise ValueError(f"logit_bias[{token}]: is given twice")
        found[token] = bias
    if len(found) > MAX_BIASES:
        raise ValueError(f"logit_bias: {len(found)} tokens are too many; the most is {MAX_BIASES}")
    return tuple(sorted(found.items()))
