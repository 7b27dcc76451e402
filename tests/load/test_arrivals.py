import itertools
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.load.arrivals import Bursts, OpenLoop, Ramp, Recorded, Renewal

RATES = st.floats(0.01, 1000)


def first(arrivals: OpenLoop, count: int, seed: int = 0) -> list[float]:
    return list(itertools.islice(arrivals.times(seed), count))


@given(
    st.one_of(
        st.builds(Renewal, RATES, st.sampled_from((0.2, 1.0, 5.0, math.inf))),
        st.builds(Bursts, st.integers(1, 9), st.floats(0.1, 100)),
        st.builds(Ramp, RATES, RATES | st.just(0.0), st.floats(1, 100)),
        st.builds(Ramp, st.just(0.0), RATES, st.floats(1, 100)),
    ),
    st.integers(0, 9),
)
def test_times_go_up_and_follow_from_the_seed(arrivals: OpenLoop, seed: int) -> None:
    times = first(arrivals, 50, seed)
    assert times == sorted(times)
    assert all(math.isfinite(when) and when >= 0 for when in times)
    assert times == first(arrivals, 50, seed)


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0, math.inf])
def test_gaps_have_the_mean_and_the_spread_that_were_asked_for(burstiness: float) -> None:
    times = first(Renewal(20.0, burstiness), 20_000)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(1 / 20, rel=0.05)
    # The coefficient of variation of a gamma distribution.
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(
        1 / math.sqrt(burstiness), rel=0.05, abs=1e-6
    )


@pytest.mark.parametrize(("start", "end"), [(0.0, 100.0), (100.0, 0.0), (20.0, 60.0), (50.0, 50.0)])
def test_a_ramp_has_as_many_in_each_quarter_as_its_rate_says(start: float, end: float) -> None:
    ramp = Ramp(start, end, 100.0)
    times = list(itertools.takewhile(lambda when: when < 120, ramp.times(7)))
    for quarter in (0.0, 25.0, 50.0, 75.0, 95.0):
        expected = ramp.expected(quarter + 25) - ramp.expected(quarter)
        seen = sum(quarter <= when < quarter + 25 for when in times)
        assert abs(seen - expected) <= 5 * math.sqrt(expected) + 1


def test_a_ramp_down_to_nothing_ends() -> None:
    assert max(Ramp(10.0, 0.0, 30.0).times(1)) <= 30


def test_bursts_come_together_and_a_trace_at_its_scale() -> None:
    assert first(Bursts(2, 5.0), 5) == [0, 0, 5, 5, 10]
    assert first(Recorded([0.0, 1.0, 7.0], 0.1), 9) == pytest.approx([0.0, 0.1, 0.7])
