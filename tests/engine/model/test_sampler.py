"""How the next token is chosen, and that the choice does not depend on the company a request keeps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.sampler import SORTED_AT_ONCE, Draw, Masses, Sampler, choose
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


def _masses(*values: float) -> Masses:
    return np.array(values, np.float32)


def _plainly(masses: Masses, top_p: float, uniform: float) -> int:
    """`choose` from its definition: everything is sorted."""
    ids = np.argsort(-masses, kind="stable") if top_p < 1 else np.arange(len(masses))
    running = np.cumsum(masses[ids].astype(np.float64))
    size = int(np.searchsorted(running, top_p * running[-1])) + 1 if top_p < 1 else len(ids)
    return int(ids[np.searchsorted(running[:size], uniform * running[size - 1], side="right")])


def test_top_p_keeps_the_smallest_set_that_holds_it() -> None:
    masses = _masses(0.125, 0.5, 0.125, 0.25)
    reached = {choose(masses, 0.7, uniform) for uniform in np.linspace(0, 0.999, 200)}
    assert reached == {1, 3}
    assert {choose(masses, 0.5, uniform) for uniform in np.linspace(0, 0.999, 50)} == {1}
    assert {choose(masses, 1.0, uniform) for uniform in np.linspace(0, 0.999, 200)} == {0, 1, 2, 3}


SHAPES = ("peaked", "flat", "steps", "equal", "few", "wide")


def _shaped(shape: str, size: int, seed: int) -> Masses:
    """Masses that are whole multiples of 2^-24, so that their sums are the same in any order."""
    rng = np.random.default_rng(seed)
    counts = {
        "peaked": lambda: rng.pareto(0.6, size) * 10,
        "flat": lambda: 1000 + rng.integers(0, 8, size),
        "steps": lambda: rng.choice([1, 2, 3, 700], size),
        "equal": lambda: np.full(size, 64),
        "few": lambda: np.where(rng.random(size) < 0.01, rng.integers(1, 50, size), 0),
        "wide": lambda: 2.0 ** rng.uniform(0, 22, size),
    }[shape]()
    whole = np.minimum(np.floor(counts), 2**22)
    whole[rng.integers(size)] += 1
    return (whole * 2.0**-24).astype(np.float32)


@given(
    shape=st.sampled_from(SHAPES),
    size=st.sampled_from((1, 2, 50, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, 5000, 49152)),
    seed=st.integers(0, 2**32),
    top_p=st.floats(0.001, 1.0),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
def test_every_choice_is_that_of_the_plain_definition(
    shape: str, size: int, seed: int, top_p: float, uniform: float
) -> None:
    masses = _shaped(shape, size, seed)
    assert choose(masses, top_p, uniform) == _plainly(masses, top_p, uniform)


@pytest.mark.parametrize("shape", SHAPES)
def test_all_of_the_nucleus_is_reached_and_nothing_else(shape: str) -> None:
    masses = _shaped(shape, 2000, 1)
    order = np.argsort(-masses, kind="stable")
    kept = int(np.searchsorted(np.cumsum(masses[order].astype(np.float64)), 0.9 * masses.sum(dtype=np.float64))) + 1
    uniforms = np.cumsum(masses[order[:kept]], dtype=np.float64)
    middles = (uniforms - masses[order[:kept]] / 2) / uniforms[-1]
    assert [choose(masses, 0.9, uniform) for uniform in middles] == order[:kept].tolist()
    assert choose(masses, 0.9, np.nextafter(1.0, 0.0)) == order[kept - 1]


def test_few_tokens_are_sorted_whatever_the_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a choice costs: a vocabulary is never sorted, but for tokens of exactly equal mass."""
    sizes = []
    sort = np.argsort

    def counted(values, **how):  # type: ignore[no-untyped-def]
        sizes.append(len(values))
        return sort(values, **how)

    monkeypatch.setattr(np, "argsort", counted)
    for scale in (0.001, 0.1, 1.0, 5.0):
        masses = torch.softmax(_logits(1, vocab=49152)[0] * scale, dim=-1).numpy()
        for top_p in (0.1, 0.5, 0.95, 0.999):
            choose(masses, top_p, 0.7)
    assert sizes
    assert max(sizes) <= SORTED_AT_ONCE


@pytest.mark.parametrize("top_p", [0.999, 1.0])
def test_a_token_without_mass_is_never_chosen(top_p: float) -> None:
    last = np.nextafter(1.0, 0.0)
    for value in np.random.default_rng(3).random(200):
        assert choose(_masses(value, 0.0, 0.0), top_p, last) == 0
    assert choose(_masses(0.25, 0.25, 0.5, 0.0), top_p, last) == (2 if top_p == 1 else 1)
    assert choose(_masses(0.0, 1.0), top_p, 0.0) == 1


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
