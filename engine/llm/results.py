"""What generating returns, under vLLM's names."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.llm.params import SamplingParams
from engine.llm.prompts import ReadPrompt
from engine.model.tokenizer import TextTokenizer
from engine.requests.logprobs import TokenLogprob
from engine.requests.stream import Output


@dataclass(frozen=True, slots=True)
class Logprob:
    """Of one token at one place: ``logprob`` in nats, ``rank`` from 1 on, by the model alone."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """``finish_reason``: stop, length, abort, error. ``stop_reason``: the stop token or the stop string that ended it; for
    an error or an abort, why. ``logprobs``: for each token, by token id, its own and those asked for."""

    index: int
    text: str
    token_ids: list[int]
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """``request_id``: the name it had on the screen. ``num_cached_tokens``: of its prompt, found in the prefix cache."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = True
    num_cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class BeamSearchSequence:
    """``tokens`` and ``text`` begin with the prompt, as vLLM has them. ``cum_logprob``: of the output, in nats."""

    tokens: list[int]
    text: str
    cum_logprob: float | None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class BeamSearchOutput:
    """Best first."""

    sequences: list[BeamSearchSequence] = field(default_factory=list)


def request_output(
    request_id: str, prompt: ReadPrompt, outputs: Sequence[Output], params: SamplingParams, tokenizer: TextTokenizer
) -> RequestOutput:
    """Of all ``outputs`` of one request, each complete."""
    usage = next((output.usage for output in outputs if output.usage is not None), None)
    return RequestOutput(
        request_id,
        prompt.text,
        prompt.token_ids,
        [_completion(output, params, tokenizer) for output in outputs],
        num_cached_tokens=None if usage is None else usage.cached_tokens,
    )


def beam_output(prompt: ReadPrompt, outputs: Sequence[Output], tokenizer: TextTokenizer) -> BeamSearchOutput:
    """Of the ``outputs`` of one search, by rank."""
    found = []
    for output in outputs:
        tokens = [*prompt.token_ids, *output.token_ids]
        score = None if output.usage is None else output.usage.log_probability
        found.append(BeamSearchSequence(tokens, tokenizer.decode(tokens), score, output.finish_reason))
    return BeamSearchOutput(found)


def _completion(output: Output, params: SamplingParams, tokenizer: TextTokenizer) -> CompletionOutput:
    logprobs = None if params.logprobs is None else [_told(each, tokenizer) for each in output.logprobs]
    return CompletionOutput(
        output.index,
        output.text,
        list(output.token_ids),
        None if logprobs is None else sum(each.logprob for each in output.logprobs),
        logprobs,
        output.finish_reason,
        output.stop_reason if output.finish_reason == "stop" else output.detail,
    )


def _told(token: TokenLogprob, tokenizer: TextTokenizer) -> dict[int, Logprob]:
    def of(number: int, logprob: float, rank: int) -> Logprob:
        return Logprob(logprob, rank, tokenizer.token_bytes(number).decode("utf-8", "replace"))

    told = {number: of(number, logprob, rank) for rank, (number, logprob) in enumerate(token.top, start=1)}
    return told if token.token_id in told else {token.token_id: of(*token[:3]), **told}
