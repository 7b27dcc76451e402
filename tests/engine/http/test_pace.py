"""When a client that is sent away is told to come again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.http.pace import LONGEST, WINDOW, Pace, come_again
from engine.http.settings import HttpLimits
from tests.engine.http.kit import Serving


def pace(*ended: float) -> Pace:
    made = Pace()
    for when in ended:
        made.ended(when)
    return made


def test_the_pace_is_that_of_the_answers_that_ended_lately() -> None:
    assert pace(0.0, 0.5, 1.0).per_second(1.0) == pytest.approx(2.0)
    assert pace(0.0, 0.5, 1.0).per_second(4.0) == pytest.approx(0.5), "none has ended since"
    assert pace(0.0, 1000.0, 1001.0).per_second(1002.0) == pytest.approx(0.5), "the first is long ago"
    many = Pace()
    for number in range(10_000):
        many.ended(number / 100)
    assert many.per_second(99.99) == pytest.approx(100.0)


@pytest.mark.parametrize("ended", [(), (5.0,), (0.0, 1.0), (0.0, 5.0 - 1e-9)])
def test_of_next_to_nothing_nothing_is_told(ended: tuple[float, ...]) -> None:
    assert pace(*ended).per_second(5.0 + WINDOW) is None


@given(
    st.lists(st.floats(0, 100), max_size=20).map(sorted), st.floats(0, 200), st.integers(0, 10_000), st.integers(1, 9)
)
def test_whatever_is_known_it_is_a_time_that_a_client_can_wait(
    ended: list[float], later: float, before: int, otherwise: int
) -> None:
    now = (ended[-1] if ended else 0.0) + later
    assert 1 <= come_again(before, pace(*ended).per_second(now), otherwise) <= LONGEST


def test_it_is_the_time_in_which_those_before_are_answered() -> None:
    assert come_again(10, 4.0, 1) == 3
    assert come_again(0, 4.0, 1) == 1
    assert come_again(512, 0.5, 1) == LONGEST
    assert come_again(512, None, 2) == 2


def test_a_client_is_told_by_what_was_answered_before(tmp_path) -> None:  # type: ignore[no-untyped-def]
    it = Serving(tmp_path, HttpLimits(requests=3))
    path, long = "/v1/completions", {"prompt": "long", "max_tokens": 4000, "ignore_eos": True}
    try:
        open_ = [it.open(path, long) for _ in range(3)]
        it.until(lambda: it.http.gate.active == 3)
        assert it.ask(path, {"prompt": "x"})[2]["retry-after"] == "1", "nothing is known"
        it.http.gate.pace.per_second = lambda now: 0.25  # type: ignore[method-assign]
        status, _, headers = it.ask(path, {"prompt": "x"})
        assert (status, headers["retry-after"]) == (429, "12")
        del it.http.gate.pace.per_second
        for raw in open_:
            raw.close()
        it.until(lambda: not it.http.gate.active)
        assert len(it.http.gate.pace._ended) == 3
    finally:
        it.close()
