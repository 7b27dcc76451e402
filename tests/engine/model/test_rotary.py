"""Rotary positions, and what stretches them to longer contexts."""

import math

import numpy as np
import pytest
import torch

from engine.model.rope import Divided, Linear, Llama3, Rope, Yarn, yarn_magnitude
from engine.model.rotary import RotaryTables

SIZE = 16


def _tables(rope: Rope, positions: list[int], context: int = 8192) -> tuple[np.ndarray, np.ndarray]:
    tables = RotaryTables(rope, SIZE, context, torch.device("cpu"), torch.float32)
    cosines, sines = tables.at(torch.tensor(positions), max(positions) + 1)
    return cosines[:, 0].double().numpy(), sines[:, 0].double().numpy()


def test_rotary_positions_are_relative() -> None:
    """Scores depend on the distance of two positions, not on where they are: the tables are cosines and sines."""
    query, key = np.random.default_rng(0).standard_normal((2, SIZE))

    def score(left: int, right: int) -> float:
        cosines, sines = _tables(Rope(), [left, right])
        np.testing.assert_allclose(cosines**2 + sines**2, 1, atol=1e-6)
        turned = [x * c + np.roll(x, SIZE // 2) * s for x, c, s in zip((query, key), cosines, sines, strict=True)]
        return float(turned[0] @ turned[1])

    assert score(17, 5) == pytest.approx(score(3017, 3005), abs=1e-4)
    assert score(17, 5) != pytest.approx(score(18, 5), abs=1e-4)


def test_a_table_grows_to_the_position_that_is_asked_for() -> None:
    tables = RotaryTables(Rope(), SIZE, 1 << 31, torch.device("cpu"), torch.float32)
    for position in (3, 1023, 1024, 5000, 7):
        cosines, _ = tables.at(torch.tensor([position]), position + 1)
        assert cosines[0, 0, 0] == pytest.approx(math.cos(position), abs=1e-6)


def test_linear_scaling_divides_positions() -> None:
    stretched, plain = _tables(Rope(scaling=Linear(4.0)), [400]), _tables(Rope(), [100])
    np.testing.assert_allclose(stretched, plain)


@pytest.mark.parametrize(
    "scaling",
    [Llama3(8.0, 1.0, 4.0, 256), Yarn(8.0, 256, magnitude=yarn_magnitude(8.0)), Yarn(8.0, 256, truncate=False)],
)
def test_fast_pairs_keep_their_speed_and_slow_ones_turn_slower_by_the_factor(scaling: Llama3 | Yarn) -> None:
    plain, stretched = Rope().frequencies(SIZE), Rope(scaling=scaling).frequencies(SIZE)
    assert stretched[0] == plain[0]
    assert stretched[-1] == pytest.approx(plain[-1] / 8)
    assert (np.diff(stretched) < 0).all()
    between = (stretched < plain * (1 - 1e-9)) & (stretched > plain / 8 * (1 + 1e-9))
    assert between.any()


def test_yarn_scales_queries_and_keys() -> None:
    cosines, sines = _tables(Rope(scaling=Yarn(8.0, 256, magnitude=yarn_magnitude(8.0))), [5])
    np.testing.assert_allclose(cosines**2 + sines**2, (0.1 * math.log(8) + 1) ** 2, rtol=1e-6)


def test_each_pair_may_have_its_own_factor() -> None:
    factors = tuple(float(1 + pair) for pair in range(SIZE // 2))
    np.testing.assert_allclose(
        Rope(scaling=Divided(factors)).frequencies(SIZE) * np.array(factors), Rope().frequencies(SIZE)
    )


@pytest.mark.parametrize("base", [0.0, 1.0, -5.0, math.nan, math.inf])
def test_a_base_that_makes_no_sense_is_refused(base: float) -> None:
    with pytest.raises(ValueError, match="rotary base"):
        Rope(base)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Linear(0.0), "factor"),
        (lambda: Yarn(math.nan, 256), "factor"),
        (lambda: Yarn(4.0, 0), "original"),
        (lambda: Llama3(8.0, 4.0, 4.0, 256), "low_freq_factor"),
    ],
)
def test_scaling_that_makes_no_sense_is_refused_by_name(make: object, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()  # type: ignore[operator]
