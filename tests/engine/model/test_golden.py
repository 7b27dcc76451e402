"""The real model's greedy output against an independent implementation on the same weights.

Agreement is required up to the first close choice (`tests.engine.golden`).
"""

from collections.abc import Sequence

import pytest

from engine.model.load import LoadedModel
from engine.model.runner import ModelRunner
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from tests.engine.golden import CASES, Case
from tests.engine.served import Serving, generate, make_request, make_runner, scattered_table

pytestmark = pytest.mark.model

BLOCKS = 256
BLOCK_SIZE = 16

LONG = next(case for case in CASES if len(case.prompt_ids) > 150)
CHAT = next(case for case in CASES if case.prompt.startswith("<|im_start|>"))
SURE = [case for case in CASES if len(case.required) >= 20]
"""Cases long enough to be interrupted in the middle."""
SOME = [CASES[0], LONG, CHAT]
OTHERS = [case for case in CASES if case not in SOME]


@pytest.fixture(scope="module")
def runner(smollm: LoadedModel) -> ModelRunner:
    return make_runner(smollm, blocks=BLOCKS, block_size=BLOCK_SIZE)


def _requests(cases: Sequence[Case]) -> list[Request]:
    return [make_request(num, case.prompt_ids, len(case.required)) for num, case in enumerate(cases)]


def _check(cases: Sequence[Case], outputs: Sequence[list[int]]) -> None:
    for case, output in zip(cases, outputs, strict=True):
        assert output == case.required, case.prompt


def test_the_golden_file_requires_something() -> None:
    assert len(CASES) == 12
    assert sum(len(case.required) for case in CASES) > 250


def test_prompts_are_tokenised_alike(smollm: LoadedModel) -> None:
    for case in CASES:
        assert smollm.tokenizer.encode(case.prompt, special=True) == case.prompt_ids


# Alone each takes a second; what differs between them is told by the batch below too.
@pytest.mark.parametrize("cases", [SOME, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=["some", "others"])
def test_alone_on_scattered_blocks(runner: ModelRunner, cases: list[Case]) -> None:
    for number, case in enumerate(cases):
        length = len(case.prompt_ids) + len(case.required)
        table = scattered_table(BLOCKS, length, BLOCK_SIZE, seed=number)
        request = make_request(number, case.prompt_ids, len(case.required), table=table)
        _check([case], generate(runner, [request]))


def test_in_a_batch_of_twelve(runner: ModelRunner) -> None:
    serving = Serving(runner, PolicySet(max_running=12, token_budget=512), blocks=BLOCKS)
    _check(CASES, serving.serve(_requests(CASES)))
    assert serving.largest_batch == 12


def test_with_prefill_in_chunks_of_16(runner: ModelRunner) -> None:
    serving = Serving(runner, PolicySet(token_budget=16), blocks=BLOCKS)
    cases = [LONG, CHAT]
    _check(cases, serving.serve(_requests(cases)))
    # The budget really cut the prompts: 226 prompt tokens at 16 an iteration, then the rest of the longer output.
    assert serving.iteration >= sum(len(case.prompt_ids) for case in cases) / 16 + len(CHAT.required)


def test_after_a_prefix_hit(runner: ModelRunner) -> None:
    serving = Serving(runner, PolicySet(prefix_cache=True), blocks=BLOCKS)
    first, again = make_request(0, LONG.prompt_ids, 1), make_request(1, LONG.prompt_ids, len(LONG.required))
    serving.serve([first])
    _check([LONG], serving.serve([again]))
    assert first.cached == 0
    assert again.cached >= len(LONG.prompt_ids) // BLOCK_SIZE * BLOCK_SIZE - BLOCK_SIZE > 0


@pytest.mark.parametrize("prefix_cache", [False, True], ids=["recomputed whole", "prefix found again"])
def test_after_a_forced_preemption_in_the_middle(runner: ModelRunner, prefix_cache: bool) -> None:
    cases = [LONG, SURE[0], SURE[1]]
    serving = Serving(runner, PolicySet(prefix_cache=prefix_cache), blocks=BLOCKS)
    requests = _requests(cases)

    def interrupt(iteration: int) -> None:
        if iteration == 12:
            for request in requests[:2]:
                assert 0 < request.output_tokens < request.max_tokens
                serving.scheduler.preempt(request, float(iteration), "forced by the test")

    _check(cases, serving.serve(requests, interrupt))
    assert [request.preemptions for request in requests] == [1, 1, 0]
    assert requests[0].recomputed > 0


def test_when_the_pool_is_too_small(runner: ModelRunner) -> None:
    cases = SURE[:4]
    policies = PolicySet(capacity="max_utilization", prefix_cache=False, watermark=0.0)
    serving = Serving(runner, policies, blocks=6)
    _check(cases, serving.serve(_requests(cases)))
    assert serving.preemptions > 0
