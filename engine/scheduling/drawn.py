"""What a batch brought, by the item that asked for it."""

from collections.abc import Sequence
from typing import NamedTuple

from engine.requests.batch import BatchItem, StepOutput
from engine.requests.hypotheses import Candidate
from engine.requests.logprobs import TokenLogprob
from engine.scheduling.output import SchedulerOutput


class Drawn(NamedTuple):
    """An item with its tokens, one for each of its ``drawing``, what the model said of each where its request asked for that,
    and the candidates it wanted."""

    item: BatchItem
    tokens: Sequence[int]
    logprobs: Sequence[TokenLogprob | None]
    candidates: Sequence[Candidate]


def drawn_by_item(plan: SchedulerOutput, output: StepOutput) -> list[Drawn]:
    """What came back, by item. Raises ValueError for a wrong number of tokens, candidates or log-probabilities."""
    tokens, candidates = output.tokens, output.candidates
    drawn: list[Drawn] = []
    sampled = offered = 0
    for item in plan.items:
        first, sampled = sampled, sampled + item.draws
        following: Sequence[Candidate] = ()
        if item.candidates:
            following = candidates[offered] if offered < len(candidates) else ()
            offered += 1
        drawn.append(Drawn(item, tokens[first:sampled], _logprobs(item, output, range(first, sampled)), following))
    if len(tokens) != sampled:
        raise ValueError(f"the batch samples {sampled} tokens, {len(tokens)} came back")
    if len(candidates) != offered:
        raise ValueError(f"the batch asks for candidates of {offered} beams, those of {len(candidates)} came back")
    return drawn


def _logprobs(item: BatchItem, output: StepOutput, places: range) -> Sequence[TokenLogprob | None]:
    request = item.request
    if request.logprobs is None:
        return (None,) * len(places)
    found = [output.logprobs.get(place) for place in places]
    if None in found and request.num not in output.failures:
        raise ValueError(f"{request.id} asks for log-probabilities, and none came back")
    return found
