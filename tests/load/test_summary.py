"""Figures of a run, counted by other means."""

import itertools
import math
import random
import tracemalloc
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.load.driver import Limits, Tally
from kvtop.load.result import distribution
from kvtop.load.sample import Failure, Sample
from kvtop.load.summary import slices, summarise, tokens_within, window


def sample(
    index: int, due: float, *, late: float = 0.0, first: float = 0.5, gap: float = 0.1, tokens: int = 5, **more: object
) -> Sample:
    sent = due + late
    found = Sample(index, "", index, 0, due, 10, tokens, sent=sent)
    found.tokens_at = array("d", [sent + first + gap * count for count in range(tokens)])
    found.done = found.tokens_at[-1] if tokens else None
    found.output_tokens, found.prompt_tokens, found.finish_reason = tokens, 10, "length"
    for name, value in more.items():
        setattr(found, name, value)
    return found


def tally(samples: list[Sample], seconds: float = 10.0, *, answered: bool = False, **limits: float) -> Tally:
    found = Tally(0.0, Limits(seconds, **limits), samples)  # type: ignore[arg-type]
    found.issued_until, found.all_answered = seconds, answered
    return found


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_percentiles_are_values_that_occurred_in_order(values: list[float]) -> None:
    found = distribution(values)
    spread = [found.p50, found.p90, found.p99, found.maximum]
    assert all(value in values for value in spread)
    assert spread == sorted(spread)  # type: ignore[type-var]
    assert sum(value <= found.p90 for value in values) >= 0.9 * len(values)  # type: ignore[operator]


def test_times_are_those_of_the_request() -> None:
    one = sample(0, due=2.0, late=0.25, first=0.5, gap=0.1, tokens=5)
    assert one.lateness == pytest.approx(0.25)
    assert one.ttft == pytest.approx(0.5)
    assert one.tpot == pytest.approx(0.1)
    assert one.latency == pytest.approx(0.9)
    # Pieces of two tokens each: half the time a token.
    one.output_tokens = 9
    assert one.tpot == pytest.approx(0.4 / 8)


def test_two_choices_share_their_time() -> None:
    one = sample(0, due=0.0, tokens=10, gap=0.05, choices=2)
    assert one.tpot == pytest.approx(0.45 / 4)


def test_the_warm_up_counts_in_no_figure_but_its_tokens_flow() -> None:
    samples = [sample(0, 0.0, warmup=True, first=4.0), *(sample(index, 2.0 + index) for index in range(1, 5))]
    found = summarise(tally(samples, warmup_seconds=3.0), {})
    assert found["window"] == (3.0, 10.0)
    assert (found["counts"]["warmup"], found["counts"]["finished"]) == (1, 4)
    assert found["ttft"].maximum == pytest.approx(0.5)
    assert found["rates"].output_tokens == pytest.approx(25 / 7)


def test_where_all_is_answered_the_last_answer_ends_the_window() -> None:
    samples = [sample(index, float(index)) for index in range(3)]
    assert window(tally(samples, answered=True)) == (0.0, pytest.approx(2.9))
    assert summarise(tally(samples, answered=True), {})["rates"].output_tokens == pytest.approx(15 / 2.9)


def test_goodput_counts_what_failed_as_not_good() -> None:
    samples = [
        sample(0, 0.0),
        sample(1, 0.0, first=2.0),
        sample(2, 0.0, gap=0.5),
        sample(3, 0.0, failure=Failure.DROPPED, detail="gone"),
        sample(4, 0.0, failure=Failure.UNFINISHED),
    ]
    found = summarise(tally(samples), {"ttft": 1.0, "tpot": 0.2})
    good = found["goodput"]
    assert (good.met, good.share, good.rate) == (1, pytest.approx(1 / 5), pytest.approx(0.1))
    assert found["counts"] == {"sent": 5, "finished": 3, "failed": 1, "unfinished": 1, "warmup": 0, "overdue": 0}
    assert [(failed.kind, failed.count, failed.example) for failed in found["failures"]] == [("dropped", 1, "gone")]


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_tokens_are_neither_lost_nor_counted_twice(seed: int, count: int) -> None:
    draw = random.Random(seed)
    samples = [
        sample(
            index,
            draw.uniform(0, 9),
            first=draw.uniform(0, 2),
            tokens=draw.randint(1, 6),
            output_tokens=draw.randint(1, 9),
        )
        for index in range(10)
    ]
    everything = sum(one.tokens for one in samples)
    assert sum(slices(samples, 0.0, 100.0, count)) == pytest.approx(everything)
    edge = draw.uniform(0.5, 9)
    before, after = (sum(tokens_within(one, *part) for one in samples) for part in ((0.0, edge), (edge, 100.0)))
    assert before + after == pytest.approx(everything)
    assert sum(slices(samples, 0.0, edge, count)) == pytest.approx(before)


def test_nothing_measured_is_no_figure_and_not_zero() -> None:
    found = summarise(tally([]), {"ttft": 1.0})
    assert found["ttft"].p50 is None
    assert (found["cached_share"], found["rates"].prompt_tokens, found["tokens_counted_by"]) == (None, None, "none")


def test_what_fell_due_and_was_not_sent_was_offered_all_the_same() -> None:
    late = tally([sample(index, due=index) for index in range(5)])
    late.overdue = 15
    found = summarise(late, {})
    assert (found["rates"].offered, found["rates"].sent) == (2.0, 0.5)
    assert found["counts"]["overdue"] == 15


def test_a_token_more_takes_a_few_bytes_more_and_the_gaps_are_those_between_tokens() -> None:
    """A load of a day has a hundred million of them."""
    requests, each = 20, 5000

    tracemalloc.start()
    try:
        samples = [sample(index, float(index), tokens=0) for index in range(requests)]
        before, _ = tracemalloc.get_traced_memory()
        for one in samples:
            for token in range(each):
                one.tokens_at.append(one.due + 0.001 * token * token)
        kept = tracemalloc.get_traced_memory()[0] - before
        found = summarise(tally(samples), {})
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert kept < 10 * requests * each
    assert peak < 20 * requests * each
    gaps = sorted(b - a for one in samples for a, b in itertools.pairwise(one.tokens_at))
    assert (found["gap"].count, found["gap"].maximum) == (requests * (each - 1), gaps[-1])
    assert found["gap"].p50 == gaps[len(gaps) // 2 - 1]
    assert found["gap"].mean == pytest.approx(math.fsum(gaps) / len(gaps))
