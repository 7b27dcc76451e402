"""Recorded time only goes forward, and by what both clocks of the engine agree has passed."""

import pytest

from kvtop.record import RecordedClock


@pytest.mark.parametrize(
    ("dates", "passed"),
    [
        ([(10.0, 100.0), (10.5, 100.5)], 0.5),
        ([(10.0, 100.0), (10.5, 3700.0)], 0.5),  # the wall clock was set ahead
        ([(10.0, 100.0), (10.5, 50.0)], 0.5),  # and back
        ([(10.0, 100.0), (9010.0, 100.5)], 0.5),  # the monotonic one leapt
        ([(10.0, 100.0), (3.0, 107.0)], 7.0),  # another boot of the host
        ([(10.0, 100.0), (3.0, 50.0)], 0.0),  # nobody knows
        ([(10.0, 100.0), (float("nan"), 101.0)], 1.0),
        ([(10.0, 100.0), (float("inf"), float("nan"))], 0.0),
    ],
)
def test_what_passed(dates: list[tuple[float, float]], passed: float) -> None:
    clock = RecordedClock()
    for mono, wall in dates:
        clock.take(mono, wall)
    assert clock.now == pytest.approx(passed)


def test_a_leap_is_forward_whatever_the_dates_say() -> None:
    clock = RecordedClock()
    clock.take(500.0, 900.0)
    clock.leap()
    before = clock.now
    assert clock.take(10.0, 20.0) == before > 0.0
    assert clock.take(11.0, 21.0) == before + 1.0
