"""Numbers are short, carry their unit, and unknown is never a zero."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.views import format
from tests.views.scene import cells_drawn

anything = st.one_of(st.none(), st.integers(), st.floats())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (9999, "9999"), (10_000, "10.0k"), (12_345, "12.3k"), (99_950, "100k"), (999_499, "999k"),
        (999_500, "1.00M"), (1_234_567, "1.23M"), (5.4e9, "5.40G"), (2e12, "2.00T"), (-12, "-12"), (1e15, "huge"),
        (10**400, "huge"), (None, "–"), (math.nan, "–"), (math.inf, "–"),
    ],
)  # fmt: skip
def test_count(value: float | None, text: str) -> None:
    assert format.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0ms"), (0.0004, "0.4ms"), (0.85, "850ms"), (0.9996, "1.0s"), (12.44, "12.4s"), (59.96, "1m00"),
        (185, "3m05"), (3599.6, "1h00"), (7620, "2h07"), (100 * 3600, "4d04"), (1e9, "huge"), (-5, "0ms"), (None, "–"),
        (math.nan, "–"),
    ],
)  # fmt: skip
def test_seconds(value: float | None, text: str) -> None:
    assert format.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1.0 KiB"), (23_592_960, "22.5 MiB"), (1 << 40, "1.0 TiB"), (None, "–"), (-1, "–")],
)
def test_size(value: float | None, text: str) -> None:
    assert format.size(value) == text


def test_a_part_is_given_in_the_unit_of_its_whole() -> None:
    assert format.size_of(9.2 * 2**20, 22.5 * 2**20) == "9.2 of 22.5 MiB"
    assert format.size_of(None, 2**20) == "– of 1.0 MiB"
    assert format.size_of(2**20, None) == "1.0 MiB"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0%"), (0.004, "<1%"), (0.414, "41%"), (0.996, ">99%"), (1, "100%"), (None, "–"), (math.nan, "–")],
)
def test_percent_keeps_nothing_and_all_for_nothing_and_all(value: float | None, text: str) -> None:
    assert format.percent(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.421, "0.42"), (31.44, "31.4"), (987.2, "987"), (12_345, "12.3k"), (None, "–")]
)
def test_rate(value: float | None, text: str) -> None:
    assert format.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(True, "on"), (False, "off"), (16, "16"), (0.01, "0.01"), ("a\x1b[2J", "a?[2J"), (None, "–")]
)
def test_policy_values(value: object, text: str) -> None:
    assert format.value(value) == text


@given(anything)
def test_no_number_is_wider_than_its_column(value: float | None) -> None:
    assert len(format.count(value)) <= 6
    for shown in (format.rate(value), format.seconds(value), format.age(value), format.percent(value)):
        assert len(shown) <= 6
    assert len(format.size(value)) <= 9
    assert len(format.clock(value)) == 8
    assert len(format.serial(value)) <= 16


@given(st.floats(0, 1e14))
def test_non_negative_numbers_fit_five_cells(value: float) -> None:
    for shown in (format.count(value), format.rate(value), format.seconds(value)):
        assert len(shown) <= 5, shown


@given(st.text(), st.integers(0, 30))
def test_a_name_fills_its_column_exactly(name: str, width: int) -> None:
    for shown in (format.fixed(name, width), format.ends(name, width)):
        assert len(shown) == width
        assert cells_drawn(shown) == width
    assert len(format.short(name, width)) <= width
