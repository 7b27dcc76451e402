"""Policy changes while requests run: what is announced happens, drains end, and nothing changes by being previewed."""

from typing import Any

import pytest

from engine.policies.policy_set import protocol_axes
from engine.requests.request import FinishReason, RequestState
from engine.scheduling import effects
from engine.scheduling.transition import TRANSITIONS
from kvtop.protocol import PolicyAxis, PolicyValue
from tests.engine.driving import Drive


def overcommitted() -> Drive:
    """Three requests run in a pool of 8 blocks; their maxima are 5 blocks each."""
    drive = Drive(blocks=8, capacity="max_utilization")
    for num in (1, 2, 3):
        drive.add(num, prompt=5, max_tokens=14)
    drive.add(4, prompt=5, max_tokens=4)
    drive.step()
    assert drive.running == ["r1", "r2", "r3"] or drive.running == ["r1", "r2", "r3", "r4"]
    return drive


def change(drive: Drive, transition: str = "drain", **changes: Any) -> list[str]:
    """Preview, then do; both must say the same."""
    before = drive.scheduler.policies
    announced = drive.scheduler.preview(changes, transition)
    assert drive.scheduler.policies is before
    result = drive.scheduler.set_policies(changes, transition, drive.now)
    assert result.effects == announced
    assert drive.scheduler.ledger_violations() == []
    drive.victims = [p.victim.id for p in result.preempted]
    return announced


def test_to_a_guarantee_by_draining() -> None:
    drive = overcommitted()
    said = change(drive, capacity="guaranteed_no_evict")
    assert said[0] == "capacity goes from max_utilization to guaranteed_no_evict."
    assert "nothing is admitted, and max_utilization goes on, until they fit" in said[1]
    assert drive.scheduler.draining
    assert drive.scheduler.reserved_blocks == 0
    text = drive.scheduler.transition_text()
    assert text is not None
    assert text.startswith("draining to capacity=guaranteed_no_evict: running requests may need ")
    before = drive.scheduler.totals.admissions
    notices = []
    while drive.scheduler.draining:
        plan = drive.step()
        notices += plan.notices
        if drive.scheduler.draining and plan.verdict is not None:
            assert plan.verdict.code == "draining"
            assert plan.verdict.rule == "capacity=guaranteed_no_evict"
            assert drive.scheduler.totals.admissions == before
    assert notices == ["capacity=guaranteed_no_evict is in force: what running requests may need now fits"]
    assert drive.scheduler.transition_text() is None
    preempted = drive.scheduler.totals.preemptions
    drive.run_out()
    assert drive.scheduler.totals.preemptions == preempted


def test_to_a_guarantee_by_preempting() -> None:
    drive = overcommitted()
    runs = len(drive.running)
    said = change(drive, "preempt", capacity="guaranteed_no_evict")
    victims = drive.victims
    assert len(drive.running) == runs - len(victims) == 1
    assert ", ".join(victims) in said[1]
    assert "preempted and queued again to be recomputed" in said[1]
    assert said[2] == "3 blocks are reserved for r1 to reach their maximum."
    assert not drive.scheduler.draining
    assert drive.scheduler.reserved_blocks == 3
    before = drive.scheduler.totals.preemptions
    drive.run_out()
    assert drive.scheduler.totals.preemptions == before == len(victims)


def test_preempting_uses_the_victim_policy_of_the_same_change() -> None:
    drive = Drive(blocks=8, capacity="max_utilization")
    for num, priority in ((1, 9), (2, 0)):
        drive.add(num, prompt=5, max_tokens=20, priority=priority)
    drive.step()
    change(drive, "preempt", capacity="guaranteed_no_evict", victim="lowest_priority")
    assert drive.victims == ["r1"]
    assert drive.running == ["r2"]


def test_a_guarantee_that_fits_holds_at_once() -> None:
    drive = Drive(blocks=16, capacity="max_utilization")
    request = drive.add(1, prompt=5, max_tokens=12)
    drive.step()
    assert change(drive, capacity="guaranteed_no_evict") == [
        "capacity goes from max_utilization to guaranteed_no_evict.",
        "2 blocks are reserved for r1 to reach their maximum.",
    ]
    assert request.reserved_blocks == 2


def test_a_drain_can_be_hurried_by_preempting() -> None:
    drive = overcommitted()
    change(drive, capacity="guaranteed_no_evict")
    assert drive.scheduler.draining
    change(drive, "preempt", capacity="guaranteed_no_evict")
    assert drive.victims
    assert not drive.scheduler.draining


def test_a_drain_can_be_called_off() -> None:
    drive = overcommitted()
    change(drive, capacity="guaranteed_no_evict")
    said = change(drive, capacity="max_utilization")
    assert "The draining ends; requests are admitted again." in said
    assert not drive.scheduler.draining


def test_another_axis_changed_during_a_drain_leaves_it_draining() -> None:
    drive = overcommitted()
    change(drive, capacity="guaranteed_no_evict")
    change(drive, "preempt", order="priority")
    assert drive.scheduler.draining
    assert drive.victims == []


def test_back_to_max_utilization_gives_the_reserve_back() -> None:
    drive = Drive(blocks=8, capacity="guaranteed_no_evict")
    drive.add(1, prompt=5, max_tokens=14)
    drive.add(2, prompt=5, max_tokens=14)
    drive.step()
    assert drive.running == ["r1"]
    said = change(drive, capacity="max_utilization")
    assert "3 blocks reserved for running requests are given back." in said
    assert drive.scheduler.reserved_blocks == 0
    drive.step()
    assert drive.running == ["r1", "r2"]


def test_who_can_never_run_under_the_new_rule_is_named_beforehand() -> None:
    drive = Drive(blocks=8, capacity="max_utilization", max_running=1)
    drive.add(1, prompt=5, max_tokens=4)
    hopeless = drive.add(2, prompt=5, max_tokens=50)
    drive.step()
    said = change(drive, capacity="guaranteed_no_evict")
    assert said[-1] == (
        "r2 can never run under guaranteed_no_evict, with a maximum beyond the pool of 8 blocks; "
        "each ends with an error at its turn."
    )
    drive.run_out()
    assert hopeless.finish_reason is FinishReason.ERROR


def test_the_verdict_names_a_head_that_the_coming_rule_can_never_admit() -> None:
    drive = Drive(blocks=8, capacity="max_utilization", max_running=2)
    for num in (1, 2):
        drive.add(num, prompt=5, max_tokens=24)
    drive.add(3, prompt=5, max_tokens=50)
    drive.step()
    change(drive, capacity="guaranteed_no_evict")
    verdict = drive.step().verdict
    assert verdict is not None
    assert (verdict.request.id, verdict.code) == ("r3", "never_fits")


def test_to_a_static_batch_lets_the_running_ones_end_first() -> None:
    drive = Drive(blocks=16, capacity="max_utilization")
    drive.add(1, prompt=5, max_tokens=4)
    drive.step()
    drive.add(2, prompt=5, max_tokens=4)
    said = change(drive, capacity="static_batch")
    assert said[-1] == "Nothing is admitted until r1 ends."
    plan = drive.step()
    assert plan.verdict is not None
    assert plan.verdict.code == "batch_running"


def test_fewer_running_by_draining() -> None:
    drive = Drive(blocks=16, max_running=3)
    for num in (1, 2, 3, 4):
        drive.add(num, prompt=3, max_tokens=5)
    drive.step()
    assert change(drive, max_running=1) == [
        "max_running goes from 3 to 1; 3 run now.",
        "Nothing is admitted until 3 requests of r1, r2, r3 end.",
    ]
    assert drive.scheduler.transition_text() == "draining to max_running=1: 2 too many run"
    assert drive.running == ["r1", "r2", "r3"]
    drive.run_out()


def test_fewer_running_by_preempting() -> None:
    drive = Drive(blocks=16, max_running=3)
    for num in (1, 2, 3):
        drive.add(num, prompt=3, max_tokens=5)
    drive.step()
    said = change(drive, "preempt", max_running=1)
    assert drive.running == ["r1"]
    assert drive.waiting == ["r2", "r3"]
    assert (
        said[1]
        == "r3, r2 are preempted and queued again to be recomputed, so that 1 run; 6 computed tokens are given up."
    )
    assert drive.requests[3].state is RequestState.PREEMPTED


def test_blocks_that_others_share_are_not_counted_as_released() -> None:
    drive = Drive(blocks=9, capacity="max_utilization")
    for num in (1, 2, 3):
        drive.add(num, prompt=[*range(8), 90 + num], max_tokens=8)
        drive.step()
    assert drive.pool.shared_blocks == 2
    # Each holds the two shared blocks and one of its own, and needs one more: 3 are wanted, none is left.
    for _ in range(drive.pool.available):
        drive.pool.take(99, 0.0)
    announced = drive.scheduler.preview({"capacity": "guaranteed_no_evict"}, "preempt")
    assert announced[1].startswith("r3, r2 are preempted")
    assert announced[2] == "1 block is reserved for r1 to reach their maximum."


def test_two_axes_in_one_preempting_change_do_not_preempt_twice() -> None:
    drive = overcommitted()
    change(drive, "preempt", max_running=1, capacity="guaranteed_no_evict")
    assert drive.running == ["r1"]
    victims = drive.victims
    assert len(victims) == len(set(victims))


def test_another_order_takes_effect_on_those_who_wait() -> None:
    drive = Drive(max_running=1)
    drive.add(1)
    drive.add(2, prompt=9, priority=3)
    drive.add(3, prompt=3, priority=4)
    drive.step()
    assert change(drive, order="shortest_prompt") == [
        "The queue's order goes from fcfs to shortest_prompt; r3 comes to its head before r2."
    ]
    assert drive.waiting == ["r3", "r2"]
    assert change(drive, order="priority")[0].endswith("r2 comes to its head before r3.")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"victim": "most_blocks"},
            "The next to be preempted is chosen by most_blocks, no more by latest; it would be",
        ),
        (
            {"eviction": "lfu"},
            "Cached blocks are evicted by lfu, no more by lru; 0 cached blocks are put in the new order.",
        ),
        (
            {"free_order": "head_first"},
            "Blocks are released head first, no more tail first; those that are cached keep",
        ),
        ({"compaction": "continuous"}, "Blocks are moved down in every iteration, at most 16 blocks an iteration."),
        (
            {"compaction": "when_idle"},
            "Blocks are moved down whenever no request is live, at most 16 blocks an iteration.",
        ),
        ({"compaction_moves": 5}, "At most 5 blocks are moved in an iteration, no more 16."),
        ({"pin_limit": 0.25}, "At most 2 blocks may be pinned, no more 4; 0 are now."),
        ({"prefix_cache": "off"}, "Nobody looks up a prefix and no more blocks get a hash; 0 cached blocks stay"),
        ({"token_budget": 1}, "An iteration computes at most 1 tokens, no more 512."),
        ({"watermark": 0.25}, "The watermark goes from 0 to 0.25: admissions leave 2 blocks free"),
    ],
)
def test_every_axis_says_what_changing_it_does(changes: dict[str, Any], says: str) -> None:
    assert change(overcommitted(), **changes)[0].startswith(says)


def _other_values(axis: PolicyAxis, now: PolicyValue) -> list[PolicyValue]:
    if axis.kind == "choice":
        return [value for value in axis.choices if value != now]
    if axis.kind == "bool":
        return [not now]
    low, high = axis.minimum or 0, min(axis.maximum or 0, 64)
    return [value for value in (low, high) if value != now]


def test_every_change_of_one_axis_says_something_about_it() -> None:
    drive = overcommitted()
    for axis in protocol_axes():
        now = drive.scheduler.policies.values()[axis.name]
        for value in _other_values(axis, now):
            try:
                said = drive.scheduler.preview({axis.name: value}, "drain")
            except ValueError:
                continue  # this engine has no such type
            assert said, (axis.name, value)
            assert not said[0].startswith("Nothing changes"), (axis.name, value)


def test_an_axis_without_words_of_its_own_tells_its_values_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(effects._IN_WORDS, "watermark")
    assert change(overcommitted(), watermark=0.25, order="priority")[1:] == ["watermark goes from 0 to 0.25."]
    assert change(overcommitted(), watermark=0.25) == ["watermark goes from 0 to 0.25."]


def test_the_axes_that_ask_for_a_transition_are_those_where_it_makes_a_difference() -> None:
    drive = overcommitted()
    drive.scheduler.pin(drive.requests[1])
    assert drive.scheduler.pool.pinned_total
    differs, says = set(), set()
    for axis in protocol_axes():
        now = drive.scheduler.policies.values()[axis.name]
        for value in _other_values(axis, now):
            changes = {axis.name: value}
            try:
                drain, preempt = (drive.scheduler.preview(changes, transition) for transition in TRANSITIONS)
            except ValueError:
                continue  # this engine has no such tier or type
            differs |= {(axis.name, value)} if drain != preempt else set()
            says |= {(axis.name, value)} if axis.asks_transition(now, value) else set()
    assert differs == says
    assert {name for name, _ in says} == {"capacity", "pin_limit", "kv_dtype", "max_running"}


def test_a_small_budget_says_who_gets_nothing() -> None:
    drive = overcommitted()
    late = len(drive.running) - 1
    assert f"{late} requests of those running get no token" in change(drive, token_budget=1)[1]


def test_the_prefix_cache_can_be_switched_off_and_on() -> None:
    drive = Drive()
    drive.add(1, prompt=list(range(9)), max_tokens=1)
    drive.step()
    change(drive, prefix_cache=False)
    unlucky = drive.add(2, prompt=[*range(8), 77], max_tokens=1)
    drive.step()
    assert unlucky.cached == 0
    assert change(drive, prefix_cache=True) == [
        "New requests look up their prefix again; 2 blocks can be found at once."
    ]
    lucky = drive.add(3, prompt=[*range(8), 78], max_tokens=1)
    drive.step()
    assert lucky.cached == 8


def test_a_change_to_what_is_already_so_changes_nothing() -> None:
    drive = Drive()
    version = drive.scheduler.policies.version
    assert change(drive, max_running=16) == ["Nothing changes: these values are in force already."]
    assert drive.scheduler.policies.version == version


def test_what_is_wrong_is_refused_and_nothing_changes() -> None:
    drive = overcommitted()
    before = drive.scheduler.policies
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"max_running": 2, "capacity": "x"}, "drain", "capacity cannot be 'x'"),
        ({"nothing": 2}, "drain", "there is no policy axis 'nothing'"),
        ({"max_running": 2}, "now", "there is no transition 'now'; choose drain or preempt"),
    ]
    for changes, transition, says in wrong:
        with pytest.raises(ValueError, match=says):
            drive.scheduler.set_policies(changes, transition, drive.now)
    assert drive.scheduler.policies is before


def test_many_requests_are_named_in_part() -> None:
    drive = Drive(blocks=40, max_running=16)
    for num in range(1, 11):
        drive.add(num, prompt=3, max_tokens=5)
    drive.step()
    said = change(drive, "preempt", max_running=1)[1]
    assert said.startswith("r10, r9, r8, r7, r6, r5 and 3 more are preempted")


def test_no_more_are_preempted_than_must_be() -> None:
    drive = Drive(blocks=8, capacity="max_utilization")
    for num in (1, 2, 3):
        drive.add(num, prompt=5, max_tokens=12)
    drive.step()
    change(drive, "preempt", capacity="guaranteed_no_evict")
    assert drive.victims == ["r3"]
    assert drive.scheduler.reserved_blocks == drive.pool.available == 4
