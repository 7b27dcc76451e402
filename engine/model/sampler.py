"""The next token from the logits: greedy, or at random with temperature and top-p.

A random choice depends on the logits, the request's seed and the token's position alone. So it is the same in any
batch and after a preemption, as far as the logits are: matrix products over more rows may round differently.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from engine.requests.sampling import Sampling

SORTED_AT_ONCE = 512
"""So few tokens are put in order by sorting them; of more, only those around the one that is looked for."""

DIGIT_BITS = 12
"""Bits of a mass by which tokens are told apart at once: of a float32's, exponent and four binary places at first."""

Masses = np.ndarray[tuple[int], np.dtype[np.float32]]
"""Probability mass of each token, none negative; together about 1."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row needs to be sampled. ``request`` is its number, ``position`` that of the new token."""

    params: Sampling
    request: int
    position: int


@dataclass(frozen=True, slots=True)
class SamplerOutput:
    """One entry a row. ``tokens``: the ids; where ``bad``, 0, for those logits are no numbers (NaN or infinite)."""

    tokens: list[int]
    bad: list[bool]


class Sampler:
    """Requests without a seed of their own get one from ``seed`` (drawn by chance when None) and their number."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = secrets.randbits(64) if seed is None else seed

    def sample(self, logits: Tensor, draws: Sequence[Draw]) -> SamplerOutput:
        """One token id for each row of ``logits`` (``[rows, vocab]``). No row's fate depends on another's."""
        if not draws:
            return SamplerOutput([], [])
        highest, best = logits.max(dim=-1)
        tokens: list[int] = best.tolist()
        bad: list[bool] = (~torch.isfinite(highest)).tolist()
        tokens = [0 if broken else token for token, broken in zip(tokens, bad, strict=True)]
        random = [row for row, draw in enumerate(draws) if draw.params.temperature > 0 and not bad[row]]
        if random:
            if len(random) < len(draws):
                logits, highest = logits[random], highest[random]
            chosen = self._choose(logits, highest, [draws[row] for row in random])
            for row, token in zip(random, chosen, strict=True):
                tokens[row] = token
        return SamplerOutput(tokens, bad)

    def uniform(self, draw: Draw) -> float:
        """The draw's number in [0, 1). Philox with the seed as key and the position as counter (Salmon et al., 2011)."""
        if draw.params.seed is None:
            key = np.array([self._seed & _MASK, draw.request & _MASK], dtype=np.uint64)
        else:
            key = np.array([draw.params.seed & _MASK, _SEEDED], dtype=np.uint64)
        return float(np.random.Generator(np.random.Philox(key=key, counter=draw.position)).random())

    def _choose(self, logits: Tensor, highest: Tensor, draws: Sequence[Draw]) -> list[int]:
        place = {"device": logits.device, "dtype": torch.float32}
        temperatures = torch.tensor([draw.params.temperature for draw in draws], **place)  # type: ignore[arg-type]
        # The highest is taken off first, so that a tiny temperature cannot overflow.
        shifted = logits.float() - highest.float()[:, None]
        masses = torch.softmax(shifted.div_(temperatures[:, None]), dim=-1).cpu().numpy()
        return [choose(row, draw.params.top_p, self.uniform(draw)) for row, draw in zip(masses, draws, strict=True)]


def likeliest(logits: Tensor, counts: Sequence[int]) -> list[list[tuple[int, float]] | None]:
    """The likeliest next tokens of each row, with their log-probabilities (nats, float32), before any temperature.

    ``counts`` for each row: how many (the whole vocabulary at most). Likeliest first, of equals the lower id. None for a
    row whose logits are no numbers.
    """
    if not counts:
        return []
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    found: list[list[tuple[int, float]] | None] = []
    for row, count in zip(log_probabilities, counts, strict=True):
        lowest = torch.topk(row, min(count, len(row))).values[-1]
        if not torch.isfinite(lowest):
            found.append(None)
            continue
        # More than wanted where several are equal to the last: topk does not say which of them it takes.
        ids = torch.nonzero(row >= lowest).flatten()
        pairs = zip(ids.tolist(), row[ids].tolist(), strict=True)
        found.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count])
    return found


_MASK = (1 << 64) - 1
_SEEDED = _MASK
"""Second half of a seeded request's key: no request without a seed has this number."""


def choose(masses: Masses, top_p: float, uniform: float) -> int:
    """The token at ``uniform`` of the probability mass, after cutting to the smallest set that holds ``top_p``.

    Nucleus sampling: Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020). Of equal masses the lower
    id comes first; a token without mass is never chosen.
    """
    if top_p >= 1.0:
        running = np.cumsum(masses, dtype=np.float64)
        return _first(running, uniform * running[-1], "right")
    _, kept = _at(masses, top_p * float(masses.sum(dtype=np.float64)), "left")
    # Below what is kept even where the product is rounded up to it: nothing outside the set is chosen.
    return _at(masses, min(uniform * kept, np.nextafter(kept, 0.0)), "right")[0]


def _at(masses: Masses, wanted: float, side: Literal["left", "right"]) -> tuple[int, float]:
    """Going through the tokens by falling mass: the first with which the sum is ``wanted`` at least (left) or more
    (right), and that sum.

    As a radix sort would, but only the tokens that share the digits of the one that is looked for are looked at again:
    no more than a few hundred are ever sorted, whatever the distribution.
    """
    # The bits of floats that are not negative rise with them.
    ids, keys, kept, before, shift = None, masses.view(np.int32), masses, 0.0, 31
    while len(kept) > SORTED_AT_ONCE and shift:
        bits = min(DIGIT_BITS, shift)
        shift -= bits
        digits = (keys >> shift) & ((1 << bits) - 1)
        running = before + np.cumsum(np.bincount(digits, weights=kept)[::-1])
        place = _first(running, wanted, side)
        before = float(running[place - 1]) if place else before
        same = np.flatnonzero(digits == len(running) - 1 - place)
        ids = same if ids is None else ids[same]
        keys, kept = keys[same], kept[same]
    order = np.argsort(-kept, kind="stable")
    running = before + np.cumsum(kept[order], dtype=np.float64)
    place = _first(running, wanted, side)
    found = order[place]
    return int(found if ids is None else ids[found]), float(running[place])


def _first(running: np.ndarray[Any, np.dtype[Any]], wanted: float, side: Literal["left", "right"]) -> int:
    """The first place where the running sum is as ``_at`` says; the last that adds to it where, rounded, none is."""
    return min(int(np.searchsorted(running, wanted, side)), int(np.searchsorted(running, running[-1], "left")))
