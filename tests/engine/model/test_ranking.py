"""Log-probabilities and ranks against their definition: a float64 softmax, and everything sorted."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.draw import Draw
from engine.model.ranking import likeliest, logprobs
from engine.model.sampler import Sampler
from engine.requests.logprobs import TokenLogprob
from engine.requests.sampling import Sampling

VOCAB = 60


def reference(logits: torch.Tensor, token: int, count: int) -> TokenLogprob:
    values = logits.double().numpy()
    log_probabilities = values - np.log(np.exp(values - values.max()).sum()) - values.max()
    order = np.argsort(-values, kind="stable").tolist()
    top = tuple((place, float(log_probabilities[place])) for place in order[:count])
    return TokenLogprob(token, float(log_probabilities[token]), order.index(token) + 1, top)


def _logits(rows: int, seed: int, steps: int) -> torch.Tensor:
    """With few ``steps``, many tokens are equal."""
    values = 3 * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed))
    return (values * steps).round() / steps


def same(found: TokenLogprob, expected: TokenLogprob) -> None:
    assert (found.token_id, found.rank) == (expected.token_id, expected.rank)
    assert found.logprob == pytest.approx(expected.logprob, abs=1e-5)
    assert [token for token, _ in found.top] == [token for token, _ in expected.top]
    assert [value for _, value in found.top] == pytest.approx([value for _, value in expected.top], abs=1e-5)


@given(
    asked=st.lists(st.tuples(st.integers(0, VOCAB - 1), st.integers(0, 20)), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    steps=st.sampled_from((1, 2, 1000)),
)
def test_each_token_has_its_own_logprob_rank_and_likeliest(asked: list[tuple[int, int]], seed: int, steps: int) -> None:
    logits = _logits(len(asked), seed, steps)
    found = logprobs(logits, [token for token, _ in asked], [count for _, count in asked])
    for row, each, (token, count) in zip(logits, found, asked, strict=True):
        same(each, reference(row, token, count))
        if each.rank <= count:
            assert each.top[each.rank - 1] == (token, each.logprob)


@given(
    counts=st.lists(st.integers(1, 100), min_size=1, max_size=6),
    seed=st.integers(0, 1000),
    steps=st.sampled_from((1, 1000)),
)
def test_the_likeliest_are_those_of_the_plain_definition(counts: list[int], seed: int, steps: int) -> None:
    logits = _logits(len(counts), seed, steps)
    for row, found, count in zip(logits, likeliest(logits, counts), counts, strict=True):
        expected = reference(row, 0, count).top
        assert found is not None
        assert [token for token, _ in found] == [token for token, _ in expected]
        assert [value for _, value in found] == pytest.approx([value for _, value in expected], abs=1e-5)


def test_a_row_that_is_no_numbers_has_no_likeliest_and_spares_the_others() -> None:
    logits = _logits(4, 0, 1000)
    logits[1, 5], logits[2, 3] = torch.nan, torch.inf
    logits[3, 10:] = -torch.inf
    found = likeliest(logits, [3, 3, 3, 11])
    assert [row is None for row in found] == [False, True, True, True]


def test_the_sampler_tells_what_the_model_said_whatever_the_request_changed() -> None:
    """As vLLM's raw log-probabilities: before temperature, bias, penalties and bans; nothing for those who did not ask."""
    logits = _logits(5, 3, 1000)
    best = int(logits[0].argmax())
    changes = Sampling(
        temperature=0.3, top_k=3, logprobs=2, logit_bias={best: -100}, repetition_penalty=1.7, min_tokens=5, seed=1
    )
    logits[4, 0] = torch.nan
    draws = [
        Draw(changes, 0, 2, [4, 5], 1, frozenset({best})),
        Draw(Sampling(), 1, 2),
        Draw(Sampling(logprobs=0), 2, 2),
        Draw(Sampling(temperature=2.0, logprobs=20), 3, 2),
        Draw(changes, 4, 2, [4, 5], 1),
    ]
    output = Sampler(0).sample(logits, draws)
    assert output.bad == [False, False, False, False, True]
    assert set(output.logprobs) == {0, 2, 3}
    for row, count in ((0, 2), (2, 0), (3, 20)):
        same(output.logprobs[row], reference(logits[row], output.tokens[row], count))
    assert output.tokens[0] != best == output.logprobs[0].top[0][0]
    assert output.logprobs[2].top == ()
