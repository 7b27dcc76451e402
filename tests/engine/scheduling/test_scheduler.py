"""What the scheduler does in plain situations: batching, chunks, prefix hits, capacity rules, victims, verdicts."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.memory.blocks import FREE
from engine.requests.batch import BatchItem, StepOutput
from engine.requests.request import FinishReason, RequestState
from tests.engine.driving import BLOCK, Drive, make_request


def parts(items: Sequence[BatchItem]) -> list[tuple[str, int, int, bool]]:
    return [(item.request.id, item.start, item.count, item.samples) for item in items]


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


# Prefix cache

PREFIX = list(range(8))


def test_a_later_request_shares_the_full_blocks_of_its_prefix() -> None:
    drive = Drive()
    first = drive.add(1, prompt=[*PREFIX, 91, 92], max_tokens=5)
    drive.step()
    second = drive.add(2, prompt=[*PREFIX, 81], max_tokens=5)
    plan = drive.step()
    assert second.block_table[:2] == first.block_table[:2]
    assert plan.admitted[0].cached == second.cached == 8
    assert ("r2", 8, 1, True) in parts(plan.items)
    assert drive.pool.shared_blocks == 2


def test_the_last_token_is_always_computed() -> None:
    drive = Drive()
    drive.add(1, prompt=PREFIX, max_tokens=5)
    drive.step()
    second = drive.add(2, prompt=PREFIX, max_tokens=5)
    drive.step()
    assert second.cached == 4


def test_content_outlives_its_owner() -> None:
    drive = Drive()
    drive.add(1, prompt=[*PREFIX, 91], max_tokens=1)
    drive.step()
    assert drive.pool.cached_blocks == 2
    second = drive.add(2, prompt=[*PREFIX, 81], max_tokens=5)
    drive.step()
    assert second.cached == 8
    assert drive.scheduler.totals.prefix_hit_tokens == 8
    assert drive.scheduler.totals.prefix_query_tokens == 18


def test_output_is_cached_like_a_prompt() -> None:
    drive = Drive()
    first = drive.add(1, prompt=PREFIX, max_tokens=6)
    drive.run_out()
    again = drive.add(2, prompt=first.token_ids, max_tokens=1)
    drive.step()
    assert again.cached == 12


@pytest.mark.parametrize(
    ("policies", "salt"), [({"prefix_cache": False}, ""), ({"prefix_cache": True}, "another tenant")]
)
def test_nothing_is_shared_with_the_cache_off_or_under_another_salt(policies: dict[str, Any], salt: str) -> None:
    drive = Drive(**policies)
    drive.add(1, prompt=[*PREFIX, 91])
    drive.step()
    second = drive.add(2, prompt=[*PREFIX, 81], cache_salt=salt)
    drive.step()
    assert second.cached == 0
    assert drive.pool.shared_blocks == 0


def test_after_a_reset_nothing_old_is_found_not_even_what_grew_out_of_it() -> None:
    drive = Drive()
    first = drive.add(1, prompt=PREFIX, max_tokens=20)
    drive.step()
    assert drive.scheduler.reset_prefix_cache() == 2
    drive.steps(6)
    second = drive.add(2, prompt=first.token_ids[:9], max_tokens=2)
    drive.step()
    assert second.cached == 0
    # What the second computed afresh is found; what the first went on to compute after that beginning is not.
    third = drive.add(3, prompt=first.token_ids[:14], max_tokens=2)
    drive.step()
    assert third.cached == 8


def test_the_end_of_a_released_prefix_is_evicted_before_its_beginning() -> None:
    drive = Drive(blocks=4, capacity="max_utilization")
    drive.add(1, prompt=[*PREFIX, 91], max_tokens=1)
    drive.step()
    plan = None
    drive.add(2, prompt=10, max_tokens=1)
    plan = drive.step()
    assert plan.evicted == 1
    third = drive.add(3, prompt=[*PREFIX, 81], max_tokens=1)
    drive.step()
    assert third.cached == 4


# Capacity rules


def test_guaranteed_no_evict_reserves_to_the_maximum_and_stops_at_the_first_misfit() -> None:
    drive = Drive(blocks=8, capacity="guaranteed_no_evict")
    first = drive.add(1, prompt=4, max_tokens=17)
    drive.add(2, prompt=4, max_tokens=17)
    drive.add(3, prompt=4, max_tokens=1)
    plan = drive.step()
    assert drive.running == ["r1"]
    assert first.reserved_blocks == drive.scheduler.reserved_blocks == 4
    assert plan.verdict is not None
    assert (plan.verdict.request.id, plan.verdict.code) == ("r2", "needs_blocks")
    assert (plan.verdict.need_blocks, plan.verdict.available_blocks, plan.verdict.reserved_blocks) == (5, 3, 4)
    assert plan.verdict.rule == "capacity=guaranteed_no_evict"
    assert plan.verdict.detail == "r2 needs 5 more blocks and can have 3; 4 are promised to running requests"
    drive.run_out()
    assert drive.scheduler.totals.preemptions == 0


def test_the_last_token_needs_no_room() -> None:
    drive = Drive(blocks=2, capacity="guaranteed_no_evict")
    drive.add(1, prompt=4, max_tokens=5)
    drive.step()
    assert drive.running == ["r1"]
    drive.run_out()


def test_max_utilization_admits_more_and_preempts_the_latest_started() -> None:
    drive = Drive(blocks=4, capacity="max_utilization")
    first = drive.add(1, prompt=7, max_tokens=9)
    second = drive.add(2, prompt=6, max_tokens=9)
    plans = drive.steps(4)
    assert [len(plan.preempted) for plan in plans] == [0, 0, 1, 0]
    (preemption,) = plans[2].preempted
    assert (preemption.victim, preemption.by) == (second, first)
    assert (preemption.need_blocks, preemption.free_blocks) == (1, 0)
    assert (preemption.blocks_released, preemption.tokens_lost, preemption.seconds_lost) == (2, 7, 2.0)
    assert preemption.cause == "r1 needs 1 more block, 0 left; victim=latest chose r2"
    assert second.state is RequestState.PREEMPTED
    assert drive.scheduler.waiting.preempted == 1
    drive.run_out()
    assert second.output_tokens == first.output_tokens == 9
    assert (second.preemptions, second.lost_seconds, first.lost_seconds) == (1, 2.0, 0.0)
    assert second.recomputed == drive.scheduler.totals.recomputed_tokens > 0


def test_nobody_is_admitted_in_an_iteration_that_preempted() -> None:
    drive = Drive(blocks=4, capacity="max_utilization")
    drive.add(1, prompt=8, max_tokens=9)
    drive.add(2, prompt=7, max_tokens=9)
    plan = drive.steps(2)[1]
    assert plan.preempted
    assert plan.admitted == []
    assert plan.verdict is not None
    assert plan.verdict.code == "after_preemption"


def test_a_preempted_request_goes_to_the_front_under_fcfs() -> None:
    drive = Drive(blocks=4, capacity="max_utilization")
    drive.add(1, prompt=7, max_tokens=9)
    drive.add(2, prompt=6, max_tokens=9)
    drive.steps(2)
    drive.add(3, prompt=1, arrival=-50.0)
    assert drive.step().preempted
    assert drive.waiting == ["r2", "r3"]


def test_a_preempted_request_finds_its_hashed_blocks_again() -> None:
    drive = Drive(blocks=8)
    request = drive.add(1, prompt=10, max_tokens=5)
    drive.step()
    record = drive.scheduler.preempt(request, drive.now, "an operator wished it")
    assert (record.by, record.need_blocks, record.cause) == (None, None, "an operator wished it")
    drive.step()
    assert request.cached == 8
    assert request.recomputed == 2
    assert request.admissions == 2
    assert drive.scheduler.totals.prefix_query_tokens == 10


def test_the_whole_prompt_must_fit_for_admission_not_only_its_first_chunk() -> None:
    drive = Drive(blocks=6, capacity="max_utilization", token_budget=8)
    drive.add(1, prompt=8, max_tokens=9)
    drive.step()
    drive.add(2, prompt=16, max_tokens=2)
    plan = drive.step()
    assert drive.waiting == ["r2"]
    assert plan.verdict is not None
    assert plan.verdict.need_blocks == 5


def test_a_request_that_fills_the_whole_pool_ends_there() -> None:
    drive = Drive(blocks=3, capacity="max_utilization")
    request = drive.add(1, prompt=8, max_tokens=50)
    plans = drive.steps(7)
    assert request.finish_reason is FinishReason.LENGTH
    assert request.output_tokens == 5
    (rejected,) = [pair for plan in plans for pair in plan.rejected]
    assert rejected == (request, "r1 filled the whole pool of 3 blocks; its output ends here")
    assert drive.pool.active_blocks == 0


def test_a_prompt_as_large_as_the_pool_gets_its_one_token() -> None:
    drive = Drive(blocks=3, capacity="max_utilization")
    request = drive.add(1, prompt=12, max_tokens=50)
    drive.run_out()
    assert request.output_tokens == 1
    assert request.finish_reason is FinishReason.LENGTH


def test_a_request_that_can_never_fit_ends_with_an_error_and_the_queue_moves_on() -> None:
    drive = Drive(blocks=4, capacity="guaranteed_no_evict")
    hopeless = drive.add(1, prompt=8, max_tokens=50)
    drive.add(2, prompt=4, max_tokens=2)
    plan = drive.step()
    assert hopeless.finish_reason is FinishReason.ERROR
    assert hopeless.finish_detail is not None
    assert "its prompt and output limit need 15 blocks and the pool has 4" in hopeless.finish_detail
    assert plan.rejected == [(hopeless, hopeless.finish_detail)]
    assert drive.running == ["r2"]


def test_a_static_batch_is_formed_at_once_and_joined_by_nobody() -> None:
    drive = Drive(capacity="static_batch", token_budget=5)
    drive.add(1, prompt=5, max_tokens=3)
    drive.add(2, prompt=5, max_tokens=3)
    drive.step()
    assert drive.running == ["r1", "r2"]
    drive.add(3, prompt=5, max_tokens=3)
    plan = drive.step()
    assert plan.verdict is not None
    assert (plan.verdict.code, plan.verdict.rule) == ("batch_running", "capacity=static_batch")
    while drive.running != ["r3"]:
        assert "r3" not in drive.running
        drive.step()


# Limits


def test_max_running_holds_the_head_back() -> None:
    drive = Drive(max_running=1)
    drive.add(1)
    drive.add(2)
    verdict = drive.step().verdict
    assert verdict is not None
    assert (verdict.request.id, verdict.code, verdict.rule, verdict.limit) == ("r2", "max_running", "max_running=1", 1)


def test_the_token_budget_holds_the_head_back() -> None:
    drive = Drive(token_budget=5)
    drive.add(1, prompt=5)
    drive.add(2, prompt=5)
    verdict = drive.step().verdict
    assert verdict is not None
    assert (verdict.code, verdict.rule, verdict.limit) == ("token_budget", "token_budget=5", 5)


def test_the_watermark_is_kept_free_only_while_something_runs() -> None:
    drive = Drive(blocks=8, capacity="max_utilization", watermark=0.5)
    drive.add(1, prompt=16, max_tokens=2)
    drive.add(2, prompt=4, max_tokens=2)
    verdict = drive.step().verdict
    assert drive.running == ["r1"]
    assert verdict is not None
    assert (verdict.code, verdict.rule, verdict.watermark_blocks) == ("needs_blocks", "watermark=0.5", 4)
    assert verdict.need_blocks is not None
    assert verdict.available_blocks is not None
    assert verdict.need_blocks > verdict.available_blocks


def test_the_head_need_not_pay_for_what_is_cached_for_it() -> None:
    drive = Drive(blocks=6, capacity="guaranteed_no_evict")
    drive.add(1, prompt=[*PREFIX, 91], max_tokens=8)
    drive.step()
    drive.add(2, prompt=[*PREFIX, 81], max_tokens=8)
    drive.step()
    assert drive.running == ["r1", "r2"]


def test_paused_plans_nothing_and_keeps_everything() -> None:
    drive = Drive()
    request = drive.add(1)
    drive.step()
    drive.add(2)
    table = list(request.block_table)
    drive.scheduler.pause()
    plan = drive.step()
    assert plan.items == ()
    assert plan.verdict is not None
    assert plan.verdict.code == "paused"
    assert request.block_table == table
    drive.scheduler.resume()
    assert len(drive.step().items) == 2


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
