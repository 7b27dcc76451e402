"""Rates by differences of totals, over the window they claim."""

import pytest

from kvtop.protocol import Counters
from kvtop.state import Rates


def fed(*samples: tuple[float, int]) -> Rates:
    rates = Rates()
    for mono, total in samples:
        rates.add(mono, {"decode_tokens": total})
    return rates


def test_tokens_a_second_over_the_last_five_seconds() -> None:
    rates = fed(*((t / 2, int(t / 2 * 100)) for t in range(41)))
    assert rates.per_second("decode_tokens", 20.0) == pytest.approx(100)


def test_what_is_older_than_the_window_does_not_count() -> None:
    rates = fed((0.0, 0), (1.0, 1000), (8.0, 1000), (10.0, 1040))
    assert rates.per_second("decode_tokens", 10.0) == pytest.approx(40 / 5)


def test_an_engine_that_falls_silent_goes_down_to_zero() -> None:
    rates = fed((0.0, 0), (5.0, 500))
    assert rates.per_second("decode_tokens", 7.0) == pytest.approx(100)
    assert rates.per_second("decode_tokens", 10.1) == 0


def test_unknown_until_there_is_history_to_speak_of() -> None:
    assert Rates().per_second("decode_tokens", 1.0) is None
    assert fed((0.0, 0)).per_second("decode_tokens", 0.0) is None
    assert fed((0.0, 0), (0.1, 50)).per_second("decode_tokens", 0.1) is None
    assert fed((0.0, 0), (1.0, 50)).per_second("decode_tokens", 1.0) == pytest.approx(50)
    assert fed((0.0, 0), (1.0, 50)).per_second("decode_tokens", None) is None
    assert fed((0.0, 0), (1.0, 50)).per_second("evictions", 1.0) is None


def test_every_total_that_engines_send_can_be_shown_as_a_rate() -> None:
    rates, names = Rates(), list(Counters.model_fields)
    for mono in (0.0, 1.0):
        rates.add(mono, {name: 100 + mono * place for place, name in enumerate(names)})
    assert [rates.per_second(name, 1.0) for name in names] == pytest.approx(list(range(len(names))))


def test_a_total_that_falls_starts_anew_and_is_never_negative() -> None:
    rates = fed((0.0, 1000), (1.0, 1100), (2.0, 5))
    assert rates.per_second("decode_tokens", 2.0) is None
    rates.add(3.0, {"decode_tokens": 25})
    assert rates.per_second("decode_tokens", 3.0) == pytest.approx(20)


def test_time_that_goes_back_starts_anew() -> None:
    rates = fed((100.0, 10), (101.0, 20), (5.0, 30), (6.0, 40))
    assert rates.per_second("decode_tokens", 6.0) == pytest.approx(10)


def test_a_fast_engine_keeps_no_more_samples_than_a_slow_one() -> None:
    rates = fed(*((t / 1000, t) for t in range(10_000)))
    assert len(rates._times) < 120
    assert rates.per_second("decode_tokens", 9.999) == pytest.approx(1000, rel=0.03)


def test_hit_rate_over_a_window_and_for_ever() -> None:
    rates = Rates()
    rates.add(0.0, {"prefix_query_tokens": 1000, "prefix_hit_tokens": 100})
    assert rates.hit_rate(0.0) is None
    assert rates.hit_rate_lifetime() == pytest.approx(0.1)
    rates.add(10.0, {"prefix_query_tokens": 1000, "prefix_hit_tokens": 100})
    assert rates.hit_rate(10.0) is None
    rates.add(20.0, {"prefix_query_tokens": 1200, "prefix_hit_tokens": 200})
    assert rates.hit_rate(20.0) == pytest.approx(0.5)
    assert rates.hit_rate_lifetime() == pytest.approx(200 / 1200)


def test_nothing_looked_up_is_unknown_not_zero() -> None:
    rates = Rates()
    rates.add(0.0, {"prefix_query_tokens": 0, "prefix_hit_tokens": 0})
    assert rates.hit_rate_lifetime() is None
    assert Rates().hit_rate_lifetime() is None


def test_preemptions_a_minute() -> None:
    rates = Rates()
    rates.add(0.0, {"preemptions": 0})
    rates.add(30.0, {"preemptions": 3})
    assert rates.per_minute("preemptions", 30.0) == pytest.approx(6)
