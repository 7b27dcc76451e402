"""Beam search on a model against one that recomputes every sequence whole, without a cache: all outputs and scores."""

from collections.abc import Sequence
from functools import partial

import pytest

from engine.model.load import LoadedModel, random_model
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.scheduling.beam_steps import add_beams
from tests.engine.beams import ended_by_itself, outputs_of, search
from tests.engine.dense import dense_candidates
from tests.engine.golden import CASES
from tests.engine.served import Serving, make_request, make_runner

PROMPTS = [[7 * i % 199 for i in range(length)] for length in (5, 8, 11, 18)]


def _beams(num: int, prompt: Sequence[int], width: int, most: int, stop_ids: frozenset[int]) -> Request:
    request = make_request(num, prompt, most)
    request.stop_ids = stop_ids
    add_beams(request, list(range(num + 1, num + width)))
    return request


def _check(model: LoadedModel, requests: Sequence[Request], most: int) -> None:
    for request in requests:
        beam = request.beam
        assert beam is not None
        assert ended_by_itself(request)
        prompt = request.token_ids[: request.prompt_tokens]
        expected = search(partial(dense_candidates, model), prompt, beam.width, most, stop_ids=request.stop_ids)
        assert outputs_of(request) == [output for output, _ in expected], request.id
        assert [member.score for member in beam.members] == pytest.approx([total for _, total in expected], abs=1e-3)


def _serve(
    model: LoadedModel, requests: Sequence[Request], policies: PolicySet, *, blocks: int, block_size: int
) -> Serving:
    serving = Serving(make_runner(model, blocks=blocks, block_size=block_size), policies, blocks=blocks)

    def check_the_books(_: int) -> None:
        assert serving.scheduler.ledger_violations() == []

    serving.serve(requests, check_the_books)
    return serving


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return random_model(seed=3)


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["cache", "no cache"])
@pytest.mark.parametrize("capacity", ["max_utilization", "guaranteed_no_evict"])
@pytest.mark.parametrize(("width", "block_size", "blocks"), [(2, 4, 22), (4, 4, 34), (4, 16, 12), (8, 4, 60)])
def test_on_a_random_model(
    tiny: LoadedModel, width: int, block_size: int, blocks: int, capacity: str, prefix_cache: bool
) -> None:
    policies = PolicySet.of(
        {"capacity": capacity, "prefix_cache": prefix_cache, "max_running": 32, "watermark": 0.0, "token_budget": 32}
    )
    stop_ids = frozenset(range(0, 500, 25))
    requests = [_beams(100 * n, prompt, width, 14, stop_ids) for n, prompt in enumerate(PROMPTS)]
    serving = _serve(tiny, requests, policies, blocks=blocks, block_size=block_size)
    _check(tiny, requests, 14)
    assert serving.copies > 0
    assert (serving.preemptions > 0) == (capacity == "max_utilization")


def _golden(smollm: LoadedModel, prompts: int, width: int, block_size: int, most: int) -> Serving:
    cases = sorted(CASES, key=lambda case: len(case.prompt_ids))[:prompts]
    requests = [_beams(100 * n, c.prompt_ids, width, most, smollm.config.eos_ids) for n, c in enumerate(cases)]
    # Room for one group, whose beams share the prompt, and not quite for two.
    alone = 0
    for case in cases:
        shared = len(case.prompt_ids) // block_size
        alone = max(alone, shared + width * (-(-(len(case.prompt_ids) + most) // block_size) - shared))
    policies = PolicySet.of({"capacity": "max_utilization", "max_running": 32, "watermark": 0.0})
    serving = _serve(smollm, requests, policies, blocks=alone + 1, block_size=block_size)
    _check(smollm, requests, most)
    assert serving.copies > 0
    return serving


@pytest.mark.model
def test_on_the_real_model(smollm: LoadedModel) -> None:
    assert _golden(smollm, 2, 4, 4, 12).preemptions > 0


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("block_size", [4, 16])
@pytest.mark.parametrize("width", [2, 4])
def test_on_all_golden_prompts(smollm: LoadedModel, width: int, block_size: int) -> None:
    assert _golden(smollm, 12, width, block_size, 16).preemptions > 0
