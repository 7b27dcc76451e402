"""Bias, penalties and tokens that must not come yet, against the rules written out one token at a time in float64."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.adjusting import adjusted
from engine.model.draw import Draw
from engine.model.sampler import ROWS_AT_ONCE, Sampler
from engine.requests.sampling import Sampling

VOCAB = 40


def reference(logits: Sequence[float], draw: Draw) -> list[float]:
    """The changed logits of one row."""
    how, found = draw.params, list(map(float, logits))
    output = list(draw.history[draw.prompt :])
    for token, bias in how.logit_bias:
        found[token] += bias
    for token in range(len(found)):
        if token in draw.history:
            value = found[token]
            found[token] = value / how.repetition_penalty if value > 0 else value * how.repetition_penalty
        found[token] -= how.frequency_penalty * output.count(token)
        found[token] -= how.presence_penalty * (token in output)
    if len(output) < how.min_tokens:
        for token in draw.stop_ids:
            found[token] = -math.inf
    return found


tokens = st.integers(0, VOCAB - 1)


@st.composite
def draws(draw: st.DrawFn) -> Draw:
    prompt, output = draw(st.lists(tokens, min_size=1, max_size=30)), draw(st.lists(tokens, max_size=30))
    how = Sampling(
        presence_penalty=draw(st.sampled_from((0.0, 0.0, 0.7, -2.0))),
        frequency_penalty=draw(st.sampled_from((0.0, 0.0, 1.3, -0.1))),
        repetition_penalty=draw(st.sampled_from((1.0, 1.0, 1.3, 0.5))),
        logit_bias=draw(st.dictionaries(tokens, st.floats(-100, 100), max_size=5)),
        min_tokens=draw(st.integers(0, 40)),
        temperature=draw(st.sampled_from((0.3, 1.0, 2.5))),
        min_p=draw(st.sampled_from((0.0, 0.03, 0.4))),
        top_k=draw(st.sampled_from((0, 2, 9, 39, 100))),
        top_p=draw(st.sampled_from((1.0, 0.97, 0.6, 0.1))),
        seed=draw(st.integers(0, 99)),
    )
    stops = draw(st.frozensets(tokens, max_size=5))
    return Draw(how, 1, len(prompt) + len(output), prompt + output, len(prompt), stops)


@given(st.lists(draws(), min_size=1, max_size=6), st.integers(0, 1000))
def test_each_row_is_changed_as_the_rules_say_and_by_its_own_alone(rows: list[Draw], seed: int) -> None:
    logits = 5 * torch.randn(len(rows), VOCAB, generator=torch.Generator().manual_seed(seed))
    before = logits.clone()
    found = adjusted(logits, rows)
    assert torch.equal(logits, before)
    for row, draw in enumerate(rows):
        np.testing.assert_allclose(found[row].double(), reference(before[row].tolist(), draw), rtol=1e-5, atol=1e-4)


def chosen(logits: Sequence[float], draw: Draw, uniform: float) -> int:
    """The token at ``uniform`` of what is left, from the changed logits on."""
    how, values = draw.params, np.array(reference(logits, draw))
    masses = np.exp((values - values.max()) / how.temperature)
    ids = np.argsort(-masses, kind="stable")
    ids = ids[masses[ids] >= how.min_p * masses.max()][: how.top_k or None]
    if how.top_p < 1:
        running = np.cumsum(masses[ids])
        ids = ids[: int(np.searchsorted(running, how.top_p * running[-1])) + 1]
    else:
        ids = np.sort(ids)
    running = np.cumsum(masses[ids])
    return int(ids[min(np.searchsorted(running, uniform * running[-1], side="right"), len(ids) - 1)])


@given(st.lists(draws(), min_size=1, max_size=6), st.integers(0, 1000))
def test_a_random_choice_is_that_of_all_rules_in_their_order(rows: list[Draw], seed: int) -> None:
    logits = 3 * torch.randn(len(rows), VOCAB, generator=torch.Generator().manual_seed(seed))
    sampler = Sampler(0)
    for row, draw, token in zip(logits, rows, sampler.sample(logits, rows).tokens, strict=True):
        uniform = sampler.uniform(draw)
        # Between two tokens, float32 and float64 may differ.
        assert token in {chosen(row.tolist(), draw, uniform + near) for near in (-1e-5, 0.0, 1e-5)}


@given(draws(), st.integers(0, 1000))
def test_a_greedy_choice_is_the_likeliest_after_the_changes(draw: Draw, seed: int) -> None:
    draw = replace(draw, params=replace(draw.params, temperature=0.0))
    logits = 5 * torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(seed))
    expected = reference(logits[0].tolist(), draw)
    (token,) = Sampler(0).sample(logits, [draw]).tokens
    assert expected[token] == pytest.approx(max(expected), abs=1e-3)


def _row(*values: float) -> torch.Tensor:
    return torch.tensor([values])


def _draw(history: Sequence[int] = (0,), prompt: int = 1, stop_ids: Any = (), **how: Any) -> Draw:
    return Draw(Sampling(**how), 0, len(history), history, prompt, frozenset(stop_ids))


def _token(logits: torch.Tensor, draw: Draw) -> int:
    return Sampler(0).sample(logits, [draw]).tokens[0]


def test_a_word_said_again_and_again_gives_way_to_the_next_best() -> None:
    logits = _row(5.0, 4.0, 3.0)
    assert _token(logits, _draw([0, 0], frequency_penalty=0.9)) == 0
    assert _token(logits, _draw([0, 0, 0], frequency_penalty=0.9)) == 1
    assert _token(logits, _draw([0, 0], presence_penalty=1.1)) == 1
    # The prompt counts for repetition alone.
    assert _token(logits, _draw([0, 0], 2, presence_penalty=2.0, frequency_penalty=2.0)) == 0
    assert _token(logits, _draw([0, 0], 2, repetition_penalty=1.3)) == 1


def test_a_repeated_token_of_a_negative_logit_becomes_less_likely_too() -> None:
    assert _token(_row(-1.0, -1.5), _draw([0], repetition_penalty=2.0)) == 1


def test_a_bias_of_100_wins_and_one_of_minus_100_loses() -> None:
    logits = _row(5.0, 4.0, 3.0)
    assert _token(logits, _draw(logit_bias={2: 100})) == 2
    assert _token(logits, _draw(logit_bias={0: -100})) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_token_that_ends_the_output_is_chosen_before_its_time(temperature: float) -> None:
    logits = _row(50.0, 40.0, 3.0)
    early = _draw([0, 1, 2], 1, stop_ids={0, 1}, min_tokens=3, temperature=temperature)
    late = _draw([0, 1, 2, 2], 1, stop_ids={0, 1}, min_tokens=3, temperature=temperature)
    assert _token(logits, early) == 2
    assert _token(logits, late) == 0


@pytest.mark.parametrize("penalty", [1e-45, 1e-30, 100.0])
def test_extreme_penalties_leave_numbers(penalty: float) -> None:
    logits = _row(1e30, 2e30, -1e30, 0.0)
    draw = _draw([0, 1, 2, 3], repetition_penalty=penalty, temperature=1.0)
    assert torch.isfinite(adjusted(logits, [draw])).all()
    assert not any(Sampler(0).sample(logits, [draw]).bad)


def test_tokens_beyond_the_vocabulary_change_nothing_of_others() -> None:
    logits = torch.zeros(2, 4)
    far = _draw([5, 9], stop_ids={6}, logit_bias={4: 5.0}, repetition_penalty=2.0, frequency_penalty=1.0, min_tokens=9)
    assert torch.equal(adjusted(logits, [far, far]), logits)


def test_no_row_is_copied_for_others_and_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it costs: a batch of plain greedy rows is never copied, and of those that ask never all at once."""
    copied: list[int] = []
    real = torch.Tensor.to

    def counted(self: torch.Tensor, *given: Any, **how: Any) -> torch.Tensor:
        if self.dim() == 2 and self.shape[1] == 1000:
            copied.append(len(self))
        return real(self, *given, **how)

    monkeypatch.setattr(torch.Tensor, "to", counted)
    logits = torch.randn(200, 1000, generator=torch.Generator().manual_seed(0))
    Sampler(0).sample(logits, [_draw() for _ in range(200)])
    assert copied == []
    Sampler(0).sample(logits, [_draw(**({"presence_penalty": 1.0} if row % 2 else {})) for row in range(200)])
    assert sum(copied) == 100
    assert max(copied) <= ROWS_AT_ONCE
