"""Log-probabilities of served outputs against a model that recomputes every prefix whole, in float64 from its logits on."""

from collections.abc import Sequence

import pytest
import torch

from engine.model.load import LoadedModel, random_model
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.requests.sampling import Sampling
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from tests.engine.dense import dense_logits
from tests.engine.golden import CASES
from tests.engine.served import Serving, make_request, make_runner

CLOSE = 1e-4

CHANGED = Sampling(
    temperature=1.3,
    top_k=40,
    min_p=0.001,
    presence_penalty=0.5,
    frequency_penalty=0.2,
    repetition_penalty=1.1,
    logit_bias={5: 3.0},
    seed=4,
    logprobs=5,
)
"""What is told is the model's own opinion, whatever a request makes of it."""


def check(model: LoadedModel, request: Request) -> None:
    assert request.logprobs is not None
    assert len(request.logprobs) == request.output_tokens > 0
    for place, found in enumerate(request.logprobs, start=request.prompt_tokens):
        with torch.inference_mode():
            (logits,) = dense_logits(model, [request.token_ids[:place]])
        expected = torch.log_softmax(logits.double(), dim=-1)
        assert found.token_id == request.token_ids[place]
        assert found.logprob == pytest.approx(float(expected[found.token_id]), abs=CLOSE)
        assert int((expected > found.logprob + CLOSE).sum()) < found.rank
        assert found.rank <= int((expected > found.logprob - CLOSE).sum())
        assert len(found.top) == request.sampling.logprobs
        assert [value for _, value in found.top] == pytest.approx(
            expected.topk(len(found.top)).values.tolist(), abs=CLOSE
        )
        assert [value for _, value in found.top] == pytest.approx([float(expected[t]) for t, _ in found.top], abs=CLOSE)
    assert request.log_probability == pytest.approx(sum(each.logprob for each in request.logprobs))


def asked(prompts: Sequence[Sequence[int]], most: int) -> list[Request]:
    """Greedy, changed, two samples and three beams, each of a prompt of its own."""
    greedy, changed, several, beams = (
        make_request(10 * num, prompt, most, sampling=sampling)
        for num, (prompt, sampling) in enumerate(
            zip(prompts, (Sampling(logprobs=0), CHANGED, CHANGED, Sampling(logprobs=8)), strict=True)
        )
    )
    add_samples(several, [21])
    add_beams(beams, [31, 32])
    return [greedy, changed, several, beams]


def serve(model: LoadedModel, requests: Sequence[Request], *, blocks: int, block_size: int) -> Serving:
    policies = PolicySet(watermark=0.0, token_budget=16)
    serving = Serving(make_runner(model, blocks=blocks, block_size=block_size), policies, blocks=blocks)
    each = [member for request in requests for member in (request, *request.samples)]
    serving.serve(requests)
    for request in each:
        check(model, request)
    return serving


@pytest.mark.parametrize("blocks", [80, 17])
def test_on_a_random_model(blocks: int) -> None:
    prompts = [[7 * i % 199 + number for i in range(length)] for number, length in enumerate((5, 8, 11, 18))]
    serving = serve(random_model(seed=3), asked(prompts, 14), blocks=blocks, block_size=4)
    assert (serving.preemptions > 0) == (blocks == 17)


@pytest.mark.model
def test_on_the_demo_model(smollm: LoadedModel) -> None:
    prompts = [smollm.tokenizer.encode(case.prompt)[:10] for case in CASES[:4]]
    serve(smollm, asked(prompts, 5), blocks=40, block_size=4)
