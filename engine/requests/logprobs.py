"""What the model said of a token that was chosen."""

from collections.abc import Sequence
from typing import NamedTuple

Ranked = tuple[tuple[int, float], ...]
"""Tokens with their log-probabilities (nats), likeliest first, of equals the lower id."""


class TokenLogprob(NamedTuple):
    """``logprob`` (nats), and ``rank`` among the whole vocabulary, 1 the likeliest, of equals the lower id; ``top``: the
    likeliest, as many as were asked for. All by the model alone: before bias, penalties and temperature."""

    token_id: int
    logprob: float
    rank: int
    top: Ranked = ()


def of_candidate(candidates: Sequence[tuple[int, float]], place: int, tops: int) -> TokenLogprob:
    """Of the token at ``place`` of the likeliest there, with the first ``tops`` of them."""
    token, logprob = candidates[place]
    return TokenLogprob(token, logprob, place + 1, tuple(candidates[:tops]))
