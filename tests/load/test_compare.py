"""Two results side by side: an interval holds what is there, and no difference is made of chance."""

import random
from array import array
from typing import Any

import pytest

from kvtop.load import report
from kvtop.load.compare import Ratio, compare, differences
from kvtop.load.driver import Limits, Tally
from kvtop.load.result import Asked, Client, LoadResult, Server
from kvtop.load.sample import Sample
from kvtop.load.summary import summarise


def result(factor: float, seed: int, *, digest: str = "d", count: int = 80, **asked: Any) -> LoadResult:
    """A run whose requests differ among each other, by their place, much more than by chance."""
    draw, chance = random.Random(1), random.Random(seed)
    samples = []
    for index in range(count):
        base = draw.choice((0.1, 0.4, 1.6))
        one = Sample(index, "", index, 0, index / 10, 10, 5, sent=index / 10)
        first = one.due + factor * base * chance.uniform(0.9, 1.1)
        one.tokens_at = array("d", [first + factor * 0.05 * token * chance.uniform(0.95, 1.05) for token in range(5)])
        one.done, one.output_tokens = one.tokens_at[-1], 5
        samples.append(one)
    tally = Tally(0.0, Limits(count / 10), samples)
    tally.issued_until = count / 10
    settings: dict[str, Any] = {
        "api": "completions", "plain": False, "extensions": False, "temperature": 0.0, "arrivals": "a", "plan": "p",
        "digest": digest, "seed": 0, "prompts_exact": True, "seconds": 8.0, "requests": None, "warmup_seconds": 0.0,
        "warmup_requests": 0, "patience": 1.0, "timeout": 1.0, "open_requests": 9,
    }  # fmt: skip
    return LoadResult(
        began="", command=[], server=Server(url="u", model="m"), client_cpu_s=0.0, asked=Asked(**{**settings, **asked}),
        client=Client(kvtop="1", python="3", httpx="0", platform="x", cpu=None, cores=2, memory_bytes=None),
        **summarise(tally, {}),
    )  # fmt: skip


def named(a: LoadResult, b: LoadResult) -> dict[str, Ratio]:
    return {ratio.name: ratio for ratio in compare(a, b)}


def test_a_difference_is_found_and_measured() -> None:
    for ratio in compare(result(1.0, 1), result(1.3, 2)):
        if ratio.unit == "s":
            assert ratio.ratio == pytest.approx(1.3, rel=0.1)
            assert ratio.low is not None
            assert ratio.high is not None
            assert ratio.low <= ratio.ratio <= ratio.high
    assert report.verdict(named(result(1.0, 1), result(1.3, 2))["per output token, mean"]) == "A better"
    assert report.verdict(named(result(1.3, 1), result(1.0, 2))["per output token, mean"]) == "B better"


def test_chance_alone_is_seldom_taken_for_a_difference() -> None:
    clear = [ratio.clear for seed in range(20) for ratio in compare(result(1.0, seed), result(1.0, seed + 100))]
    assert sum(clear) <= 0.15 * len(clear)


def test_equal_requests_are_compared_with_each_other() -> None:
    """Where the same was sent, that requests differ among each other widens no interval."""
    name = "first token, mean"
    same = named(result(1.0, 1), result(1.05, 2))[name]
    other = named(result(1.0, 1, digest="e"), result(1.05, 2))[name]
    assert same.low is not None and same.high is not None  # noqa: PT018
    assert other.low is not None and other.high is not None  # noqa: PT018
    assert (same.high - same.low) * 4 < other.high - other.low
    assert same.clear
    assert not other.clear


def test_a_run_compared_with_itself_shows_nothing() -> None:
    one = result(1.0, 1)
    assert not any(ratio.clear for ratio in compare(one, one))
    assert differences(one, one) == []


def test_with_next_to_nothing_measured_nothing_is_said() -> None:
    for ratio in compare(result(1.0, 1, count=1), result(1.0, 2, count=1)):
        assert (ratio.low, report.verdict(ratio)) == (None, "cannot be told")
    assert all(ratio.ratio is None for ratio in compare(result(1.0, 1, count=0), result(1.0, 2)))


@pytest.mark.parametrize("wrong", [{"window": (1.0, 1.0)}, {"slices": [0.0] * 40}])
def test_of_a_file_that_contradicts_itself_no_interval_is_told(wrong: dict[str, Any]) -> None:
    ratio = named(result(1.0, 1).model_copy(update=wrong), result(1.0, 2))["output tokens a second"]
    assert report.verdict(ratio) == "cannot be told"


def test_what_else_was_not_the_same_is_named() -> None:
    a, b = result(1.0, 1), result(1.0, 1, digest="e", streams=4).model_copy(update={"notes": {"threads": "2"}})
    assert {line.partition(":")[0] for line in differences(a, b)} == {"digest", "streams", "threads"}
