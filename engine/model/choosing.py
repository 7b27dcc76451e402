"""One token of many, by their probability masses: which are left to choose from, and which of them it is."""

from typing import Any, Literal

import numpy as np
import torch

SORTED_AT_ONCE = 512
"""So few tokens are put in order by sorting them; of more, only those around the one that is looked for."""

DIGIT_BITS = 12
"""Bits of a mass by which tokens are told apart at once: of a float32's, exponent and four binary places at first."""

Masses = np.ndarray[tuple[int], np.dtype[np.float32]]
"""Probability mass of each token, none negative; together about 1."""

Ids = np.ndarray[tuple[int], np.dtype[np.intp]]


def choose(masses: Masses, top_p: float, uniform: float, *, top_k: int = 0, min_p: float = 0.0) -> int:
    """The token at ``uniform`` of the probability mass that is left.

    Left are those of ``min_p`` times the highest mass at least (Nguyen et al., "Turning Up the Heat: Min-p Sampling",
    2024); of these the ``top_k`` likeliest, 0 for all; of these the smallest set that holds the share ``top_p`` of their
    mass (Holtzman et al., "The Curious Case of Neural Text Degeneration", 2020). Of equal masses the lower id comes first;
    a token without mass is never chosen.
    """
    if not min_p and not 0 < top_k < len(masses):
        return _nucleus(masses, top_p, uniform)
    ids = left(masses, top_k, min_p)
    return int(ids[_nucleus(masses[ids], top_p, uniform)])


def left(masses: Masses, top_k: int, min_p: float) -> Ids:
    """The tokens that these two leave, by id; one at least."""
    least = np.float32(min_p) * masses.max()
    if not 0 < top_k < len(masses):
        return np.flatnonzero(masses >= least)
    kth = torch.from_numpy(masses).topk(top_k, sorted=False).values.min().item()
    if kth < least:
        return np.flatnonzero(masses >= least)
    found = np.flatnonzero(masses >= kth)
    if (over := len(found) - top_k) > 0:
        # Of those equal to the last, the highest ids are too many.
        found = np.delete(found, np.flatnonzero(masses[found] == kth)[-over:])
    return found


def _nucleus(masses: Masses, top_p: float, uniform: float) -> int:
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
