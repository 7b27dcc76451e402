"""Before and after with an error bar: it covers nothing where there is nothing, and finds what there is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.state.comparison import (
    BLOCK_S,
    LEAST_BLOCKS,
    LONGEST_S,
    block_length,
    block_means,
    block_percentiles,
    compare,
    t_quantile,
)


@pytest.mark.parametrize("noise", ["normal", "poisson", "exponential"])
def test_of_independent_noise_the_interval_covers_0_at_about_the_stated_rate(noise: str) -> None:
    rng = np.random.default_rng(7)
    draw = {"normal": lambda: rng.normal(50, 9, 60), "poisson": lambda: rng.poisson(3, 60), "exponential": lambda: rng.exponential(2, 60)}[noise]  # fmt: skip
    covered = sum(
        compare(block_means(draw().astype(float), 5), block_means(draw().astype(float), 5)).told is False
        for _ in range(1000)
    )
    # 95 % of a thousand, and three of its standard deviations of 7 on either side.
    assert 929 <= covered <= 971


def test_of_seconds_that_are_alike_it_is_wide_enough_only_by_blocks() -> None:
    rng = np.random.default_rng(3)

    def swinging() -> np.ndarray:
        steps = rng.normal(0, 1, 120)
        values = np.zeros(120)
        for n in range(1, 120):
            values[n] = 0.6 * values[n - 1] + steps[n]
        return values

    by_blocks = by_seconds = 0
    for _ in range(300):
        one, two = swinging(), swinging()
        each = block_length(120)
        by_blocks += compare(block_means(one, each), block_means(two, each)).told is False
        by_seconds += compare(one, two).told is False
    assert by_seconds < 230, "taken as independent, a third of nothing would be told as something"
    assert by_blocks > 265, "near 95 %"


@given(shift=st.floats(5, 1e6), spread=st.floats(0, 1), down=st.booleans(), seed=st.integers(0, 9))
@settings(max_examples=40)
def test_a_true_shift_is_found_and_lies_within_the_interval(shift: float, spread: float, down: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shift = -shift if down else shift
    before, after = rng.normal(100, spread, 60), rng.normal(100 + shift, spread, 60)
    found = compare(block_means(before, 5), block_means(after, 5))
    assert found.told is True
    assert found.difference is not None
    assert found.margin is not None
    assert (found.difference > 0) == (shift > 0)
    assert abs(found.difference - shift) <= 2 * found.margin + 1e-6 * abs(shift)


def test_too_little_is_said_to_be_so() -> None:
    few = np.arange(LEAST_BLOCKS - 1, dtype=float)
    found = compare(few, np.arange(60.0))
    assert found.told is None
    assert found.margin is None
    assert found.before == 2.0
    assert compare(np.empty(0), few).difference is None


def test_what_never_moves_has_no_margin_and_no_difference() -> None:
    assert compare(np.full(10, 3.0), np.full(10, 3.0)).told is False
    assert compare(np.full(10, 3.0), np.full(10, 4.0)).told is True


def test_unknown_seconds_are_left_out_and_blocks_of_them_too() -> None:
    nan = float("nan")
    values = np.array([1, nan, 3, nan, nan, nan, nan, nan, 9, nan, 5, 5, 5, 5, 5, 7])
    assert block_means(values, 5).tolist() == [5.0]
    assert block_means(np.array([1, 2, 3, nan, nan]), 5).tolist() == [2.0]


@pytest.mark.parametrize(("freedom", "exact"), [(3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (1e9, 1.96)])
def test_quantiles_are_those_of_tables(freedom: float, exact: float) -> None:
    assert t_quantile(freedom) == pytest.approx(exact, rel=2e-3)


def test_blocks_are_as_long_as_their_window_asks() -> None:
    assert block_length(30) == BLOCK_S
    assert block_length(LONGEST_S) > BLOCK_S
    for seconds in range(30, LONGEST_S + 1):
        assert seconds // block_length(seconds) >= LEAST_BLOCKS


def test_percentiles_by_block() -> None:
    dates, values = np.array([0.0, 1, 2, 11, 12]), np.array([3.0, 1, 2, 8, 9])
    assert block_percentiles(dates, values, 0.0, 15, 5, 0.5).tolist() == [2.0, 8.0]
