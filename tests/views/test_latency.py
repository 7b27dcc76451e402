"""The latency panel: percentiles, histogram, goodput, and what waits beside what got through."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.protocol import RequestChange
from kvtop.state import EngineState, Latencies
from kvtop.state.percentiles import MAX_SAMPLES, in_octaves, nearest_rank
from kvtop.state.service_level import service_level, spelled
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.latency import WINDOWS, latency_rows, percentiles
from tests.views.scene import MONO, NOW, check_rows, gauges_only, iteration, scene

AT = NOW + 300.0


def served(count: int = 100, every: float = 1.0) -> EngineState:
    """Requests that come one after another: the n-th waits n/100 s and takes n/10 ms a token; every tenth is aborted."""
    state = scene(requests=[], queue=None)
    for n in range(1, count + 1):
        at = MONO + 10 + n * every
        first = RequestChange(
            num=n,
            id=f"r{n}",
            state="decode",
            phase_since=at,
            queue_s=n / 100,
            prefill_s=0.1,
            ttft_s=n / 100 + 0.1,
            output_tokens=1,
        )
        last = RequestChange(num=n, state="finished", phase_since=at, decode_s=n / 1000, tpot_s=n / 10_000, output_tokens=11,
                             finish_reason="abort" if n % 10 == 0 else "stop")  # fmt: skip
        state.apply(iteration(13 + 2 * n, at, requests=[first]), at - MONO + NOW)
        state.apply(iteration(14 + 2 * n, at + every / 2, requests=[last]), at + every / 2 - MONO + NOW)
    return state


@pytest.mark.parametrize("size", [(60, 9), (60, 14), (80, 22), (120, 37), (200, 48), (80, 1)])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_it_fits_every_size(size: tuple[int, int], glyphs: object) -> None:
    for state in (served(20), gauges_only(), EngineState(), scene()):
        text = check_rows(latency_rows(state, *size, NOW + 40, glyphs, level={"ttft": 0.2}), *size)  # type: ignore[arg-type]
        assert glyphs is UNICODE or text.isascii()


def test_percentiles_are_values_that_occurred_in_their_window() -> None:
    state = served()
    text = check_rows(latency_rows(state, 80, 22, NOW + 110.5), 80, 22).split("\n")
    # Of the last minute: the last of a hundred, one a second. Ten were aborted; they have no whole latency.
    assert text[2].split() == [
        "ttft",
        *(["800ms", "1.0s", "1.1s", "60"]),
        *(["600ms", "1.0s", "1.1s", "100"]),
        *(["600ms", "1.0s", "1.1s", "100"]),
    ]
    assert text[4].split()[:5] == ["queue", "700ms", "940ms", "1.0s", "60"]
    assert text[5].split()[-1] == "90"
    assert "1 min" in text[0]
    assert "all seen" in text[0]


def test_goodput_counts_what_finished_and_says_what_it_left_out() -> None:
    state = served()
    level = {"ttft": 0.6, "tpot": 0.004}
    text = check_rows(latency_rows(state, 120, 22, NOW + 110.5, level=level), 120)
    # Of 90 that came to their end, those up to the fortieth but four aborted; of the last minute none is within.
    assert (
        "goodput ttft≤600ms tpot≤4.0ms · 1 min 0% of 54 finished · 7 ended otherwise · 5 min 40% of 90 finished" in text
    )
    found = state.latencies.outcomes.goodput(level, -1e9, 1e9)
    assert (found.within, found.judged, found.unknown, found.failed) == (36, 90, 0, 10)


def test_a_request_of_one_token_has_no_time_between_two_and_an_unknown_time_is_not_within() -> None:
    state = scene(requests=[], queue=None)
    ended = RequestChange(num=1, state="finished", phase_since=MONO, ttft_s=0.1, output_tokens=1, finish_reason="stop")
    never_told = RequestChange(num=2, state="finished", phase_since=MONO, output_tokens=5, finish_reason="stop")
    state.apply(iteration(15, MONO + 5, requests=[ended, never_told]), NOW + 5)
    found = state.latencies.outcomes.goodput({"ttft": 1.0, "tpot": 0.1}, 0, 1e9)
    assert (found.within, found.judged, found.unknown) == (1, 1, 1)


def test_what_was_over_before_anybody_watched_is_unknown_and_no_zero() -> None:
    state = scene(requests=[])
    text = check_rows(latency_rows(state, 80, 22, NOW + 4), 80)
    assert text.split("\n")[2].split() == ["ttft", *["–", "–", "–", "0"] * 3]
    assert "no ttft was told yet" in text
    assert "0ms" not in text


def test_what_waits_stands_beside_what_got_through() -> None:
    text = check_rows(latency_rows(scene(), 100, 22, NOW + 4), 100)
    assert "waits now 2 requests, oldest 16.4s so far · through in 1 min" in text


def test_the_histogram_has_every_request_once_and_says_its_bounds() -> None:
    state = served()
    for window, whole in ((WINDOWS[1], 100), (WINDOWS[2], 100), (WINDOWS[0], 60)):
        rows = check_rows(latency_rows(state, 80, 30, NOW + 110.5, window=window), 80).split("\n")[9:]
        told = [row.split() for row in rows if row.strip()]
        assert sum(int(row[-2]) for row in told) == whole
        assert all(row[1] == "to" for row in told)


def test_not_exposed_is_said() -> None:
    assert "latencies of requests: not exposed by vllm" in check_rows(latency_rows(gauges_only(), 80, 22, NOW), 80, 22)


@given(st.lists(st.floats(0, 1e7), min_size=1, max_size=60), st.sampled_from([0.5, 0.9, 0.99]))
def test_counts_of_all_are_near_what_sorting_would_say(values: list[float], share: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(0.0, value)
    exact, found = nearest_rank(sorted(values), share), latencies.of_all(share)
    assert found is not None
    if 2**-14 <= exact < 2**17:
        assert exact / 1.045 <= found <= exact * 1.045
    assert latencies.octaves().sum() == len(values) == in_octaves(np.array(values)).sum()


def test_of_more_than_are_kept_all_are_counted() -> None:
    latencies = Latencies()
    for n in range(MAX_SAMPLES + 1000):
        latencies.add(n / 100, 1.0 if n < 2000 else 2.0)
    assert latencies.counted == MAX_SAMPLES + 1000
    values, number = percentiles(latencies, 51.0, WINDOWS[2])
    assert number == MAX_SAMPLES + 1000
    assert values[0] == pytest.approx(2.0, rel=0.045)
    assert not latencies.reaches(51.0, 300.0)
    assert latencies.reaches(51.0, 5.0)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ttft=1,tpot=0.1", {"ttft": 1.0, "tpot": 0.1}),
        ("", {}),
        (" latency = 30 ,", {"latency": 30.0}),
        ("queue=5e-1", {"queue": 0.5}),
    ],
)
def test_a_service_level_is_read_and_spelled(text: str, wanted: dict[str, float]) -> None:
    assert service_level(text) == wanted
    assert service_level(spelled(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ttft", "ttft is not NAME=SECONDS"),
        ("tfft=1", "one of ttft, tpot, queue, latency"),
        ("ttft=0", "no number of seconds above 0"),
        ("ttft=nan", "no number of seconds"),
        ("ttft=1,ttft=2", "said twice"),
        ("ttft=1e9", "no number of seconds"),
        ("\x1b[31m=1", "is not NAME=SECONDS"),
    ],
)
def test_what_is_none_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        service_level(text)
