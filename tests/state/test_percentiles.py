"""Percentiles by nearest rank, over a window."""

import pytest

from kvtop.state import Latencies
from kvtop.state.percentiles import MAX_SAMPLES, nearest_rank


def test_percentiles_are_values_that_occurred() -> None:
    latencies = Latencies()
    for n in range(1, 101):
        latencies.add(10.0, n / 100)
    summary = latencies.summary(10.0)
    assert summary is not None
    assert summary == (0.50, 0.95, 100)


@pytest.mark.parametrize(("share", "expected"), [(0.01, 1.0), (0.5, 2.0), (0.67, 3.0), (1.0, 3.0)])
def test_nearest_rank(share: float, expected: float) -> None:
    assert nearest_rank([1.0, 2.0, 3.0], share) == expected


def test_only_the_window_counts() -> None:
    latencies = Latencies()
    latencies.add(0.0, 9.0)
    latencies.add(50.0, 1.0)
    summary = latencies.summary(70.0)
    assert summary is not None
    assert summary.n == 1
    assert latencies.summary(200.0) is None
    assert latencies.summary(None) is None


def test_samples_are_bounded_and_sane() -> None:
    latencies = Latencies()
    for bad in (float("nan"), float("inf"), -1.0):
        latencies.add(0.0, bad)
    assert latencies.summary(0.0) is None
    for _ in range(MAX_SAMPLES + 10):
        latencies.add(0.0, 1.0)
    summary = latencies.summary(0.0)
    assert summary is not None
    assert summary.n == MAX_SAMPLES
