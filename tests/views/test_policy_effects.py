"""The policies panel: who set what when, and what came of it."""

from typing import Any

import numpy as np
import pytest

from kvtop.protocol import Counters, Event, Gap, Queue, RequestChange
from kvtop.state import EngineState
from kvtop.state.effect import effect_of
from kvtop.views.glyphs import ASCII, UNICODE
from kvtop.views.policy_effects import policies_title, policy_rows
from tests.views.scene import MONO, NOW, POLICY, WALL, check_rows, gauges_only, iteration, scene

CHANGED_AT = 150


def changed(id: int, at: float, axis: str = "order", old: Any = "fcfs", new: Any = "sjf", **more: Any) -> Event:
    return Event(
        id=id, kind="policy", iteration=12_400, wall=WALL + at, axis=axis, old=old, new=new, uid=1000, pid=77, **more
    )


def ran(until: int = 300, *, better: float = 2.0, others: dict[int, Event] | None = None) -> EngineState:
    """Some hundred tokens a second, from `CHANGED_AT` on ``better`` times as many; the queue stays as it was."""
    rng = np.random.default_rng(5)
    state, tokens = scene(events=[], requests=[]), 5_080
    for step in range(5, until):
        tokens += int(rng.normal(100 * (better if step > CHANGED_AT else 1.0), 10))
        events = [changed(10, step)] if step == CHANGED_AT else []
        events += [others[step]] if others and step in others else []
        policy = {**POLICY, "order": "sjf"} if step == CHANGED_AT else None
        done = RequestChange(num=step, id=f"r{step}", state="finished", phase_since=MONO + step, ttft_s=0.5 / (better if step > CHANGED_AT else 1.0),
                             tpot_s=0.01, finish_reason="stop")  # fmt: skip
        state.apply(
            iteration(
                10 + step, MONO + step, counters=Counters(decode_tokens=tokens), events=events, policy=policy,
                queue=Queue(order=[], total=int(rng.integers(3, 6))), requests=[done],
            ),
            NOW + step,
        )  # fmt: skip
    return state


@pytest.mark.parametrize("size", [(60, 9), (60, 14), (80, 22), (120, 37), (200, 48), (80, 2)])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_it_fits_every_size(size: tuple[int, int], glyphs: object) -> None:
    for state in (ran(160), gauges_only(), EngineState(), scene()):
        text = check_rows(policy_rows(state, *size, NOW + 160, glyphs), *size)  # type: ignore[arg-type]
        assert glyphs is UNICODE or text.isascii()


def test_every_axis_has_its_value_and_who_set_it_when() -> None:
    state = ran()
    text = check_rows(policy_rows(state, 120, 37, NOW + 300), 120)
    assert "order                sjf                    uid 1000 pid 77 · 2m30 ago · was fcfs" in text
    assert "no change of it is known" in text
    assert all(name.replace("_", " ") in text for name in POLICY)
    assert policies_title(state) == "policies: 7 axes, 1 change known"


def test_what_helped_is_told_with_its_error_bar() -> None:
    rows = check_rows(policy_rows(ran(), 120, 37, NOW + 300), 120).split("\n")
    told = {row[:12].strip(): row for row in rows}
    assert "more: better" in told["tok/s"]
    assert "±" in told["tok/s"]
    assert "less: better" in told["ttft p50"]
    assert "no difference can be told" in told["queue"]
    assert "no difference can be told" in told["KV used"]
    assert any("2m29 before and after" in row for row in rows), rows[:3]


def test_no_difference_is_no_success() -> None:
    found = effect_of(ran(better=1.0), ran().policies.changes[-1], NOW + 300)
    assert found is not None
    assert found.figures["tok/s"].told is False


def test_too_soon_says_how_long_it_takes() -> None:
    text = check_rows(policy_rows(ran(165), 100, 22, NOW + 165), 100)
    assert "cannot be said yet: 14 s of 30 s on either side" in text
    assert "better" not in text


def test_windows_touch_no_other_change() -> None:
    other = changed(11, 190, "victim", "latest", "smallest")
    state = ran(others={190: other})
    order = next(change for change in state.policies.changes if change.axis == "order")
    found = effect_of(state, order, NOW + 300)
    assert found is not None
    assert found.seconds == 40
    assert found.cut == "the change after it"
    latest = effect_of(state, state.policies.changes[-1], NOW + 300)
    assert latest is not None
    assert (latest.seconds, latest.cut) == (40, "the change before it")


def test_a_change_that_only_the_values_tell_of_is_known_without_who() -> None:
    state = scene(events=[])
    state.apply(iteration(15, MONO + 5, policy={**POLICY, "max_running": 8}), NOW + 5)
    (change,) = state.policies.changes
    assert (change.axis, change.old, change.new, change.uid) == ("max_running", 16, 8, None)
    assert "nobody named" in check_rows(policy_rows(state, 120, 37, NOW + 6), 120)


def test_a_change_that_fell_in_a_gap_is_dated_within_it_and_told_once() -> None:
    state = scene(events=[])
    event = changed(10, 34)
    state.apply(Gap(first=15, last=90, events=[event]), NOW + 60)
    (change,) = state.policies.changes
    assert change.at == pytest.approx(MONO + 34)
    state.apply(Gap(first=15, last=90, events=[event]), NOW + 60)
    assert len(state.policies.changes) == 1


def test_changes_of_the_time_before_this_viewer_are_known_from_the_keyframe_and_bounded() -> None:
    state = scene()
    assert [change.axis for change in state.policies.changes] == ["capacity"]
    events = [changed(10 + n, 5, "order\x1b[31m", "\u202ea", n) for n in range(500)]
    state.apply(iteration(15, MONO + 5, events=events), NOW + 5)
    assert len(state.policies.changes) == 64
    check_rows(policy_rows(state, 80, 22, NOW + 6), 80, 22)


@pytest.mark.parametrize("wall", [float("nan"), float("inf"), -1e300, 1e300])
def test_no_date_whatever_breaks_it(wall: float) -> None:
    state = scene(events=[])
    event = changed(10, 5).model_copy(update={"wall": wall})
    state.apply(iteration(15, MONO + 5, events=[event]), NOW + 5)
    check_rows(policy_rows(state, 80, 22, NOW + 60), 80, 22)
