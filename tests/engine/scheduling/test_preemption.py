"""Who is preempted, what becomes of it, where it waits and when it may come back."""

from typing import Any

import pytest

from engine.requests.request import FinishReason, RequestState
from tests.engine.driving import Drive


def until_preempted(drive: Drive, limit: int = 40) -> Any:
    for _ in range(limit):
        plan = drive.step()
        if plan.preempted:
            return plan
    raise AssertionError("nobody was preempted")


@pytest.mark.parametrize(
    ("victim", "expected"), [("latest", "r3"), ("fewest_outputs", "r2"), ("longest_remaining", "r1")]
)
def test_the_victim_is_chosen_by_the_policy(victim: str, expected: str) -> None:
    drive = Drive(blocks=7, victim=victim)
    drive.add(1, prompt=9, max_tokens=40)
    drive.add(2, prompt=8, max_tokens=9)
    drive.add(3, prompt=3, max_tokens=9)
    # r2 falls one output token behind.
    drive.step()
    drive.requests[2].token_ids.pop()
    assert until_preempted(drive).preempted[0].victim.id == expected


def crowded(**policies: Any) -> Drive:
    """r1 and r2 run and soon outgrow the pool of 4 blocks; r2 is then preempted."""
    drive = Drive(blocks=4, **policies)
    drive.add(1, prompt=7, max_tokens=9)
    drive.add(2, prompt=6, max_tokens=9, priority=3)
    drive.steps(2)
    return drive


def test_abort_ends_the_victim_with_what_it_has_produced() -> None:
    drive = crowded(preempt_action="abort")
    plan = until_preempted(drive)
    victim = drive.requests[2]
    assert [p.victim for p in plan.preempted] == [victim]
    assert plan.preempted[0].tokens_lost == 7
    assert (victim.state, victim.finish_reason) == (RequestState.FINISHED, FinishReason.ABORT)
    assert victim.output_tokens == 2
    assert victim.finish_detail == (
        "preempted under preempt_action=abort: r1 needs 1 more block, 0 left; victim=latest chose r2"
    )
    assert drive.waiting == []
    assert drive.scheduler.totals.aborted == drive.scheduler.totals.preemptions == 1
    drive.run_out()
    assert drive.requests[1].output_tokens == 9


@pytest.mark.parametrize(
    ("order", "requeue", "expected"),
    [
        ("fcfs", "front", ["r2", "r3", "r4"]),
        ("fcfs", "back", ["r3", "r2", "r4"]),
        ("fcfs", "by_priority", ["r2", "r3", "r4"]),
        ("priority", "front", ["r3", "r2", "r4"]),
        ("priority", "back", ["r3", "r2", "r4"]),
    ],
)
def test_a_preempted_request_waits_where_the_policy_puts_it(order: str, requeue: str, expected: list[str]) -> None:
    drive = crowded(order=order, requeue=requeue, max_running=2)
    drive.add(3, prompt=1, priority=0, arrival=drive.now)
    assert until_preempted(drive)
    drive.add(4, prompt=1, priority=9, arrival=drive.now)
    assert drive.waiting == expected
    drive.run_out()


def test_preempted_ones_stand_by_their_priority_under_by_priority() -> None:
    drive = Drive(requeue="by_priority")
    first, second = drive.add(1, priority=5), drive.add(2, priority=1)
    drive.step()
    drive.scheduler.preempt(first, drive.now, "test")
    drive.scheduler.preempt(second, drive.now, "test")
    assert drive.waiting == ["r2", "r1"]
    drive.scheduler.set_policies({"requeue": "front"}, "drain", drive.now)
    assert drive.waiting == ["r1", "r2"]


def test_the_gate_holds_a_preempted_request_back_until_the_pool_is_emptier() -> None:
    drive = Drive(blocks=8, resume_gate=0.25)
    drive.add(1, prompt=9, max_tokens=9)
    second = drive.add(2, prompt=3, max_tokens=5)
    drive.step()
    drive.scheduler.preempt(second, drive.now, "test")
    verdict = drive.step().verdict
    assert verdict is not None
    assert (verdict.request.id, verdict.code, verdict.rule, verdict.limit) == (
        "r2",
        "resume_gate",
        "resume_gate=0.25",
        2,
    )
    assert verdict.detail == "r2 was preempted and resumes when at most 0.25 of the pool is in use; 3 of 8 blocks are"
    while drive.requests[1].state is not RequestState.FINISHED:
        assert drive.running == ["r1"]
        drive.step()
    # Nothing runs: the gate is open, however full the pool is.
    drive.step()
    assert drive.running == ["r2"]


def test_the_gate_is_none_for_those_that_never_ran() -> None:
    drive = Drive(blocks=8, resume_gate=0.0)
    drive.add(1, prompt=9)
    drive.step()
    drive.add(2, prompt=3)
    drive.step()
    assert drive.running == ["r1", "r2"]


def test_a_request_preempted_often_is_protected_and_the_cause_says_so() -> None:
    drive = crowded(preempt_bound=2)
    drive.requests[2].preemptions = 2
    plan = until_preempted(drive)
    assert [p.victim.id for p in plan.preempted] == ["r1"]
    assert plan.preempted[0].cause == (
        "r1 needs 1 more block, 0 left; victim=latest chose itself; preempt_bound=2 protects r2 after 2 preemptions"
    )
    assert plan.verdict is not None
    assert plan.verdict.detail.endswith("preempt_bound=2 protects r2 after 2 preemptions")


def test_where_all_are_protected_none_is_and_the_cause_says_so() -> None:
    drive = crowded(preempt_bound=1)
    for request in drive.requests.values():
        request.preemptions = 1
    plan = until_preempted(drive)
    assert [p.victim.id for p in plan.preempted] == ["r2"]
    assert plan.preempted[0].cause.endswith("all that run are protected by preempt_bound=1, so none is")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"preempt_action": "abort"},
            "A preempted request is from now on ended for good (abort), no more queued again to be recomputed (recompute).",
        ),
        (
            {"requeue": "back"},
            "Preempted requests are queued back, no more front, those that wait now too; r3 comes to its head before r2.",
        ),
        (
            {"resume_gate": "0.5"},
            "Preempted requests are admitted again only while at most 2 of 4 blocks are in use, or nothing runs; "
            "3 are in use now.",
        ),
        (
            {"preempt_bound": 3},
            "A request preempted 3 times is no victim while any other runs; protected now: nobody.",
        ),
    ],
)
def test_every_change_says_what_it_does(changes: dict[str, Any], says: str) -> None:
    drive = crowded(max_running=2)
    drive.add(3, prompt=1, arrival=0.5)
    assert until_preempted(drive)
    before = drive.scheduler.policies
    assert drive.scheduler.preview(changes, "drain") == [says]
    assert drive.scheduler.policies is before
    assert drive.scheduler.set_policies(changes, "drain", drive.now).effects == [says]
    drive.run_out()


def test_a_preempting_change_under_abort_says_that_its_victims_end() -> None:
    drive = Drive(max_running=3, preempt_action="abort")
    for num in (1, 2, 3):
        drive.add(num, prompt=3, max_tokens=5)
    drive.step()
    change = drive.scheduler.set_policies({"max_running": 1}, "preempt", drive.now)
    assert change.effects[1] == (
        "r3, r2 are preempted and ended for good, so that 1 run; 6 computed tokens are given up."
    )
    assert [p.victim.finish_reason for p in change.preempted] == [FinishReason.ABORT] * 2
    assert drive.scheduler.requests.keys() == {1}
