"""Several samples of one prompt: computed once, shared, and copied block by block as they part."""

from typing import Any
from unittest.mock import Mock

import pytest

from engine.model.load import random_model
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BlockCopy
from engine.requests.request import FinishReason, Request, RequestState
from engine.requests.sampling import Sampling
from engine.scheduling.forking import MAX_SAMPLES, add_samples
from engine.serving.server import Server
from kvtop.publish import Publisher
from tests.engine import served
from tests.engine.driving import Drive, make_request
from tests.engine.fake_model import make_engine


def add(drive: Drive, num: int, n: int, prompt: Any = 6, max_tokens: int = 8, **more: Any) -> list[Request]:
    """A request with ``n`` samples; all of them, the first first."""
    request = make_request(num, prompt, max_tokens, **more)
    add_samples(request, list(range(num + 1, num + n)))
    samples = [request, *request.samples]
    drive.scheduler.add(request, drive.now)
    drive.requests.update({sample.num: sample for sample in samples})
    return samples


def test_the_prompt_is_computed_once_and_every_sample_gets_a_first_token() -> None:
    drive = Drive()
    samples = add(drive, 1, n=3)
    (item,) = drive.step().items
    assert (item.start, item.count) == (0, 6)
    assert [sample.output_tokens for sample in samples] == [1, 1, 1]
    assert drive.running == ["r1", "r1.1", "r1.2"]
    assert drive.scheduler.totals.prefill_tokens == 6
    assert drive.scheduler.totals.decode_tokens == 3
    assert [sample.state for sample in samples] == [RequestState.DECODE] * 3
    assert [sample.first_sample for sample in samples] == [1, 1, 1]


def test_samples_share_all_blocks_of_the_prompt_the_incomplete_one_too() -> None:
    drive = Drive()
    first, second = add(drive, 1, n=2)
    drive.step()
    assert first.block_table == second.block_table
    assert drive.pool.shared_blocks == 2
    assert drive.pool.active_blocks == 0
    assert drive.pool.tokens_in_use == 6


def test_the_first_write_copies_that_block_alone_and_the_last_holder_writes_in_place() -> None:
    drive = Drive()
    first, second, third = add(drive, 1, n=3)
    drive.step()
    complete, tail = first.block_table
    plan = drive.step()
    assert plan.copies == (
        BlockCopy(tail, first.block_table[1], 2),
        BlockCopy(tail, second.block_table[1], 2),
    )
    assert [copied.request for copied in plan.copied] == [first, second]
    assert third.block_table == [complete, tail]
    assert [sample.block_table[0] for sample in (first, second, third)] == [complete] * 3
    assert drive.step().copies == ()


def test_a_prompt_that_ends_with_its_block_needs_no_copy() -> None:
    drive = Drive()
    add(drive, 1, n=3, prompt=8)
    drive.step()
    assert drive.step().copies == ()
    drive.run_out()


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("capacity", ["max_utilization", "guaranteed_no_evict", "static_batch"])
def test_all_samples_run_to_their_end_under_every_rule(capacity: str, prefix_cache: bool) -> None:
    drive = Drive(blocks=12, capacity=capacity, prefix_cache=prefix_cache)
    samples = [*add(drive, 1, n=3, prompt=10, max_tokens=7), *add(drive, 11, n=2, prompt=7, max_tokens=9)]
    drive.run_out()
    assert [sample.output_tokens for sample in samples] == [7, 7, 7, 9, 9]
    assert all(sample.finish_reason is FinishReason.LENGTH for sample in samples)
    assert drive.pool.active_blocks == drive.pool.shared_blocks == drive.scheduler.reserved_blocks == 0


def test_samples_may_differ() -> None:
    drive = Drive()
    samples = add(drive, 1, n=3, max_tokens=12)
    drive.run_out()
    assert len({tuple(sample.token_ids) for sample in samples}) > 1


def test_a_guarantee_covers_the_copies() -> None:
    drive = Drive(blocks=8, capacity="guaranteed_no_evict")
    first, second = add(drive, 1, n=2, prompt=6, max_tokens=7)
    drive.step()
    # To 12 tokens: one block more each, and either may have to copy the incomplete one.
    assert [first.reserved_blocks, second.reserved_blocks] == [2, 2]
    drive.step()
    assert [first.reserved_blocks, second.reserved_blocks] == [1, 1]
    assert drive.pool.active_blocks == 2


def test_a_sample_that_cannot_be_promised_its_blocks_waits_and_finds_the_prompt_again() -> None:
    drive = Drive(blocks=6, capacity="guaranteed_no_evict")
    first, second = add(drive, 1, n=2, prompt=10, max_tokens=12)
    drive.step()
    assert drive.running == ["r1"]
    assert (second.state, second.output_tokens, second.block_table) == (RequestState.WAITING, 1, [])
    drive.run_out()
    assert second.output_tokens == first.output_tokens == 12
    assert second.recomputed < 10


def test_no_more_samples_run_than_may() -> None:
    drive = Drive(max_running=2)
    add(drive, 1, n=4)
    drive.step()
    assert drive.running == ["r1", "r1.1"]
    assert drive.waiting == ["r1.2", "r1.3"]
    drive.run_out()


def test_a_sample_that_ends_with_its_first_token_takes_nothing() -> None:
    drive = Drive()
    samples = add(drive, 1, n=3, max_tokens=1)
    drive.step()
    assert {sample.num for sample in drive.finished} == {1, 2, 3}
    assert all(sample.output_tokens == 1 for sample in samples)
    assert drive.pool.active_blocks == drive.pool.shared_blocks == 0


def test_the_samples_of_a_request_aborted_before_they_fork_end_with_it() -> None:
    drive = Drive(token_budget=4)
    samples = add(drive, 1, n=3)
    drive.step()
    drive.scheduler.abort(samples[0], drive.now)
    assert all(sample.finish_reason is FinishReason.ABORT for sample in samples)
    assert drive.scheduler.requests == {}


def test_a_request_preempted_before_the_fork_forks_when_it_is_computed_again() -> None:
    drive = Drive(token_budget=4)
    samples = add(drive, 1, n=2)
    drive.step()
    drive.scheduler.preempt(samples[0], drive.now, "test")
    drive.run_out()
    assert [sample.output_tokens for sample in samples] == [8, 8]


def test_a_preempted_sample_leaves_the_shared_block_to_the_other() -> None:
    drive = Drive()
    first, second = add(drive, 1, n=2)
    drive.step()
    drive.scheduler.preempt(second, drive.now, "test")
    plan = drive.scheduler.schedule(drive.now)
    assert not any(copied.request is first for copied in plan.copied)
    drive.run_out()
    assert [first.output_tokens, second.output_tokens] == [8, 8]


def test_a_copy_that_was_planned_and_never_run_is_planned_again() -> None:
    drive = Drive()
    add(drive, 1, n=2)
    drive.step()
    lost = drive.scheduler.schedule(drive.now)
    assert len(lost.copies) == 1
    assert drive.step().copies == lost.copies
    assert drive.step().copies == ()


def test_a_victim_makes_room_for_a_copy() -> None:
    drive = Drive(blocks=3, capacity="max_utilization")
    first, second = add(drive, 1, n=2, prompt=6, max_tokens=5)
    other = drive.add(9, prompt=2, max_tokens=3)
    drive.step()
    assert drive.running == ["r1", "r9", "r1.1"]
    plan = drive.step()
    assert [p.victim.id for p in plan.preempted] == ["r1.1"]
    assert plan.preempted[0].cause.startswith("r1 needs 1 more block, 0 left")
    # Now that nobody shares it, the first writes in place.
    assert plan.copies == ()
    drive.run_out()
    assert [first.output_tokens, second.output_tokens, other.output_tokens] == [5, 5, 3]


def test_every_sample_of_a_seeded_request_has_a_seed_of_its_own_the_same_in_every_run() -> None:
    seeds = []
    for _ in range(2):
        request = make_request(1, 5, sampling=Sampling(temperature=1.0, seed=7))
        add_samples(request, [2, 3])
        seeds.append([each.sampling.seed for each in (request, *request.samples)])
    assert seeds[0] == seeds[1]
    assert seeds[0][0] == 7
    assert len(set(seeds[0])) == 3
    plain = make_request(1, 5)
    add_samples(plain, [2])
    assert plain.samples[0].sampling.seed is None


def test_too_many_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="r1 asks for 65 samples; the most is 64"):
        add_samples(make_request(1), list(range(MAX_SAMPLES)))


def test_the_ledger_finds_a_write_to_a_shared_block() -> None:
    drive = Drive()
    first, second = add(drive, 1, n=2)
    drive.step()
    tail = first.block_table[1]
    first.computed_tokens += 1
    drive.pool.fill[tail] += 1
    drive.pool.group_tokens[0] += 1
    found = drive.scheduler.ledger_violations()
    assert f"block {tail} holds 3 tokens, but as block 1 of request r1.1 it should hold 2" in found
    second.computed_tokens += 1
    second.token_ids[-1] = first.token_ids[-1] + 1
    assert drive.scheduler.ledger_violations() == [
        f"block {tail} was written while it is shared: requests r1, r1.1 have other tokens in its place"
    ]


def test_the_ledger_finds_a_sample_that_plans_no_copy() -> None:
    drive = Drive()
    first, _ = add(drive, 1, n=2)
    drive.step()
    first.forked_tail = False
    assert drive.scheduler.ledger_violations() == [
        f"block {first.block_table[1]} is about to be written by r1, who shares it and plans no copy"
    ]


def test_strangers_cannot_share_a_block_that_is_written() -> None:
    drive = Drive()
    first, second = add(drive, 1, n=2)
    drive.step()
    second.first_sample = 99
    tail = first.block_table[1]
    assert (
        f"block {tail} is in the tables of requests r1, r1.1 though it can still be written (2 of 4 tokens)"
        in drive.scheduler.ledger_violations()
    )


def test_the_server_takes_a_number_of_samples() -> None:
    engine, telemetry = make_engine()
    server = Server(engine, telemetry, Mock(spec=Publisher, hello=Mock()))
    first = server.submit([1, 2, 3, 4, 5], 6, n=3).request
    alone = server.submit([6, 7], 6).request
    server.take_up()
    assert [sample.num for sample in (first, *first.samples, alone)] == [0, 1, 2, 3]
    assert (alone.first_sample, alone.siblings) == (None, 1)
    samples = [first, *first.samples]
    while engine.scheduler.requests:
        engine.step()
    assert [sample.output_tokens for sample in samples] == [6, 6, 6]
    for wrong in (0, -1, MAX_SAMPLES + 1):
        with pytest.raises(ValueError, match=f"n: {wrong} samples of one prompt is not in 1…64"):
            server.submit([1], 1, n=wrong)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_on_a_model_each_sample_is_what_it_would_be_alone(temperature: float) -> None:
    runner = served.make_runner(random_model(seed=3), blocks=24, block_size=8)
    prompt = [5, 9, 2, 7, 7, 1, 3, 8, 4, 6, 2]
    sampling = Sampling(temperature=temperature, seed=11)
    first = served.make_request(0, prompt, 12, sampling=sampling)
    add_samples(first, [1, 2])
    samples = [first, *first.samples]
    served.Serving(runner, PolicySet(), blocks=24).serve([first])
    for sample in samples:
        alone = served.make_request(9, prompt, 12, sampling=sample.sampling)
        (output,) = served.Serving(runner, PolicySet(prefix_cache=False), blocks=24).serve([alone])
        assert sample.token_ids == [*prompt, *output]
