"""Samples that share blocks, on the real model: each greedy one must be the golden continuation, copies or not."""

import pytest

from engine.model.load import LoadedModel
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.requests.sampling import Sampling
from engine.scheduling.forking import add_samples
from tests.engine.model.test_golden import BLOCK_SIZE, BLOCKS, CASES, LONG, SURE
from tests.engine.served import Serving, make_request, make_runner

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def runner(smollm: LoadedModel) -> ModelRunner:
    return make_runner(smollm, blocks=BLOCKS, block_size=BLOCK_SIZE)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_greedy_samples_are_all_the_golden_continuation(runner: ModelRunner, prefix_cache: bool) -> None:
    serving = Serving(runner, PolicySet(prefix_cache=prefix_cache, max_running=32), blocks=BLOCKS)
    cases = [LONG, *SURE[:3]]
    assert any(len(case.prompt_ids) % BLOCK_SIZE for case in cases), "no prompt ends within a block"
    firsts = [make_request(2 * num, case.prompt_ids, len(case.required)) for num, case in enumerate(cases)]
    seconds = []
    for first in firsts:
        add_samples(first, [first.num + 1])
        seconds += first.samples
    serving.serve(firsts)
    for case, first, second in zip(cases, firsts, seconds, strict=True):
        for sample in (first, second):
            assert sample.token_ids[sample.prompt_tokens :] == case.required, case.prompt


def test_a_greedy_sample_is_not_disturbed_by_what_its_siblings_write(runner: ModelRunner) -> None:
    case = next(case for case in CASES if len(case.prompt_ids) % BLOCK_SIZE and len(case.required) >= 20)
    serving = Serving(runner, PolicySet(), blocks=BLOCKS)
    first = make_request(0, case.prompt_ids, len(case.required))
    add_samples(first, [1, 2])
    wild = first.samples
    for number, sample in enumerate(wild):
        sample.sampling = Sampling(temperature=2.0, seed=number)
    serving.serve([first])
    assert first.token_ids[first.prompt_tokens :] == case.required
    assert all(sample.token_ids != first.token_ids for sample in wild)
    assert wild[0].token_ids != wild[1].token_ids


@pytest.mark.parametrize("complete", [0, 4], ids=["of the first block", "after complete blocks"])
def test_the_beginning_of_a_block_copied_from_another_request_changes_nothing(
    runner: ModelRunner, complete: int
) -> None:
    serving = Serving(runner, PolicySet(partial_reuse="copy"), blocks=BLOCKS)
    alike = complete * BLOCK_SIZE + 11
    serving.serve([make_request(0, [*LONG.prompt_ids[:alike], *[7] * BLOCK_SIZE], 2)])
    request = make_request(1, LONG.prompt_ids, len(LONG.required))
    assert serving.serve([request]) == [LONG.required]
    assert request.cached == alike
