"""What both kinds of requests have in common: their fields, and what the engine is asked for with them.

Fields that nobody knows are let pass, as OpenAI-compatible servers do: clients send what other servers offer. Those that would
change the answer if they were served are refused by name instead, unless they ask for what is done anyway.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.http.errors import invalid
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules

Finite = Annotated[float, Field(allow_inf_nan=False)]

Part = TypeVar("Part")
ListOf = Annotated[list[Part], Field(fail_fast=True)]
"""A list that is read up to its first fault: a body has room for two million, and each that is told takes a kilobyte."""

_UNSERVED: dict[str, tuple[Any, ...]] = {
    "allowed_token_ids": ([],),
    "audio": (),
    "bad_words": ([],),
    "chat_template": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "echo": (False,),
    "function_call": ("none",),
    "functions": ([],),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_stop_str_in_output": (False,),
    "logits_processors": ([],),
    "modalities": (["text"],),
    "prediction": (),
    "prompt_embeds": (),
    "prompt_logprobs": (False,),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "structured_outputs": (),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "truncate_prompt_tokens": (),
    "web_search_options": (),
}
"""By name: the values that ask for nothing else than what is done."""


class Given(BaseModel):
    """Part of a request. A whole number is taken where a number is wanted; a text never is."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class StreamOptions(Given):
    include_usage: bool = False
    """One chunk more, without choices, that has the usage."""
    continuous_usage_stats: bool = False
    """The usage so far in every chunk."""


class Range(Given):
    """A part of the request's tokens that is worth keeping; see `engine.requests.retention.Retention`."""

    start: int = 0
    end: int | None = None
    priority: int
    seconds: Finite | None = None


class Common(Given):
    """Fields of completions and chats, as OpenAI and vLLM name them; ``beam_width`` and ``retention`` are this engine's."""

    LABEL: ClassVar[str]
    """What its requests are called on the screen."""
    PROMPT_FIELD: ClassVar[str]
    """The field that its prompts come from."""
    TEMPLATED: ClassVar[bool] = False
    """Whether reading them runs a program of the model's, which can take its time however small the body is."""

    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: Annotated[int, Field(ge=1)] = 1
    best_of: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: int = 0
    stop: str | ListOf[str] = []
    stop_token_ids: ListOf[int] = []
    ignore_eos: bool = False
    seed: int | None = None
    temperature: Finite = 1.0
    top_p: Finite = 1.0
    top_k: int = 0
    min_p: Finite = 0.0
    presence_penalty: Finite = 0.0
    frequency_penalty: Finite = 0.0
    repetition_penalty: Finite = 1.0
    logit_bias: dict[str, Finite] = {}
    use_beam_search: bool = False
    beam_width: int | None = None
    length_penalty: Finite = 1.0
    priority: int = 0
    cache_salt: str = ""
    retention: ListOf[Range] = []
    request_id: str | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False

    @property
    def told_logprobs(self) -> int | None:
        """How many of the likeliest tokens are told with each; None: nothing is."""
        raise NotImplementedError

    @property
    def output_field(self) -> str:
        """The field that says how many output tokens are wanted."""
        return "max_tokens"

    @property
    def beam(self) -> int | None:
        """Beams of its search. Raises `ApiError` where fewer than it wants answers."""
        if not self.use_beam_search:
            return None
        width = self.n if self.beam_width is None else self.beam_width
        if width < self.n:
            raise invalid(f"beam_width: {width} beams have no {self.n} best outputs", "beam_width")
        return width

    def sampling(self) -> Sampling:
        """Raises ValueError in a sentence that begins with the field."""
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=_biases(self.logit_bias),
            seed=self.seed,
            logprobs=self.told_logprobs,
            min_tokens=self.min_tokens,
        )

    def stop_rules(self) -> StopRules:
        strings = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)
        return StopRules(frozenset(self.stop_token_ids), strings, self.ignore_eos)

    def retentions(self) -> list[Retention]:
        return [Retention(each.start, each.end, each.priority, each.seconds) for each in self.retention]


def _biases(given: Mapping[str, float]) -> tuple[tuple[int, float], ...]:
    for token in given:
        if not (token.isascii() and token.isdecimal() and len(token) <= 10):
            raise invalid(f"logit_bias: {token[:40]!r} is not a token id", "logit_bias")
    return tuple((int(token), bias) for token, bias in given.items())


_WANTED = {
    "prompt": "neither a text, nor token ids, nor a list of either",
    "stop": "neither a text nor a list of texts",
}
"""What is said of fields that take one of several kinds: what is wrong with each kind says less."""

Kind = TypeVar("Kind", bound=Given)


def read_fields(kind: type[Kind], given: Mapping[str, Any]) -> Kind:
    """``given`` as such a request; fields that are null are those that were not given. Raises `ApiError` naming the field."""
    told = {name: value for name, value in given.items() if value is not None}
    for name, harmless in _UNSERVED.items():
        if name in told and told[name] not in harmless:
            raise invalid(f"{name}: this engine does not serve that", name, "unsupported")
    n, best_of = told.get("n", 1), told.get("best_of")
    if best_of is not None and best_of != n:
        raise invalid(f"best_of: all that are drawn are answered, so it can only be n, which is {n!r:.40}", "best_of")
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        first = min(error.errors(include_url=False, include_input=False), key=lambda each: len(each["loc"]) > 1)
        place = _place(first["loc"])
        wanted = _WANTED.get(place.rpartition(".")[2].partition("[")[0])
        said = first["msg"] if wanted is None or error.error_count() == 1 else f"it is {wanted}"
        raise invalid(f"{place}: {said}" if place else said, place or None) from None


def _place(parts: tuple[int | str, ...]) -> str:
    """The path that a client would write; names of alternatives that were tried are no part of it."""
    place = ""
    for part in parts:
        if isinstance(part, int):
            place += f"[{part}]"
        elif not place:
            place = part
        elif part.isidentifier() and part not in ("str", "int"):
            place += f".{part}"
    return place
