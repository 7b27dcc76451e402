"""Covering arrays: few settings in which every pair of choices of any two axes occurs at least once.

Greedy after Cohen, Dalal, Fredman and Patton, "The AETG System" (1997): each new row is the best of a number of
candidates, each built axis by axis, taking the value that covers most pairs not covered yet.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations

Value = bool | int | float | str
Pair = tuple[str, Value, str, Value]


def pairs_of(row: Mapping[str, Value]) -> set[Pair]:
    """All pairs of choices in one row; axes in the order of their names."""
    return {(a, row[a], b, row[b]) for a, b in combinations(sorted(row), 2)}


def all_pairs(axes: Mapping[str, Sequence[Value]]) -> set[Pair]:
    return {(a, x, b, y) for a, b in combinations(sorted(axes), 2) for x in axes[a] for y in axes[b]}


def covering_array(axes: Mapping[str, Sequence[Value]], seed: int = 0, candidates: int = 12) -> list[dict[str, Value]]:
    """Rows that cover `all_pairs`; the same for the same seed."""
    rng = random.Random(seed)
    left = all_pairs(axes)
    rows: list[dict[str, Value]] = []
    while left:
        row = max((_candidate(axes, left, rng) for _ in range(candidates)), key=lambda r: len(pairs_of(r) & left))
        left -= pairs_of(row)
        rows.append(row)
    return rows


def _candidate(axes: Mapping[str, Sequence[Value]], left: set[Pair], rng: random.Random) -> dict[str, Value]:
    # Starts from a pair that is still missing, so that every row makes progress.
    a, x, b, y = rng.choice(sorted(left, key=repr))
    row: dict[str, Value] = {a: x, b: y}
    others = [axis for axis in axes if axis not in row]
    rng.shuffle(others)
    for axis in others:
        values = list(axes[axis])
        rng.shuffle(values)

        def gain(value: Value, axis: str = axis) -> int:
            chosen = ((axis, value, k, v) if axis < k else (k, v, axis, value) for k, v in row.items())
            return sum(pair in left for pair in chosen)

        row[axis] = max(values, key=gain)
    return row
