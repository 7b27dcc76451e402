"""How the next token is chosen, and that the choice does not depend on the company a request keeps."""

import numpy as np
import pytest
import torch

from engine.model.draw import Draw
from engine.model.sampler import Sampler
from engine.requests.sampling import Sampling

VOCAB = 1000


def _logits(rows: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


def _draw(
    seed: int | None = 1, *, position: int = 10, request: int = 1, temperature: float = 1.0, top_p: float = 1.0
) -> Draw:
    return Draw(Sampling(temperature=temperature, top_p=top_p, seed=seed), request, position)


def test_temperature_zero_takes_the_best_whatever_the_seed() -> None:
    logits = _logits(3)
    draws = [_draw(seed, temperature=0.0, top_p=0.5) for seed in (1, 2, None)]
    assert Sampler(0).sample(logits, draws).tokens == logits.argmax(dim=-1).tolist()


def test_no_rows_give_no_tokens() -> None:
    assert Sampler(0).sample(torch.empty(0, VOCAB), []).tokens == []


def test_a_seeded_choice_is_the_same_alone_and_in_any_batch() -> None:
    logits = _logits(8)
    draws = [
        _draw(seed=row, position=5 + row, request=row, temperature=0.8, top_p=0.9 if row % 2 else 1.0)
        for row in range(8)
    ]
    together = Sampler(1).sample(logits, draws).tokens
    alone = [Sampler(2).sample(logits[row : row + 1], [draw]).tokens[0] for row, draw in enumerate(draws)]
    backwards = Sampler(3).sample(logits.flip(0), draws[::-1]).tokens[::-1]
    assert together == alone == backwards


@pytest.mark.parametrize("temperature", [5e-324, 1e-46, 1e-38])
def test_a_temperature_that_float32_rounds_to_nothing_is_greedy(temperature: float) -> None:
    logits = _logits(2)
    tokens = Sampler(0).sample(logits, [_draw(temperature=temperature, top_p=top_p) for top_p in (1.0, 0.9)]).tokens
    assert tokens == logits.argmax(dim=-1).tolist()


def test_mixed_greedy_and_random_rows_keep_their_places() -> None:
    logits = _logits(4)
    draws = [_draw(temperature=0.0), _draw(seed=3), _draw(temperature=0.0), _draw(seed=4)]
    tokens = Sampler(0).sample(logits, draws).tokens
    assert [tokens[0], tokens[2]] == [int(logits[0].argmax()), int(logits[2].argmax())]
    assert tokens[1] == Sampler(9).sample(logits[1:2], [draws[1]]).tokens[0]


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


def test_any_integer_of_64_bits_is_a_seed() -> None:
    for seed in (0, -1, 2**63, 2**64 - 1, -(2**63)):
        assert 0.0 <= Sampler(0).uniform(_draw(seed=seed)) < 1.0


def test_frequencies_follow_the_temperature() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    for temperature in (0.5, 1.0, 2.0):
        expected = torch.softmax(logits[0] / temperature, dim=-1)
        draws = [_draw(position=place, temperature=temperature) for place in range(4000)]
        tokens = Sampler(0).sample(logits.expand(4000, 3), draws).tokens
        seen = np.bincount(tokens, minlength=3) / 4000
        assert seen == pytest.approx(expected.numpy(), abs=0.03)


def test_a_tiny_temperature_is_greedy_and_does_not_overflow() -> None:
    logits = _logits(1) * 1000
    assert Sampler(0).sample(logits, [_draw(temperature=1e-6)]).tokens == [int(logits.argmax())]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_concern_their_own_row_alone(bad: float | None, temperature: float) -> None:
    logits, draws = _logits(8), [_draw(request=row, temperature=temperature, top_p=0.9) for row in range(8)]
    fine = Sampler(0).sample(logits, draws)
    assert fine.bad == [False] * 8
    if bad is None:
        logits[3] = -torch.inf
    else:
        logits[3, 7] = bad
    hit = Sampler(0).sample(logits, draws)
    assert hit.bad == [row == 3 for row in range(8)]
    assert hit.tokens == [0 if row == 3 else token for row, token in enumerate(fine.tokens)]


@pytest.mark.parametrize(
    ("min_p", "top_k", "top_p", "left"),
    [(0.1, 0, 1.0, 6), (0.0, 7, 1.0, 7), (0.0, 0, 0.85, 4), (0.1, 5, 0.9, 4), (0.2, 7, 0.95, 4), (0.01, 8, 0.9, 5)],
)
def test_frequencies_follow_min_p_top_k_and_top_p_together(min_p: float, top_k: int, top_p: float, left: int) -> None:
    """Chi-squared of 6,000 draws against the distribution written out: of 1,000 seeds, one would exceed the bound."""
    logits = torch.tensor([2.0, 1.8, 1.0, 0.9, 0.5, 0.2, 0.0, -0.5, -3.0])
    masses = np.exp(logits.double().numpy() / 0.8)
    expected = 6000 * masses[:left] / masses[:left].sum()
    how = Sampling(temperature=0.8, min_p=min_p, top_k=top_k, top_p=top_p, seed=5)
    tokens = Sampler(0).sample(logits.expand(6000, -1), [Draw(how, 0, place) for place in range(6000)]).tokens
    seen = np.bincount(tokens, minlength=9)
    assert seen[left:].sum() == 0
    bound = {4: 16.27, 5: 18.47, 6: 20.52, 7: 22.46}[left]
    assert ((seen[:left] - expected) ** 2 / expected).sum() < bound
