"""Who is admitted, and when: what each capacity rule promises, and the limits that hold the head back."""

from engine.requests.request import FinishReason, RequestState
from tests.engine.driving import Drive

PREFIX = list(range(8))


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
