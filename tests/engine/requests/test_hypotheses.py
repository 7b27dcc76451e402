"""The choices of a beam search against the definition, written out without any pruning or early end."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.requests.hypotheses import Candidate, Child, Search

Model = Callable[[tuple[int, ...]], list[float]]
"""Log-probabilities of all tokens after an output."""


def make_model(seed: int, vocab: int, coarse: bool) -> Model:
    """``coarse``: probabilities that are often equal, so that ties have to be broken."""

    def model(output: tuple[int, ...]) -> list[float]:
        draw = random.Random(f"{seed} {output}")
        weights = [draw.choice([1, 1, 2, 4]) if coarse else draw.random() + 0.01 for _ in range(vocab)]
        return [math.log(weight / sum(weights)) for weight in weights]

    return model


def likeliest(model: Model, output: tuple[int, ...], count: int) -> list[Candidate]:
    return sorted(enumerate(model(output)), key=lambda pair: (-pair[1], pair[0]))[:count]


def by_definition(
    model: Model, width: int, penalty: float, stop_ids: frozenset[int], most: int, wanted: int
) -> list[tuple[tuple[int, ...], float]]:
    """All steps to the end, everything that ever stopped kept, and one sort at the end."""
    beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    ended: list[tuple[tuple[int, ...], float]] = []
    for _ in range(most):
        grown = []
        for place, (output, total) in enumerate(beams):
            for token, gain in likeliest(model, output, wanted):
                grown.append((-(total + gain), place, token, (*output, token)))
        grown.sort()
        ended += [(output, -cost) for cost, _, token, output in grown if token in stop_ids]
        beams = [(output, -cost) for cost, _, token, output in grown if token not in stop_ids][:width]
        if not beams:
            break
    everything = [*ended, *beams]
    everything.sort(key=lambda pair: -(pair[1] / len(pair[0]) ** penalty))
    return everything[:width]


def run(search: Search, model: Model, most: int) -> tuple[list[tuple[tuple[int, ...], float]], int]:
    """The search as the engine drives it; the best, and the steps it took."""
    outputs: list[tuple[int, ...]] = [()]
    totals, steps = [0.0], 0
    while True:
        children = search.advance(outputs, totals, [likeliest(model, o, search.candidates) for o in outputs])
        steps += 1
        outputs = [(*outputs[child.parent], child.token) for child in children]
        totals = [child.total for child in children]
        if search.over(totals, steps, most):
            return [(found.output, found.total) for found in search.best(outputs, totals)], steps


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(2, 5),
    penalty=st.sampled_from([1.0, 0.0, 0.5, 2.0, -1.0]),
    stops=st.integers(0, 8),
    most=st.integers(1, 7),
    coarse=st.booleans(),
)
def test_the_result_is_that_of_the_definition(
    seed: int, width: int, penalty: float, stops: int, most: int, coarse: bool
) -> None:
    model, stop_ids = make_model(seed, 9, coarse), frozenset(range(stops))
    search = Search(width, penalty, stop_ids)
    found, steps = run(search, model, most)
    expected = by_definition(model, width, penalty, stop_ids, most, search.candidates)
    assert [output for output, _ in found] == [output for output, _ in expected]
    assert [total for _, total in found] == pytest.approx([total for _, total in expected])
    assert steps <= most


def test_with_a_beam_as_wide_as_all_there_is_the_best_sequence_of_all_is_found() -> None:
    model, most = make_model(5, 4, coarse=False), 2
    pairs = [(i, j) for i in range(4) for j in range(4)]
    everything = sorted(pairs, key=lambda pair: -(model(())[pair[0]] + model((pair[0],))[pair[1]]))
    found, _ = run(Search(16, 1.0), model, most)
    assert [output for output, _ in found] == everything


def test_it_ends_early_where_nothing_better_can_come() -> None:
    def model(output: tuple[int, ...]) -> list[float]:
        # Token 0 stops; it is nearly certain.
        return [math.log(p) for p in (0.98, 0.008, 0.007, 0.005)]

    found, steps = run(Search(2, 0.0, frozenset({0})), model, 50)
    assert [output for output, _ in found] == [(0,), (1, 0)]
    assert steps == 2
    assert run(Search(2, 1.0, frozenset({0})), model, 50)[1] < 50


def test_many_stop_tokens_leave_enough_beams() -> None:
    search = Search(2, 1.0, frozenset(range(5)))
    assert search.candidates == 7
    children = search.advance([()], [0.0], [[(token, -float(token)) for token in range(7)]])
    assert [child.token for child in children] == [5, 6]
    assert [found.output for found in search.finished] == [(0,), (1,)]


def test_of_equal_ones_the_better_parent_and_the_lower_token_go_first() -> None:
    search = Search(3, 1.0)
    children = search.advance([(1,), (2,)], [-1.0, -2.0], [[(9, -2.0), (4, -2.0)], [(3, -1.0), (5, -0.5)]])
    assert children == [Child(1, 5, -2.5), Child(0, 4, -3.0), Child(0, 9, -3.0)]


def test_length_counts_the_stop_token() -> None:
    search = Search(2, 1.0, frozenset({7}))
    search.advance([(1, 2, 3)], [-3.0], [[(7, -1.0), (5, -2.0)]])
    assert [found.score for found in search.finished] == [-1.0]
    assert [found.score for found in search.best([(1, 2, 3, 5)], [-5.0])] == [-1.0, -1.25]


@pytest.mark.parametrize("width", [1, 17])
def test_a_width_outside_the_limits_is_refused(width: int) -> None:
    with pytest.raises(ValueError, match=f"a beam search of width {width} is not possible; choose 2 to 16"):
        Search(width, 1.0)


def test_a_wild_length_penalty_is_refused() -> None:
    with pytest.raises(ValueError, match="length_penalty: nan is not in -10…10"):
        Search(2, math.nan)
