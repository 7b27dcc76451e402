"""Which tokens are left by min-p, top-k and top-p, and that each is reached as often as its mass says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.choosing import SORTED_AT_ONCE, Masses, choose


def _masses(*values: float) -> Masses:
    return np.array(values, np.float32)


def _plainly(masses: Masses, top_p: float, uniform: float, top_k: int = 0, min_p: float = 0.0) -> int:
    """`choose` from its definition: everything is sorted, then cut three times."""
    ids = np.argsort(-masses, kind="stable")
    ids = ids[masses[ids] >= np.float32(min_p) * masses.max()]
    ids = ids[: top_k or len(ids)]
    ids = ids if top_p < 1 else np.sort(ids)
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
    top_k=st.one_of(st.just(0), st.integers(1, 100), st.integers(1, 60_000)),
    min_p=st.one_of(st.just(0.0), st.floats(0.0, 1.0)),
)
def test_every_choice_is_that_of_the_plain_definition(
    shape: str, size: int, seed: int, top_p: float, uniform: float, top_k: int, min_p: float
) -> None:
    masses = _shaped(shape, size, seed)
    chosen = choose(masses, top_p, uniform, top_k=top_k, min_p=min_p)
    assert chosen == _plainly(masses, top_p, uniform, top_k, min_p)


def test_top_k_keeps_exactly_so_many_of_equals_the_lower_ids() -> None:
    uniforms = np.linspace(0, 0.999, 200)
    masses = _masses(0.125, 0.25, 0.25, 0.125, 0.25)
    assert {choose(masses, 1.0, uniform, top_k=2) for uniform in uniforms} == {1, 2}
    assert {choose(masses, 1.0, uniform, top_k=4) for uniform in uniforms} == {0, 1, 2, 4}
    assert {choose(masses, 1.0, uniform, top_k=1) for uniform in uniforms} == {1}


def test_min_p_goes_by_the_likeliest_and_top_p_by_what_is_left() -> None:
    uniforms = np.linspace(0, 0.999, 200)
    masses = _masses(0.4, 0.3, 0.2, 0.1)
    assert {choose(masses, 1.0, uniform, min_p=0.5) for uniform in uniforms} == {0, 1, 2}
    assert {choose(masses, 1.0, uniform, min_p=1.0) for uniform in uniforms} == {0}
    # Of what min_p leaves the first two have 7 parts of 9, of all only 7 of 10.
    assert {choose(masses, 0.75, uniform, min_p=0.5) for uniform in uniforms} == {0, 1}
    assert {choose(masses, 0.75, uniform) for uniform in uniforms} == {0, 1, 2}
    assert {choose(masses, 0.75, uniform, top_k=3) for uniform in uniforms} == {0, 1}


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
    logits = 3 * torch.randn(49152, generator=torch.Generator().manual_seed(0))
    for scale in (0.001, 0.1, 1.0, 5.0):
        masses = torch.softmax(logits * scale, dim=-1).numpy()
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
