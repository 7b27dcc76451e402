"""The next token from the logits: greedy, or at random with temperature and top-p.

A random choice depends on the logits, the request's seed and the token's position alone. So it is the same in any
batch and after a preemption, as far as the logits are: matrix products over more rows may round differently.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.requests.request import SamplingParams

NUCLEUS_GUESS = 512
"""Candidates looked at first for top-p; the whole vocabulary is sorted only where these do not hold enough mass."""


class SamplerError(ArithmeticError):
    """The model produced logits that are not numbers."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What one row needs to be sampled. ``request`` is its number, ``position`` that of the new token."""

    params: SamplingParams
    request: int
    position: int


class Sampler:
    """Requests without a seed of their own get one from ``seed`` (drawn by chance when None) and their number."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = secrets.randbits(64) if seed is None else seed

    def sample(self, logits: Tensor, draws: Sequence[Draw]) -> list[int]:
        """One token id for each row of ``logits`` (``[rows, vocab]``). Raises `SamplerError` on NaN or infinity."""
        if not draws:
            return []
        highest, best = logits.max(dim=-1)
        tokens: list[int] = best.tolist()
        for draw, fine in zip(draws, torch.isfinite(highest).tolist(), strict=True):
            if not fine:
                raise SamplerError(f"request {draw.request}: logits at position {draw.position} are not finite")
        random = [row for row, draw in enumerate(draws) if draw.params.temperature > 0]
        if random:
            chosen = self._choose(logits[random], [draws[row] for row in random])
            for row, token in zip(random, chosen, strict=True):
                tokens[row] = token
        return tokens

    def uniform(self, draw: Draw) -> float:
        """The draw's number in [0, 1). Philox with the seed as key and the position as counter (Salmon et al., 2011)."""
        if draw.params.seed is None:
            key = np.array([self._seed & _MASK, draw.request & _MASK], dtype=np.uint64)
        else:
            key = np.array([draw.params.seed & _MASK, _SEEDED], dtype=np.uint64)
        return float(np.random.Generator(np.random.Philox(key=key, counter=draw.position)).random())

    def _choose(self, logits: Tensor, draws: Sequence[Draw]) -> list[int]:
        place = {"device": logits.device, "dtype": torch.float32}
        temperatures = torch.tensor([draw.params.temperature for draw in draws], **place)  # type: ignore[arg-type]
        # The highest is taken off first, so that a tiny temperature cannot overflow.
        shifted = logits.float() - logits.float().amax(dim=-1, keepdim=True)
        masses = torch.softmax(shifted / temperatures[:, None], dim=-1).cpu().double().numpy()
        return [choose(row, draw.params.top_p, self.uniform(draw)) for row, draw in zip(masses, draws, strict=True)]


def likeliest(logits: Tensor, wanted: Sequence[tuple[int, int, int]]) -> list[list[tuple[int, float]]]:
    """The likeliest next tokens of each row, with their log-probabilities (nats, float32), before any temperature.

    ``wanted`` for each row: how many (the whole vocabulary at most), and the request and position for errors. Likeliest
    first, of equals the lower id. Raises `SamplerError` on NaN or infinity.
    """
    if not wanted:
        return []
    log_probabilities = torch.log_softmax(logits.float(), dim=-1)
    found = []
    for row, (count, request, position) in zip(log_probabilities, wanted, strict=True):
        lowest = torch.topk(row, min(count, len(row))).values[-1]
        if not torch.isfinite(lowest):
            raise SamplerError(f"request {request}: logits at position {position} are not finite")
        # More than wanted where several are equal to the last: topk does not say which of them it takes.
        ids = torch.nonzero(row >= lowest).flatten()
        pairs = zip(ids.tolist(), row[ids].tolist(), strict=True)
        found.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:count])
    return found


_MASK = (1 << 64) - 1
_SEEDED = _MASK
"""Second half of a seeded request's key: no request without a seed has this number."""


def choose(masses: np.ndarray[tuple[int], np.dtype[np.float64]], top_p: float, uniform: float) -> int:
    """The token at ``uniform`` of the probability mass, after cutting to the smallest set that holds ``top_p``.

    Nucleus sampling: Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020). Of equal masses the lower
    id comes first. ``masses`` sum to about 1.
    """
    if top_p >= 1.0:
        ids = np.arange(len(masses))
        running = np.cumsum(masses)
    else:
        ids, running = _nucleus(masses, top_p)
    place = int(np.searchsorted(running, uniform * running[-1], side="right"))
    return int(ids[min(place, len(ids) - 1)])


def _nucleus(
    masses: np.ndarray[tuple[int], np.dtype[np.float64]], top_p: float
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Ids of the nucleus by falling mass, and their running sums."""
    enough = top_p * masses.sum()
    guess = min(NUCLEUS_GUESS, len(masses))
    while True:
        if guess < len(masses):
            threshold = np.partition(masses, len(masses) - guess)[len(masses) - guess]
            candidates = np.flatnonzero(masses >= threshold)
        else:
            candidates = np.arange(len(masses))
        ids = candidates[np.argsort(-masses[candidates], kind="stable")]
        running = np.cumsum(masses[ids])
        if running[-1] >= enough or guess == len(masses):
            size = int(np.searchsorted(running, enough, side="left")) + 1
            return ids[:size], running[:size]
        guess = len(masses)
