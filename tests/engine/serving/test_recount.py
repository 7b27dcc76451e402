"""Every counter and gauge of a crowded engine, counted again from its history by code of its own."""

import re

import pytest

from kvtop.protocol import Counters, Event, Gauges, RequestChange, Verdict, encode
from kvtop.protocol.reading import read_frame
from tests.engine.serving.crowd import NAMES, POLICIES, crowded
from tests.engine.serving.recount import Town

STATES = RequestChange.model_fields["state"].description
NOT_COUNTED_HERE = {"ledger_checks", "ledger_violations", "kv_usage"}


def differences(told: dict[str, int | float], counted: dict[str, int | float]) -> dict[str, tuple[object, object]]:
    return {name: (told[name], value) for name, value in counted.items() if told[name] != value}


@pytest.fixture(scope="module", params=range(len(POLICIES)), ids=NAMES)
def town(request: pytest.FixtureRequest) -> Town:
    def look(made: Town, turn: int) -> None:
        gauges = made.frames[-1].gauges if made.frames else None
        if gauges is not None:
            told = gauges.model_dump()
            assert differences(told, made.recount.gauges(made.pool.total)) == {}, f"turn {turn}"

    return crowded(request.param, look)


def test_counters_are_what_happened(town: Town) -> None:
    told = town.frames[-1].counters
    assert told is not None
    counted = town.recount.counters(town.mover)
    assert differences(told.model_dump(), counted) == {}
    assert set(counted) == set(Counters.model_fields) - NOT_COUNTED_HERE
    rare = {"errored": 1, "aborted": 2, "preemptions": 3, "recomputed_tokens": 10, "prefix_hit_tokens": 20}
    assert [name for name, least in rare.items() if counted[name] < least] == [], "the scenario is too tame"


def test_gauges_are_all_counted_again(town: Town) -> None:
    assert set(town.recount.gauges(town.pool.total)) == set(Gauges.model_fields) - NOT_COUNTED_HERE
    seen = [frame.gauges for frame in town.frames if frame.gauges is not None]
    assert any(gauges.preempted for gauges in seen)
    assert town.scheduler.policies.preempt_action == "recompute" or any(gauges.loading for gauges in seen)


def test_nothing_is_recomputed_that_was_not_taken_away(town: Town) -> None:
    rows = town.recount.rows.values()
    assert [row["id"] for row in rows if row["recomputed_tokens"] and not row["preemptions"]] == []
    told = town.frames[-1].counters
    assert told is not None
    assert sum(row["recomputed_tokens"] for row in rows) == told.recomputed_tokens


def test_what_preemptions_cost_a_request_is_the_sum_of_what_each_event_said(town: Town) -> None:
    said: dict[int, float] = {}
    for event in (event for frame in town.frames for event in frame.events if event.kind == "preempt"):
        assert event.request is not None
        said[event.request] = said.get(event.request, 0.0) + (event.seconds or 0.0)
    rows = town.recount.rows
    beams = {num for num, row in rows.items() if row.get("score") is not None}  # told by the first of a search
    assert {num: row["lost_s"] for num, row in rows.items() if row["lost_s"] and num not in beams} == {
        num: pytest.approx(seconds) for num, seconds in said.items() if seconds and num not in beams
    }
    assert any(said.values()) or town.scheduler.policies.preempt_action != "recompute"


def test_every_name_is_one_that_the_protocol_lists(town: Town) -> None:
    """Viewers bear names they do not know; an engine of this version has none."""
    states, kinds, codes = (
        set(re.findall(r"[a-z_]+", text or "")) for text in (STATES, Event.__doc__, Verdict.__doc__)
    )
    for frame in town.frames:
        assert {event.severity for event in frame.events} <= {"info", "warn", "error"}
        assert {event.kind for event in frame.events} <= kinds
        assert {change.state for change in frame.requests if change.state} <= states
        assert {change.tier for change in frame.requests if change.tier} <= {"device", "host", "disk"}
        assert frame.verdict is None or frame.verdict.code in codes
        assert frame.status is None or frame.status.state in ("running", "idle", "paused", "draining")
        # What goes out is what the strict models take, and nothing a viewer would have to mend.
        assert read_frame(encode(frame)).mended == 0


def test_the_first_token_is_timed_from_the_arrival_and_not_from_when_the_loop_saw_it(town: Town) -> None:
    rows = town.recount.rows
    arrived = [town.began + arrival.after for arrival in town.arrivals if arrival.label == "t"]
    first_of_each = sorted(num for num, row in rows.items() if row["label"] == "t" and row.get("group", num) == num)
    assert len(first_of_each) == len(arrived)
    checked = 0
    for num, when in zip(first_of_each, arrived, strict=True):
        if num in town.witness.first_token:
            assert rows[num]["ttft_s"] == pytest.approx(town.witness.first_token[num] - when)
            checked += 1
    assert checked > 20


def test_batches_are_what_the_runner_got(town: Town) -> None:
    told = town.frames[-1].counters
    assert told is not None
    batches = [frame.batch for frame in town.frames if frame.batch is not None]
    assert sum(batch.prefill_tokens for batch in batches) == told.prefill_tokens


def test_levels_of_tiers_are_the_copies_that_went_well(town: Town) -> None:
    levels = {level.tier: level for level in next(frame.tiers for frame in reversed(town.frames) if frame.tiers)}
    copied = town.mover.went_well
    for name, level in levels.items():
        assert level.bytes_in == 10 * sum(n for (_, to), n in copied.items() if to == name), name
        assert level.bytes_out == 10 * sum(n for (source, _), n in copied.items() if source == name), name
    assert levels["host"].failures + levels["disk"].failures == town.mover.failed
