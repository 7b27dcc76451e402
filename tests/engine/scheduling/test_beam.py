"""Beam search over shared blocks: who holds what after each step, and that the outcome is that of the definition."""

from typing import Any

import pytest

from engine.memory.window import Windows
from engine.requests.request import FinishReason, Request, RequestState
from engine.scheduling.beam_steps import add_beams
from tests.engine.beams import ended_by_itself, outputs_of, search
from tests.engine.driving import Drive, make_request


def add(drive: Drive, num: int, width: int = 3, prompt: Any = 6, max_tokens: int = 8, **more: Any) -> Request:
    penalty = more.pop("length_penalty", 1.0)
    request = make_request(num, prompt, max_tokens, **more)
    add_beams(request, list(range(num + 1, num + width)), penalty)
    drive.scheduler.add(request, drive.now)
    drive.requests[num] = request
    return request


def members(request: Request) -> list[Request]:
    assert request.beam is not None
    return request.beam.members


def expected(drive: Drive, request: Request) -> list[tuple[list[int], float]]:
    assert request.beam is not None
    return search(
        drive.runner.follow,
        request.token_ids[: request.prompt_tokens],
        request.beam.width,
        request.max_tokens,
        penalty=request.beam.search.length_penalty,
        stop_ids=request.stop_ids,
    )


def check(drive: Drive, request: Request) -> None:
    wanted = expected(drive, request)
    assert ended_by_itself(request)
    assert outputs_of(request) == [output for output, _ in wanted]
    assert [member.score for member in members(request)] == pytest.approx([total for _, total in wanted])
    assert drive.scheduler.reserved_blocks == drive.pool.active_blocks == drive.pool.shared_blocks == 0


def test_the_first_step_forks_beams_that_share_all_blocks_of_the_prompt() -> None:
    drive = Drive()
    request = add(drive, 1)
    assert drive.running == []
    assert drive.waiting == ["r1"]
    drive.step()
    assert drive.running == ["r1", "r1.1", "r1.2"]
    tables = [member.block_table for member in members(request)]
    assert tables[0] == tables[1] == tables[2]
    assert drive.pool.shared_blocks == 2
    assert len({tuple(member.token_ids) for member in members(request)}) == 3
    assert [member.forked_tail for member in members(request)] == [True, True, False]


def test_the_first_write_copies_the_incomplete_block_alone_and_the_last_holder_writes_in_place() -> None:
    drive = Drive()
    request = add(drive, 1)
    drive.step()
    complete, tail = request.block_table
    plan = drive.step()
    assert [(copy.source, copy.tokens) for copy in plan.copies] == [(tail, 2), (tail, 2)]
    assert all(member.block_table[0] == complete for member in members(request))


def test_a_reorganisation_takes_and_copies_no_block() -> None:
    drive = Drive(blocks=40)
    request = add(drive, 1, width=4, max_tokens=20)
    seen = 0
    while drive.scheduler.requests:
        plan = drive.scheduler.schedule(drive.now)
        before = drive.pool.available
        took = [member.takeovers for member in members(request)]
        output = drive.runner.run(plan.items, plan.copies)
        drive.scheduler.commit(plan, output, drive.now)
        assert drive.scheduler.ledger_violations() == []
        assert drive.pool.available >= before
        seen += [member.takeovers for member in members(request)] != took
    assert seen > 5


@pytest.mark.parametrize("width", [2, 4, 16])
@pytest.mark.parametrize("stop_ids", [frozenset(), frozenset({7, 8}), frozenset(range(20))])
@pytest.mark.parametrize("length_penalty", [1.0, 0.0, 2.0, -1.0])
def test_the_outcome_is_that_of_the_definition(width: int, stop_ids: frozenset[int], length_penalty: float) -> None:
    drive = Drive(blocks=100)
    request = add(drive, 1, width, max_tokens=12, stop_ids=stop_ids, length_penalty=length_penalty)
    drive.run_out()
    check(drive, request)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("capacity", ["max_utilization", "guaranteed_no_evict", "static_batch"])
@pytest.mark.parametrize("prompt", [3, 6, 8])
def test_under_every_rule_in_a_tight_pool(capacity: str, prefix_cache: bool, prompt: int) -> None:
    drive = Drive(blocks=17, capacity=capacity, prefix_cache=prefix_cache, watermark=0.0)
    requests = [add(drive, 10 * n, 3, prompt=prompt, max_tokens=9 + n) for n in range(4)]
    plain = drive.add(99, 7, 9)
    preempted = 0
    while drive.scheduler.requests:
        preempted += len(drive.step().preempted)
    assert plain.output_tokens == 9
    for request in requests:
        check(drive, request)
    assert (preempted > 0) == (capacity == "max_utilization")


def test_a_beam_that_has_reported_waits_for_the_others() -> None:
    drive = Drive(token_budget=4)
    request = add(drive, 1, width=6, prompt=4, max_tokens=5)
    drive.step()
    assert len(drive.step().items) == 4
    assert [member.remaining for member in members(request)] == [0, 0, 0, 0, 1, 1]
    assert [item.request.num for item in drive.step().items] == [5, 6]
    assert {member.output_tokens for member in members(request)} == {2}
    drive.run_out()
    check(drive, request)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("after", range(1, 9))
def test_a_preempted_group_goes_on_where_it_was(after: int, prefix_cache: bool) -> None:
    drive = Drive(blocks=30, prefix_cache=prefix_cache, token_budget=16)
    request = add(drive, 1, width=4, prompt=6, max_tokens=10)
    drive.steps(after)
    known = [(list(member.token_ids), member.score) for member in members(request)]
    held = sum(len(member.held) for member in members(request))
    record = drive.scheduler.preempt(members(request)[-1], drive.now, "test")
    assert (record.victim, record.blocks_released) == (request, held)
    assert [(member.token_ids, member.score) for member in members(request)] == known
    assert drive.waiting == ["r1"]
    assert drive.running == []
    assert drive.pool.active_blocks == drive.pool.shared_blocks == 0
    drive.run_out()
    check(drive, request)
    assert [member.preemptions for member in members(request)] == [1, 1, 1, 1]


def test_beams_that_wake_share_what_they_shared() -> None:
    drive = Drive(blocks=60, prefix_cache=False)
    request = add(drive, 1, width=4, prompt=10, max_tokens=16)
    drive.steps(12)
    used = drive.pool.active_blocks + drive.pool.shared_blocks
    assert drive.pool.shared_blocks > 2
    tokens = [list(member.token_ids) for member in members(request)]
    drive.scheduler.preempt(request, drive.now, "test")
    while request.beam is not None and len(request.beam.awake) < 4:
        drive.step()
    while any(member.remaining for member in members(request)) and request.output_tokens == len(tokens[0]) - 10:
        drive.step()
    assert drive.pool.active_blocks + drive.pool.shared_blocks <= used + 4
    drive.run_out()
    check(drive, request)


def test_a_guarantee_covers_the_whole_group() -> None:
    drive = Drive(blocks=14, capacity="guaranteed_no_evict", token_budget=4, watermark=0.0)
    # To 12 tokens: 3 blocks for the first, 2 more for each other, which shares one complete block.
    request = add(drive, 1, width=4, prompt=6, max_tokens=7)
    other = drive.add(20, prompt=13, max_tokens=8)
    drive.step()
    assert request.reserved_blocks + len(request.held) == 9
    assert drive.waiting == ["r20"]
    drive.run_out()
    check(drive, request)
    assert other.output_tokens == 8


def test_a_group_that_could_never_be_promised_its_blocks_is_refused() -> None:
    drive = Drive(blocks=8, capacity="guaranteed_no_evict")
    request = add(drive, 1, width=4, prompt=6, max_tokens=7)
    drive.step()
    assert request.finish_reason is FinishReason.ERROR
    assert request.finish_detail is not None
    assert "need 9 blocks and the pool has 8" in request.finish_detail
    assert all(member.finish_reason is FinishReason.ERROR for member in members(request))


def test_a_group_counts_as_wide_as_it_is() -> None:
    drive = Drive(blocks=60, max_running=5)
    first, second = add(drive, 1, width=3), add(drive, 11, width=3)
    plain = [drive.add(num, 5, 8) for num in (21, 22)]
    drive.step()
    assert drive.running == ["r1", "r1.1", "r1.2"]
    assert drive.scheduler.verdict is not None
    assert drive.scheduler.verdict.detail == "3 requests running, 5 allowed; its 3 beams count one each"
    drive.run_out()
    check(drive, first)
    check(drive, second)
    assert [request.output_tokens for request in plain] == [8, 8]


def test_a_group_wider_than_what_may_run_runs_when_nothing_else_does() -> None:
    drive = Drive(blocks=60, max_running=2)
    plain = drive.add(1, 5, 4)
    request = add(drive, 11, width=5)
    drive.step()
    assert drive.running == ["r1"]
    drive.run_out()
    check(drive, request)
    assert plain.output_tokens == 4
    assert drive.scheduler.transition_text() is None


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_group_that_fills_the_whole_pool_ends_with_what_it_has(prefix_cache: bool) -> None:
    drive = Drive(blocks=7, max_model_len=200, prefix_cache=prefix_cache, watermark=0.0)
    request = add(drive, 1, width=3, prompt=6, max_tokens=90)
    drive.run_out()
    assert request.finish_reason is FinishReason.LENGTH
    assert request.finish_detail == "the 3 beams of r1 filled all 7 blocks that there are; their output ends here"
    assert {member.output_tokens for member in members(request)} <= set(range(3, 24))
    assert outputs_of(request) == [
        output for output, _ in search(drive.runner.follow, request.token_ids[:6], 3, request.output_tokens)
    ]


def test_under_abort_a_victim_ends_with_its_best_hypotheses() -> None:
    drive = Drive(preempt_action="abort")
    request = add(drive, 1, width=3, prompt=6, max_tokens=20, stop_ids=frozenset({7, 8}))
    drive.steps(5)
    record = drive.scheduler.preempt(members(request)[1], drive.now, "test")
    assert record.victim is request
    assert all(member.finish_reason is FinishReason.ABORT for member in members(request))
    assert all(member.finish_detail == "preempted under preempt_action=abort: test" for member in members(request))
    assert request.output_tokens == 5
    scores = [member.score / member.output_tokens for member in members(request) if member.score is not None]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert drive.scheduler.requests == {}
    assert drive.scheduler.totals.aborted == 3


@pytest.mark.parametrize("which", [0, 1, 2])
def test_who_aborts_one_beam_aborts_the_group(which: int) -> None:
    drive = Drive()
    request = add(drive, 1)
    drive.steps(3)
    drive.scheduler.abort(members(request)[which], drive.now)
    assert drive.scheduler.requests == {}
    assert [member.state for member in members(request)] == [RequestState.FINISHED] * 3
    assert drive.scheduler.ledger_violations() == []


def test_a_group_aborted_before_its_first_token_has_no_output() -> None:
    drive = Drive(token_budget=4)
    request = add(drive, 1)
    drive.step()
    drive.scheduler.abort(request, drive.now)
    assert outputs_of(request) == [[], [], []]
    assert request.beam is not None
    assert request.beam.seen == [request]


def test_all_members_end_in_the_same_step() -> None:
    drive = Drive()
    request = add(drive, 1, max_tokens=1)
    drive.step()
    assert [member.num for member in drive.finished] == [1, 2, 3]
    check(drive, request)
    assert drive.scheduler.totals.finished == 3


def test_a_swap_falls_back_to_recompute() -> None:
    drive = Drive(preempt_action="swap")
    request = add(drive, 1)
    drive.steps(3)
    record = drive.scheduler.preempt(request, drive.now, "test")
    assert record.cause == "test; beams are recomputed, not swapped"
    drive.run_out()
    check(drive, request)


def test_policies_that_preempt_treat_a_group_as_one() -> None:
    drive = Drive(blocks=60, max_running=8)
    request = add(drive, 1, width=4)
    plain = [drive.add(num, 5, 8) for num in (21, 22)]
    drive.steps(2)
    change = drive.scheduler.set_policies({"max_running": 1, "victim": "most_blocks"}, "preempt", drive.now)
    assert len(drive.running) == 1 or drive.running[0] == "r1"
    assert len({preemption.victim for preemption in change.preempted}) == len(change.preempted)
    drive.run_out()
    check(drive, request)
    assert [each.output_tokens for each in plain] == [8, 8]


def test_fewer_tokens_than_beams() -> None:
    drive = Drive(blocks=100)
    request = add(drive, 1, width=4, prompt=5, max_tokens=6)
    # A vocabulary of two: the group grows to its width over several steps.
    plenty = drive.runner.candidates
    drive.runner.candidates = lambda tokens, count: plenty(tokens, 50)[:2]  # type: ignore[method-assign]
    drive.step()
    assert drive.running == ["r1", "r1.1"]
    drive.step()
    assert drive.running == ["r1", "r1.1", "r1.2", "r1.3"]
    drive.run_out()
    check(drive, request)


@pytest.mark.parametrize("capacity", ["max_utilization", "guaranteed_no_evict"])
def test_beams_that_all_stop_leave_fewer(capacity: str) -> None:
    drive = Drive(blocks=100, capacity=capacity)
    request = add(drive, 1, width=4, prompt=5, max_tokens=9, stop_ids=frozenset(range(25)))
    plenty = drive.runner.candidates
    drive.runner.candidates = lambda tokens, count: plenty(tokens, 50)[:3]  # type: ignore[method-assign]
    widths = set()
    while drive.scheduler.requests:
        drive.step()
        widths.add(len(drive.running))
    assert len(widths) > 2
    check(drive, request)


@pytest.mark.parametrize("windows", [(5,), (None, 6), (11, 3, None)], ids=str)
@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("after", [9, 14, 19])
def test_a_preempted_group_goes_on_where_layers_slide(after: int, prefix_cache: bool, windows: Windows) -> None:
    """Who wakes needs positions that have slid out for those who are ahead of it."""
    drive = Drive(blocks=60 * len(windows), windows=windows, prefix_cache=prefix_cache, token_budget=16)
    request = add(drive, 1, width=4, prompt=10, max_tokens=24)
    drive.steps(after)
    drive.scheduler.preempt(request, drive.now, "test")
    drive.run_out()
    check(drive, request)
    assert drive.scheduler.totals.dropped_blocks > 0
