"""How the next token is chosen, and that the choice does not depend on the company a request keeps."""

import numpy as np
import pytest
import torch

from engine.model.sampler import NUCLEUS_GUESS, Draw, Sampler, SamplerError, choose
from engine.requests.request import SamplingParams

VOCAB = 1000


def _logits(rows: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def _draw(
    seed: int | None = 1, *, position: int = 10, request: int = 1, temperature: float = 1.0, top_p: float = 1.0
) -> Draw:
    return Draw(SamplingParams(temperature=temperature, top_p=top_p, seed=seed), request, position)


def test_temperature_zero_takes_the_best_whatever_the_seed() -> None:
    logits = _logits(3)
    draws = [_draw(seed, temperature=0.0, top_p=0.5) for seed in (1, 2, None)]
    assert Sampler(0).sample(logits, draws) == logits.argmax(dim=-1).tolist()


def test_no_rows_give_no_tokens() -> None:
    assert Sampler(0).sample(torch.empty(0, VOCAB), []) == []


def test_a_seeded_choice_is_the_same_alone_and_in_any_batch() -> None:
    logits = _logits(8)
    draws = [
        _draw(seed=row, position=5 + row, request=row, temperature=0.8, top_p=0.9 if row % 2 else 1.0)
        for row in range(8)
    ]
    together = Sampler(1).sample(logits, draws)
    alone = [Sampler(2).sample(logits[row : row + 1], [draw])[0] for row, draw in enumerate(draws)]
    backwards = Sampler(3).sample(logits.flip(0), draws[::-1])[::-1]
    assert together == alone == backwards


def test_mixed_greedy_and_random_rows_keep_their_places() -> None:
    logits = _logits(4)
    draws = [_draw(temperature=0.0), _draw(seed=3), _draw(temperature=0.0), _draw(seed=4)]
    tokens = Sampler(0).sample(logits, draws)
    assert [tokens[0], tokens[2]] == [int(logits[0].argmax()), int(logits[2].argmax())]
    assert tokens[1] == Sampler(9).sample(logits[1:2], [draws[1]])[0]


def test_seed_position_and_request_each_matter() -> None:
    sampler = Sampler(0)
    numbers = {sampler.uniform(_draw(seed=seed, position=position)) for seed in range(20) for position in range(20)}
    assert len(numbers) == 400
    unseeded = {sampler.uniform(_draw(seed=None, request=request)) for request in range(20)}
    assert len(unseeded) == 20
    assert sampler.uniform(_draw(seed=1, request=1)) == sampler.uniform(_draw(seed=1, request=2))


def test_requests_without_a_seed_follow_the_engines() -> None:
    draw = _draw(seed=None)
    assert Sampler(5).uniform(draw) == Sampler(5).uniform(draw) != Sampler(6).uniform(draw)
    assert Sampler().uniform(draw) != Sampler().uniform(draw)


def test_any_integer_is_a_seed() -> None:
    for seed in (0, -1, 2**63, 2**64 + 1, -(2**70)):
        assert 0.0 <= Sampler(0).uniform(_draw(seed=seed)) < 1.0


def test_frequencies_follow_the_temperature() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    for temperature in (0.5, 1.0, 2.0):
        expected = torch.softmax(logits[0] / temperature, dim=-1)
        draws = [_draw(position=place, temperature=temperature) for place in range(4000)]
        tokens = Sampler(0).sample(logits.expand(4000, 3), draws)
        seen = np.bincount(tokens, minlength=3) / 4000
        assert seen == pytest.approx(expected.numpy(), abs=0.03)


def test_a_tiny_temperature_is_greedy_and_does_not_overflow() -> None:
    logits = _logits(1) * 1000
    assert Sampler(0).sample(logits, [_draw(temperature=1e-6)]) == [int(logits.argmax())]


def test_top_p_keeps_the_smallest_set_that_holds_it() -> None:
    masses = np.array([0.1, 0.5, 0.1, 0.3])
    reached = {choose(masses, 0.7, uniform) for uniform in np.linspace(0, 0.999, 200)}
    assert reached == {1, 3}
    assert {choose(masses, 0.5, uniform) for uniform in np.linspace(0, 0.999, 50)} == {1}
    assert {choose(masses, 1.0, uniform) for uniform in np.linspace(0, 0.999, 200)} == {0, 1, 2, 3}


def test_top_p_over_a_flat_vocabulary_looks_beyond_the_first_candidates() -> None:
    vocab = 4 * NUCLEUS_GUESS
    masses = np.linspace(2, 1, vocab) / np.linspace(2, 1, vocab).sum()
    kept = int(np.searchsorted(np.cumsum(masses), 0.9)) + 1
    reached = [choose(masses, 0.9, uniform) for uniform in np.linspace(0, 0.9999999, 3 * vocab)]
    assert kept > NUCLEUS_GUESS
    assert max(reached) == kept - 1


def test_top_p_matches_a_full_sort() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        masses = rng.dirichlet(np.full(2000, 0.05))
        top_p, uniform = rng.uniform(0.05, 0.99), rng.uniform()
        ids = np.argsort(-masses, kind="stable")
        running = np.cumsum(masses[ids])
        size = int(np.searchsorted(running, top_p * running[-1])) + 1
        place = int(np.searchsorted(running[:size], uniform * running[size - 1], side="right"))
        assert choose(masses, top_p, uniform) == ids[place]


def test_the_end_of_the_unit_interval_stays_inside() -> None:
    masses = np.array([0.25, 0.25, 0.5, 0.0])
    assert choose(masses, 1.0, np.nextafter(1.0, 0.0)) == 2


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_logits_that_are_no_numbers_name_the_request(bad: float) -> None:
    logits = _logits(2)
    logits[1, 7] = bad
    with pytest.raises(SamplerError, match=r"request 42: logits at position 17 are not finite"):
        Sampler(0).sample(logits, [_draw(), _draw(request=42, position=17)])
