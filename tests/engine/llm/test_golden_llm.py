"""The real model in Python says what an independent implementation says, and its chats are those that it was trained on."""

import re
from collections.abc import Iterator

import pytest

from engine import LLM, SamplingParams
from tests.engine.golden import CASES

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KVTOP_SOCKET_DIR", str(tmp_path_factory.mktemp("s")))
        with LLM("smollm2", device="cpu") as made:
            yield made


def test_it_is_what_must_come(llm: LLM) -> None:
    cases = CASES[::4]
    prompts = [case.prompt_ids for case in cases]
    params = [SamplingParams(temperature=0, max_tokens=len(case.required), ignore_eos=True) for case in cases]
    for case, output in zip(cases, llm.generate(prompts, params), strict=True):
        assert output.outputs[0].token_ids == case.required, case.prompt


def test_a_chat_is_the_prompt_that_the_model_knows(llm: LLM) -> None:
    """Of the golden cases, those that are conversations: rendered by the file's own template, token by token the same."""
    found = 0
    for case in CASES:
        turns = re.findall(r"<\|im_start\|>(system|user|assistant)\n(.*?)<\|im_end\|>\n", case.prompt, re.DOTALL)
        if not turns:
            continue
        messages = [{"role": role, "content": content} for role, content in turns]
        params = SamplingParams(temperature=0, max_tokens=len(case.required), ignore_eos=True)
        (output,) = llm.chat(messages, params)
        assert output.prompt_token_ids == case.prompt_ids
        assert output.outputs[0].token_ids == case.required
        found += 1
    assert found


def test_a_seed_repeats_its_text_and_what_a_prompt_shares_is_cached(llm: LLM) -> None:
    params = SamplingParams(temperature=1.0, top_p=0.9, seed=3, max_tokens=8)
    story = "Once upon a time, in a village by the sea, there lived an old clockmaker who"
    first, again = llm.generate(story, params)[0], llm.generate(story, params)[0]
    assert first.outputs[0].text == again.outputs[0].text
    assert first.prompt == story
    assert again.num_cached_tokens == (len(again.prompt_token_ids) - 1) // 16 * 16
