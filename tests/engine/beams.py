"""For tests of beam search: a search written out from the definition, with no blocks and no requests."""

from collections.abc import Callable, Sequence

from engine.requests.hypotheses import Candidate
from engine.requests.request import FinishReason, Request

Follow = Callable[[list[list[int]], int], list[list[Candidate]]]
"""The likeliest next tokens of each of several sequences, so many, likeliest first."""


def search(
    follow: Follow,
    prompt: Sequence[int],
    width: int,
    most: int,
    *,
    penalty: float = 1.0,
    stop_ids: frozenset[int] = frozenset(),
) -> list[tuple[list[int], float]]:
    """Outputs of at most ``most`` tokens with the sum of their log-probabilities, best first; never ends early."""
    beams: list[tuple[list[int], float]] = [([], 0.0)]
    ended: list[tuple[list[int], float]] = []
    for _ in range(most):
        if not beams:
            break
        offers = follow([[*prompt, *output] for output, _ in beams], width + max(width, len(stop_ids)))
        grown = [
            ([*output, token], total + gain)
            for (output, total), offered in zip(beams, offers, strict=True)
            for token, gain in offered
        ]
        grown.sort(key=lambda pair: -pair[1])
        ended += [pair for pair in grown if pair[0][-1] in stop_ids]
        beams = [pair for pair in grown if pair[0][-1] not in stop_ids][:width]
    everything = [*ended, *beams]
    everything.sort(key=lambda pair: -(pair[1] / len(pair[0]) ** penalty))
    return everything[:width]


def outputs_of(request: Request) -> list[list[int]]:
    """Of all members of its group, best first."""
    assert request.beam is not None
    return [member.token_ids[member.prompt_tokens :] for member in request.beam.members]


def ended_by_itself(request: Request) -> bool:
    """Not aborted, and not cut off for want of room."""
    reason = request.finish_reason
    return reason is FinishReason.STOP or (reason is FinishReason.LENGTH and request.finish_detail is None)
