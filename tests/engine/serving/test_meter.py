"""What is measured on the engine's thread, against a history that is counted by other means."""

import math
from collections import Counter
from itertools import pairwise

import pytest

from engine.requests.request import FinishReason
from engine.scheduling.progress import append_token
from engine.serving.histogram import Counted, Histogram
from engine.serving.meter import Meter, Reading
from tests.engine.fake_model import make_engine, request
from tests.engine.serving.crowd import NAMES, POLICIES, SEARCHING, crowded
from tests.engine.serving.recount import BEAMS, Town
from tests.engine.serving.test_recount import NOT_COUNTED_HERE, differences


class History:
    """A town, all readings that were published in it, and what the first hundred said when they were."""

    def __init__(self, seed: int) -> None:
        self.searching = seed == SEARCHING
        self.readings: list[Reading] = []
        self.said: list[str] = []
        self.town = crowded(seed, self._look)
        self.rows = self.town.recount.rows

    def _look(self, town: Town, turn: int) -> None:
        reading = town.meter.reading
        assert differences(dict(reading.gauges), town.recount.gauges(town.pool.total)) == {}, f"turn {turn}"
        self.readings.append(reading)
        if turn < 100:
            self.said.append(repr(reading))

    @property
    def last(self) -> Reading:
        return self.readings[-1]

    def together(self, name: str) -> Counted:
        first, *more = self.last.times[name].values()
        for each in more:
            first = first.joined(each)
        return first

    def ended_well(self) -> list[dict[str, float]]:
        return [row for row in self.rows.values() if row.get("finish_reason") in ("stop", "length")]


@pytest.fixture(scope="module", params=range(len(POLICIES)), ids=NAMES)
def history(request: pytest.FixtureRequest) -> History:
    return History(request.param)


def test_totals_are_what_happened(history: History) -> None:
    counted = history.town.recount.counters(history.town.mover)
    assert differences(dict(history.last.counters), counted) == {}
    assert set(history.last.counters) - set(counted) == NOT_COUNTED_HERE - {"kv_usage"}
    reasons = Counter(row["finish_reason"] for row in history.rows.values() if row["state"] == "finished")
    assert {reason: count for reason, count in history.last.ended.items() if count} == reasons


def test_a_total_is_the_sum_of_its_parts_by_policy_and_no_part_ever_falls(history: History) -> None:
    before: dict[str, dict[object, int]] = {}
    for reading in history.readings:
        for name, parts in reading.by_policy.items():
            assert sum(parts.values()) == reading.counters[name], name
            fallen = [key for key, count in before.get(name, {}).items() if parts[key] < count]  # type: ignore[index]
            assert fallen == []
        before = {name: dict(parts) for name, parts in reading.by_policy.items()}
    assert len(history.last.times["first_token"]) == 2, "the policy was changed on the way"


def test_a_reading_never_changes(history: History) -> None:
    assert [repr(reading) for reading in history.readings[:100]] == history.said


def test_times_are_those_of_the_requests(history: History) -> None:
    ended = history.ended_well()
    for name, field in (
        ("queue", "queue_s"),
        ("prefill", "prefill_s"),
        ("decode", "decode_s"),
        ("per_token", "tpot_s"),
    ):
        values = [row[field] for row in ended if row.get(field) is not None]
        assert history.together(name).count == len(values)
        assert history.together(name).sum == pytest.approx(sum(values))
    assert history.together("end_to_end").count == len(ended) == history.last.counters["finished"]
    phases = [row[field] for row in ended for field in ("queue_s", "prefill_s", "decode_s")]
    assert history.together("end_to_end").sum == pytest.approx(sum(phases))


def test_sizes_are_those_of_the_requests(history: History) -> None:
    ended = history.ended_well()
    computed = [max(0.0, row["prompt_tokens"] - row["cached_tokens"]) for row in ended]
    wanted = {
        "prompt": [row["prompt_tokens"] for row in ended],
        "output": [row["output_tokens"] for row in ended],
        "max_tokens": [row["max_tokens"] for row in ended],
        "preemptions": [row["preemptions"] for row in ended],
        "samples": [row.get("siblings") or 1 for row in ended],
        "computed": computed,
    }
    for name, values in wanted.items():
        assert (history.last.sizes[name].count, history.last.sizes[name].sum) == (len(ended), sum(values)), name


def test_first_tokens_and_the_times_between_tokens_are_told_as_they_come(history: History) -> None:
    if history.searching:
        first = [num for num, row in history.rows.items() if row.get("ttft_s") is not None]
        leading = [
            num for num in first if history.rows[num].get("group", num) == num or history.rows[num]["label"] != BEAMS
        ]
        assert history.together("first_token").count == len(leading)
        return
    tokens = history.town.witness.tokens
    assert history.together("first_token").count == len(tokens)
    assert history.together("first_token").sum == pytest.approx(sum(history.rows[num]["ttft_s"] for num in tokens))
    gaps = [b - a for times in tokens.values() for a, b in pairwise(times)]
    assert history.together("between_tokens").count == len(gaps)
    assert history.together("between_tokens").sum == pytest.approx(sum(gaps))


def test_batches_are_those_that_ran(history: History) -> None:
    batches = [frame.batch for frame in history.town.frames if frame.batch is not None]
    sizes = [batch.prefill_requests + batch.decode_requests for batch in batches]
    ran = [size for size in sizes if size]
    assert history.last.sizes["batch"].count == len(ran)
    assert history.last.sizes["batch"].sum == sum(ran)
    totals = history.last.counters
    assert history.last.sizes["iteration_tokens"].sum == totals["prefill_tokens"] + totals["decode_tokens"]


def test_the_prompts_that_were_computed_are_counted_once(history: History) -> None:
    if history.searching:
        return  # which of its beams was computed first is not told
    began = [num for num in history.town.witness.tokens if history.rows[num].get("group", num) == num]
    assert history.last.prompt_tokens == sum(history.rows[num]["prompt_tokens"] for num in began)


def test_what_was_at_most_a_bound_is_counted_below_it() -> None:
    histogram = Histogram((1.0, 2.0, 5.0))
    for value in (0.0, 1.0, 1.5, 2.0, 5.0, 5.1, math.inf):
        histogram.add(value)
    counted = histogram.counted()
    assert counted.counts == (2, 2, 1, 2)
    assert counted.within((2.0,)).counts == (4, 3)
    assert counted.joined(counted).count == 14


def test_an_end_is_learned_of_whoever_watches() -> None:
    """While nobody watches no frame is made; what is measured must not depend on it."""

    class Nobody:
        hello = None

    engine, telemetry = make_engine()
    meter = Meter(engine, telemetry, Nobody())  # type: ignore[arg-type]
    engine.scheduler.add(request(0, [1, 2, 3], 2), 100.0)
    for _ in range(2):
        step = engine.step()
        telemetry.pass_over(step)
        meter.take(step)
    assert meter.reading.ended[FinishReason.LENGTH] == 1
    assert meter.reading.sizes["output"].sum == 2


def test_tokens_that_come_together_were_waited_for_once() -> None:
    it = request(0, [1, 2, 3], 8)
    for when in (1.0, 3.0, 3.0, 3.0):
        append_token(it, 7, 100, when)
    assert (it.token_before, it.last_token) == (1.0, 3.0)
