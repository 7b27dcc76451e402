"""The real model over HTTP says what it says inside."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.engine.golden import CASES, Case
from tests.engine.http.kit import Serving

pytestmark = pytest.mark.model

CHAT = next(case for case in CASES if case.prompt.startswith("<|im_start|>"))


@pytest.fixture(scope="module")
def smollm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    it = Serving(tmp_path_factory.mktemp("h"), model="smollm2")
    yield it
    it.close()
    assert it.faults == []


def streamed(serving: Serving, case: Case) -> list[int]:
    asked = {"prompt": case.prompt_ids, "max_tokens": len(case.required), "temperature": 0, "return_token_ids": True}
    *chunks, done = serving.events("/v1/completions", asked)
    assert done == "[DONE]"
    return [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]


def test_golden_outputs_are_the_same_over_http(smollm: Serving) -> None:
    cases = [*CASES[:2], CHAT]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda case: streamed(smollm, case), cases)) == [case.required for case in cases]


def test_a_chat_is_the_golden_chat(smollm: Serving) -> None:
    turns = [part.partition("<|im_end|>")[0].partition("\n") for part in CHAT.prompt.split("<|im_start|>")[1:-1]]
    asked: dict[str, Any] = {
        "messages": [{"role": role, "content": content} for role, _, content in turns],
        "max_tokens": len(CHAT.required),
        "temperature": 0,
        "return_token_ids": True,
    }
    status, answer, _ = smollm.ask("/v1/chat/completions", asked)
    assert status == 200, answer
    assert answer["choices"][0]["prompt_token_ids"] == CHAT.prompt_ids
    assert answer["choices"][0]["token_ids"] == CHAT.required


def test_a_stop_string_across_tokens_and_chunks(smollm: Serving) -> None:
    """It begins within one token and ends within another; nothing of it is said, not even in part."""
    asked = {"prompt": CASES[0].prompt_ids, "max_tokens": 24, "temperature": 0}
    whole = smollm.ask("/v1/completions", asked)[1]["choices"][0]["text"]
    middle = len(whole) // 2
    stop = whole[middle - 4 : middle + 5]
    *chunks, _ = smollm.events("/v1/completions", {**asked, "stop": stop})
    texts = [chunk["choices"][0]["text"] for chunk in chunks]
    assert "".join(texts) == whole[: whole.index(stop)]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
