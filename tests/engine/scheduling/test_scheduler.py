"""What the scheduler does in plain situations: batching, chunks, refusals, order, victims, leaving."""

from typing import Any

import pytest

from engine.memory.blocks import FREE
from engine.requests.batch import StepOutput
from engine.requests.request import FinishReason, RequestState
from tests.engine.driving import BLOCK, Drive, make_request, parts

# Batching


def test_a_prompt_is_computed_and_then_one_token_at_a_time() -> None:
    drive = Drive()
    request = drive.add(1, prompt=5, max_tokens=3)
    assert parts(drive.step().items) == [("r1", 0, 5, True)]
    assert request.state is RequestState.DECODE
    assert parts(drive.step().items) == [("r1", 5, 1, True)]
    assert parts(drive.step().items) == [("r1", 6, 1, True)]
    assert drive.finished == [request]
    assert request.finish_reason is FinishReason.LENGTH
    assert request.output_tokens == 3
    assert drive.step().items == ()


def test_a_long_prompt_is_cut_into_chunks_by_the_budget() -> None:
    drive = Drive(token_budget=8)
    drive.add(1, prompt=20)
    plans = drive.steps(3)
    assert [parts(plan.items) for plan in plans] == [
        [("r1", 0, 8, False)],
        [("r1", 8, 8, False)],
        [("r1", 16, 4, True)],
    ]


def test_running_requests_come_before_waiting_ones_in_the_budget() -> None:
    drive = Drive(token_budget=8)
    drive.add(1, prompt=5)
    drive.step()
    drive.add(2, prompt=20)
    assert parts(drive.step().items) == [("r1", 5, 1, True), ("r2", 0, 7, False)]


def test_blocks_are_taken_as_they_are_needed() -> None:
    drive = Drive(capacity="max_utilization")
    request = drive.add(1, prompt=BLOCK, max_tokens=8)
    drive.step()
    assert len(request.block_table) == 1
    drive.step()
    assert len(request.block_table) == 2


def test_stop_tokens_end_a_request_and_are_kept() -> None:
    drive = Drive()
    request = drive.add(1, stop_ids=frozenset(range(50)), max_tokens=9)
    drive.step()
    assert request.finish_reason is FinishReason.STOP
    assert request.output_tokens == 1


def test_the_context_limits_the_output() -> None:
    drive = Drive(max_model_len=10)
    request = drive.add(1, prompt=6, max_tokens=100)
    assert request.max_tokens == 4
    drive.run_out()
    assert len(request.token_ids) == 10
    assert request.finish_reason is FinishReason.LENGTH


def test_time_is_booked_to_the_phase_it_was_spent_in() -> None:
    drive = Drive(token_budget=8)
    request = drive.add(1, prompt=16, max_tokens=3, arrival=98.0)
    drive.steps(4)
    assert request.times.queue == 2.0
    assert request.times.prefill == 1.5
    assert request.times.decode == 2.0
    assert request.ttft == 3.5
    assert request.tpot == 1.0


def test_an_arrival_in_the_future_has_waited_for_no_time() -> None:
    drive = Drive()
    request = drive.add(1, arrival=500.0)
    assert drive.step().admitted[0].waited == 0.0
    assert request.times.queue == 0.0


# What is refused


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"prompt": 64}, "64 prompt tokens; with one output token that exceeds the context of 64 tokens"),
        ({"prompt": 0}, "no prompt"),
        ({"max_tokens": 0}, "asks for 0 output tokens"),
        ({"prompt": [1, -1]}, "token ids outside"),
        ({"prompt": [1, 2**31]}, "token ids outside"),
        ({"arrival": float("nan")}, "no time of arrival"),
    ],
)
def test_what_can_never_be_served_is_refused(change: dict[str, Any], says: str) -> None:
    drive = Drive()
    with pytest.raises(ValueError, match=says):
        drive.add(1, **change)
    assert drive.waiting == []


def test_a_prompt_beyond_the_whole_pool_is_refused() -> None:
    drive = Drive(blocks=4)
    drive.add(1, prompt=16, max_tokens=1)
    with pytest.raises(ValueError, match=r"17 prompt tokens, which need 5 blocks; the whole pool has 4"):
        drive.add(2, prompt=17)


def test_a_request_is_added_once() -> None:
    drive = Drive()
    request = drive.add(1)
    with pytest.raises(ValueError, match="not new"):
        drive.scheduler.add(request, 0.0)


# Queue order and victims


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fcfs", ["r1", "r2", "r3"]), ("priority", ["r3", "r1", "r2"]), ("shortest_prompt", ["r2", "r3", "r1"])],
)
def test_the_queue_is_tried_in_the_order_of_the_policy(order: str, expected: list[str]) -> None:
    drive = Drive(order=order)
    drive.add(1, prompt=9, priority=1)
    drive.add(2, prompt=3, priority=1)
    drive.add(3, prompt=6, priority=0)
    assert drive.waiting == expected
    drive.step()
    assert drive.running == expected


@pytest.mark.parametrize(("victim", "expected"), [("latest", "r3"), ("lowest_priority", "r2"), ("most_blocks", "r1")])
def test_the_victim_is_chosen_by_the_policy(victim: str, expected: str) -> None:
    drive = Drive(blocks=6, capacity="max_utilization", victim=victim)
    drive.add(1, prompt=9, max_tokens=20, priority=1)
    drive.add(2, prompt=3, max_tokens=20, priority=5)
    drive.add(3, prompt=7, max_tokens=20, priority=0)
    for _ in range(5):
        plan = drive.step()
        if plan.preempted:
            break
    assert [p.victim.id for p in plan.preempted] == [expected]


def test_a_victim_that_had_tokens_already_gives_them_back() -> None:
    drive = Drive(blocks=4, capacity="max_utilization", victim="lowest_priority", token_budget=16)
    first = drive.add(1, prompt=5, max_tokens=9, priority=5)
    drive.add(2, prompt=7, max_tokens=9, priority=0)
    drive.steps(2)
    drive.scheduler.set_policies({"token_budget": 2}, "drain", drive.now)
    drive.add(3, prompt=1, priority=9)
    plan = drive.step()
    assert [p.victim for p in plan.preempted] == [first]
    assert parts(plan.items) == [("r2", 8, 1, True)]


def test_the_budget_of_a_victim_goes_to_those_that_stay() -> None:
    drive = Drive(blocks=7, capacity="max_utilization", victim="lowest_priority", max_running=3)
    first = drive.add(1, prompt=5, max_tokens=9, priority=5)
    drive.add(2, prompt=7, max_tokens=9)
    drive.step()
    drive.add(3, prompt=9, max_tokens=9)
    drive.step()
    drive.scheduler.set_policies({"token_budget": 2}, "drain", drive.now)
    plan = drive.step()
    assert [p.victim for p in plan.preempted] == [first]
    assert [item.request.id for item in plan.items] == ["r2", "r3"]


# Leaving


def test_aborted_requests_leave_from_wherever_they_are() -> None:
    drive = Drive(max_running=1)
    running, waiting = drive.add(1, prompt=10), drive.add(2)
    drive.step()
    drive.scheduler.abort(waiting, drive.now)
    drive.scheduler.abort(running, drive.now)
    assert drive.scheduler.requests == {}
    assert drive.scheduler.verdict is None
    assert drive.scheduler.totals.aborted == 2
    assert drive.pool.cached_blocks == 2
    with pytest.raises(ValueError, match="r1 is not live"):
        drive.scheduler.abort(running, drive.now)


def test_a_request_aborted_while_its_batch_runs_is_passed_over() -> None:
    drive = Drive()
    gone, stays = drive.add(1), drive.add(2)
    plan = drive.scheduler.schedule(drive.now)
    drive.scheduler.abort(gone, drive.now)
    assert drive.scheduler.commit(plan, StepOutput([5, 6]), drive.now) == []
    assert gone.output_tokens == 0
    assert stays.token_ids[-1] == 6
    assert drive.scheduler.ledger_violations() == []


def test_a_plan_is_committed_once() -> None:
    drive = Drive()
    request = drive.add(1, prompt=5)
    plan = drive.step()
    known = len(request.token_ids)
    assert drive.scheduler.commit(plan, StepOutput([7]), drive.now) == []
    assert (len(request.token_ids), request.computed_tokens) == (known, 5)


def test_only_a_running_request_can_be_preempted() -> None:
    drive = Drive()
    request = drive.add(1)
    with pytest.raises(ValueError, match="r1 is waiting; only a running one"):
        drive.scheduler.preempt(request, 0.0, "")
    with pytest.raises(ValueError, match="r9 is not live"):
        drive.scheduler.preempt(make_request(9), 0.0, "")


def test_a_wrong_number_of_tokens_is_refused_before_anything_changes() -> None:
    drive = Drive()
    request = drive.add(1)
    plan = drive.scheduler.schedule(drive.now)
    with pytest.raises(ValueError, match="the batch samples 1 tokens, 2 came back"):
        drive.scheduler.commit(plan, StepOutput([1, 2]), drive.now)
    assert request.computed_tokens == 0


def test_planning_again_without_a_commit_plans_the_same() -> None:
    drive = Drive()
    drive.add(1)
    first = drive.scheduler.schedule(drive.now)
    again = drive.scheduler.schedule(drive.now)
    assert again.items == first.items
    assert drive.scheduler.ledger_violations() == []


def test_when_all_is_done_every_block_is_free_or_cached() -> None:
    drive = Drive(blocks=8, capacity="max_utilization")
    for num in range(12):
        drive.add(num, prompt=3 + num % 7, max_tokens=1 + num)
    drive.run_out()
    assert drive.pool.active_blocks == drive.pool.shared_blocks == drive.pool.tokens_in_use == 0
    assert int((drive.pool.state == FREE).sum()) + drive.pool.cached_blocks == 8
    assert drive.scheduler.totals.finished == 12


def test_thousands_wait_and_leave_in_any_order() -> None:
    drive = Drive(max_running=1, order="shortest_prompt")
    requests = [drive.add(num, prompt=1 + num % 9) for num in range(3000)]
    for request in requests[::2]:
        drive.scheduler.abort(request, drive.now)
    lengths = [request.prompt_tokens for request in drive.scheduler.waiting]
    assert lengths == sorted(lengths)
    assert len(lengths) == 1500
