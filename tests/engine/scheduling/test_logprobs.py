"""Each output token keeps what the model said of it, once, whatever happens to its request; who asked for none keeps none."""

from dataclasses import replace

import pytest

from engine.policies.preempt_action import PREEMPT_ACTIONS
from engine.requests.batch import StepOutput
from engine.requests.request import FinishReason, Request
from engine.requests.sampling import Sampling
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from tests.engine.driving import FAKE_VOCAB, Drive, FakeRunner, make_request
from tests.engine.scheduling.test_proposed import drive as guessing_drive

ASKED = Sampling(logprobs=2)


def finish(drive: Drive, *requests: Request) -> list[Request]:
    """Runs all to their end: they and their samples or beams, each checked token by token."""
    each = [member for request in requests for member in (request, *request.samples)]
    for request in requests:
        drive.scheduler.add(request, drive.now)
    drive.run_out()
    for request in each:
        drive.runner.check_logprobs(request)
    return each


@pytest.mark.parametrize("action", [name for name in PREEMPT_ACTIONS if not name.startswith("swap")])
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_preemption_neither_loses_nor_doubles_them(action: str, prefix_cache: bool) -> None:
    drive = Drive(12, preempt_action=action, prefix_cache=prefix_cache)
    requests = [make_request(num, max_tokens=20, sampling=ASKED if num != 2 else Sampling()) for num in range(1, 5)]
    finish(drive, *requests)
    assert drive.scheduler.totals.preemptions
    assert requests[1].logprobs is None


@pytest.mark.parametrize("blocks", [60, 10])
def test_each_sample_has_its_own_from_the_first_token_on(blocks: int) -> None:
    drive = Drive(blocks)
    request = make_request(1, max_tokens=12, sampling=ASKED)
    add_samples(request, [2, 3, 4])
    each = finish(drive, request)
    assert len({tuple(sample.logprobs or ()) for sample in each}) == 4
    assert (drive.scheduler.totals.preemptions > 0) == (blocks == 10)


@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
def test_of_proposed_tokens_those_that_are_kept_have_theirs(right: float) -> None:
    finish(guessing_drive(right), *(make_request(num, max_tokens=17, sampling=ASKED) for num in (1, 2)))


@pytest.mark.parametrize("tops", [0, 2, 20])
@pytest.mark.parametrize("blocks", [60, 13])
@pytest.mark.parametrize("stop_ids", [frozenset(), frozenset(range(12))])
def test_a_hypothesis_has_those_of_its_own_line(tops: int, blocks: int, stop_ids: frozenset[int]) -> None:
    drive = Drive(blocks)
    leaders = [make_request(num, max_tokens=14, sampling=Sampling(logprobs=tops), stop_ids=stop_ids) for num in (1, 11)]
    for leader in leaders:
        add_beams(leader, [leader.num + 1, leader.num + 2])
    for beam in finish(drive, *leaders):
        assert beam.logprobs
        assert beam.score == beam.log_probability == pytest.approx(sum(each.logprob for each in beam.logprobs))
    assert (drive.scheduler.totals.preemptions > 0) == (blocks == 13)


@pytest.mark.parametrize("num", range(1, 6))
def test_what_is_told_does_not_change_which_beams_win(num: int) -> None:
    """Not even where the first output to end beats all others, and what is told has more that would end it."""
    found = []
    for sampling in (Sampling(), Sampling(logprobs=20)):
        leader = make_request(num, max_tokens=14, sampling=sampling, stop_ids=frozenset(range(6)))
        add_beams(leader, [12], length_penalty=-8.0)
        found.append([beam.token_ids for beam in finish(Drive(99), leader)])
    assert found[0] == found[1]


@pytest.mark.parametrize("beams", [False, True])
def test_an_abort_leaves_those_of_what_there_is(beams: bool) -> None:
    drive = Drive(60)
    request = make_request(1, max_tokens=30, sampling=ASKED)
    (add_beams if beams else add_samples)(request, [2, 3])
    each = [request, *request.samples]
    drive.scheduler.add(request, drive.now)
    drive.steps(7)
    for sample in each[:1] if beams else each:
        drive.scheduler.abort(sample, drive.now)
    for sample in each:
        assert sample.finish_reason is FinishReason.ABORT
        assert sample.output_tokens
        drive.runner.check_logprobs(sample)


def test_a_runner_that_tells_none_is_an_error_and_no_silence() -> None:
    class Silent(FakeRunner):
        def run(self, *given: object) -> StepOutput:
            return replace(super().run(*given), logprobs={})  # type: ignore[arg-type]

    drive = Drive()
    drive.runner = Silent(drive.pool)
    drive.scheduler.add(make_request(1, sampling=ASKED), drive.now)
    with pytest.raises(ValueError, match="r1 asks for log-probabilities, and none came back"):
        drive.step()


def test_the_sum_is_known_where_it_was_asked_for() -> None:
    asked, other = finish(Drive(), make_request(1, sampling=ASKED), make_request(2))
    assert asked.logprobs
    assert asked.log_probability == pytest.approx(sum(each.logprob for each in asked.logprobs))
    assert other.log_probability is None


def test_ranks_and_tops_agree_with_what_was_chosen() -> None:
    (request,) = finish(Drive(), make_request(1, max_tokens=20, sampling=Sampling(logprobs=20)))
    assert request.logprobs
    for token in request.logprobs:
        assert 1 <= token.rank <= FAKE_VOCAB
        assert len(token.top) == 20
        if token.rank <= 20:
            assert token.top[token.rank - 1] == (token.token_id, token.logprob)
