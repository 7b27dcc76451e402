"""The next token from the logits: the likeliest, or one at random, after what the request wants changed.

A random choice depends on the logits, the request's seed, the token's position and, with penalties, the tokens before it.
So it is the same in any batch and after a preemption, as far as the logits are: matrix products over more rows may round
differently.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.model.adjusting import adjusted
from engine.model.choosing import choose
from engine.model.draw import Draw
from engine.model.ranking import logprobs
from engine.requests.logprobs import TokenLogprob

ROWS_AT_ONCE = 32
"""Rows of which there are copies at a time; with a vocabulary of 150,000 tokens, 20 MB each."""


LEAST_TEMPERATURE = 1e-30
"""Below any that leaves a second token a chance, and a number in float32."""


@dataclass(frozen=True, slots=True)
class SamplerOutput:
    """One entry a row. ``tokens``: the ids; where ``bad``, 0, for those logits are no numbers (NaN or infinite).
    ``logprobs``: by row, of those that asked for them and are not bad."""

    tokens: list[int]
    bad: list[bool]
    logprobs: dict[int, TokenLogprob] = field(default_factory=dict)


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
        asking = [row for row, draw in enumerate(draws) if draw.params.temperature > 0 or draw.params.adjusts]
        for rows in _pieces(asking, bad):
            chosen = self._choose(_rows(logits, rows), _rows(highest, rows), [draws[row] for row in rows])
            for row, token in zip(rows, chosen, strict=True):
                tokens[row], bad[row] = token or 0, token is None
        tokens = [0 if broken else token for token, broken in zip(tokens, bad, strict=True)]
        told: dict[int, TokenLogprob] = {}
        for rows in _pieces([row for row, draw in enumerate(draws) if draw.params.logprobs is not None], bad):
            counts = [draws[row].params.logprobs or 0 for row in rows]
            told.update(zip(rows, logprobs(_rows(logits, rows), [tokens[row] for row in rows], counts), strict=True))
        return SamplerOutput(tokens, bad, told)

    def uniform(self, draw: Draw) -> float:
        """The draw's number in [0, 1). Philox with the seed as key and the position as counter (Salmon et al., 2011)."""
        if draw.params.seed is None:
            key = np.array([self._seed & _MASK, draw.request & _MASK], dtype=np.uint64)
        else:
            key = np.array([draw.params.seed & _MASK, _SEEDED], dtype=np.uint64)
        return float(np.random.Generator(np.random.Philox(key=key, counter=draw.position)).random())

    def _choose(self, logits: Tensor, highest: Tensor, draws: Sequence[Draw]) -> list[int | None]:
        """One for each row of ``logits``, whose ``highest`` are these; None where nothing is left to choose from."""
        if any(draw.params.adjusts for draw in draws):
            logits = adjusted(logits, draws)
            highest, best = logits.max(dim=-1)
            left = zip(best.tolist(), highest.isfinite().tolist(), strict=True)
            tokens = [token if there else None for token, there in left]
        else:
            tokens = [0] * len(draws)
        random = [row for row, draw in enumerate(draws) if draw.params.temperature > 0 and tokens[row] is not None]
        if not random:
            return tokens
        logits, highest = _rows(logits, random), _rows(highest, random)
        temperatures = [max(draws[row].params.temperature, LEAST_TEMPERATURE) for row in random]
        # The highest is taken off first, so that a tiny temperature cannot overflow; nor is one rounded to 0.
        shifted = logits.float() - highest.float()[:, None]
        shifted.div_(torch.tensor(temperatures, device=logits.device)[:, None])
        masses = torch.softmax(shifted, dim=-1).cpu().numpy()
        for row, its_masses in zip(random, masses, strict=True):
            draw, how = draws[row], draws[row].params
            tokens[row] = choose(its_masses, how.top_p, self.uniform(draw), top_k=how.top_k, min_p=how.min_p)
        return tokens


def _pieces(rows: Sequence[int], bad: Sequence[bool]) -> list[list[int]]:
    """Those that are not bad, some at a time."""
    fine = [row for row in rows if not bad[row]]
    return [fine[start : start + ROWS_AT_ONCE] for start in range(0, len(fine), ROWS_AT_ONCE)]


def _rows(values: Tensor, rows: Sequence[int]) -> Tensor:
    """These rows, which rise; where they follow each other, without a copy."""
    first, end = rows[0], rows[-1] + 1
    return values[first:end] if end - first == len(rows) else values[rows]


_MASK = (1 << 64) - 1
_SEEDED = _MASK
"""Second half of a seeded request's key: no request without a seed has this number."""
