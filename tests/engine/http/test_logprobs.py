"""Log-probabilities in both APIs' forms: those of the engine's own outputs, one for each token, whole and streamed."""

import math
from dataclasses import replace

import openai
import pytest

from engine.http.logprobs import CompletionLogprobs, chat_logprobs, token_text
from engine.model.tokenizer import ByteTokenizer
from engine.requests.logprobs import TokenLogprob
from engine.requests.sampling import Sampling
from tests.engine.http.kit import Serving

BYTES = ByteTokenizer()


def test_a_completion_tells_those_of_the_engine(serving: Serving) -> None:
    inside = serving.server.submit(list(b"logprobs"), 6, sampling=Sampling(logprobs=3)).result(60.0)[0]
    asked = {"prompt": "logprobs", "max_tokens": 6, "temperature": 0, "logprobs": 3, "return_tokens_as_token_ids": True}
    told = serving.ask("/v1/completions", asked)[1]["choices"][0]["logprobs"]
    assert told["tokens"] == [f"token_id:{token}" for token in inside.token_ids]
    assert told["token_logprobs"] == pytest.approx([each.logprob for each in inside.logprobs])
    for tops, each in zip(told["top_logprobs"], inside.logprobs, strict=True):
        assert tops == pytest.approx({f"token_id:{token}": logprob for token, logprob in each.top})
    *chunks, _ = serving.events("/v1/completions", asked)
    pieces = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    for part, values in told.items():
        assert [value for piece in pieces for value in piece[part]] == values


def test_a_chat_tells_them_in_its_own_form(serving: Serving) -> None:
    client = openai.OpenAI(base_url=f"{serving.http.url}/v1", api_key="none", max_retries=0, timeout=60)
    answer = client.chat.completions.create(
        model="random",
        messages=[{"role": "user", "content": "hello"}],
        max_tokens=5,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
        extra_body={"ignore_eos": True},
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 5
    for each in logprobs.content:
        assert [each.logprob, each.token] == [each.top_logprobs[0].logprob, each.top_logprobs[0].token], "it was greedy"
        assert each.logprob <= 0 < math.exp(each.logprob)
        assert each.bytes is not None
    status, wrong, _ = serving.ask(
        "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}
    )
    assert (status, wrong["error"]["param"]) == (400, "top_logprobs")


def test_samples_and_beams_have_their_own(serving: Serving) -> None:
    for more in ({"n": 3, "seed": 5, "temperature": 1.5}, {"use_beam_search": True, "n": 2}):
        asked = {"prompt": "own", "max_tokens": 4, "logprobs": 0, "return_token_ids": True, "ignore_eos": True, **more}
        status, answer, _ = serving.ask("/v1/completions", asked)
        assert status == 200, answer
        for choice in answer["choices"]:
            assert len(choice["logprobs"]["tokens"]) == len(choice["token_ids"]) == 4
            assert all(len(tops) == 1 for tops in choice["logprobs"]["top_logprobs"])


def test_offsets_are_characters_of_the_text() -> None:
    ids = list("aé€b".encode())
    form = CompletionLogprobs(BYTES, as_ids=False)
    told = form.write([TokenLogprob(token, -1.0, 1) for token in ids[:4]])
    more = form.write([TokenLogprob(token, -1.0, 1) for token in ids[4:]])
    assert told["text_offset"] + more["text_offset"] == [0, 1, 1, 2, 2, 2, 3]
    assert told["tokens"][:3] == ["a", "bytes:\\xc3", "bytes:\\xa9"]


def test_tokens_that_read_alike_and_what_json_cannot_say() -> None:
    told = CompletionLogprobs(BYTES, as_ids=False).write([TokenLogprob(301, -3.0, 3, ((300, -1.0), (302, -math.inf)))])
    assert told["top_logprobs"] == [{"·": -1.0}]
    (only,) = chat_logprobs(BYTES, [TokenLogprob(0xC3, -math.inf, 500)], as_ids=False)["content"]
    assert (only["token"], only["bytes"], only["logprob"]) == ("bytes:\\xc3", [0xC3], -9999.0)


def test_special_tokens_have_their_names() -> None:
    assert token_text(BYTES, BYTES.STOP) == "<|endoftext|>"


def test_what_stopped_an_output_is_told(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"prompt": "stops", "max_tokens": 40, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    whole = serving.ask("/v1/completions", asked)[1]["choices"][0]
    assert whole["stop_reason"] is None
    for stop in ({"stop": [whole["text"][9:12]]}, {"stop_token_ids": [whole["token_ids"][7]]}):
        choice = serving.ask("/v1/completions", asked | stop)[1]["choices"][0]
        assert [choice["stop_reason"]] == next(iter(stop.values()))
        *_, last, _ = serving.events("/v1/completions", asked | stop)
        assert [last["choices"][0]["stop_reason"]] == next(iter(stop.values()))
    vocabulary = replace(serving.server.vocabulary, eos_ids=frozenset({BYTES.STOP}))
    monkeypatch.setattr(serving.server, "vocabulary", vocabulary)
    eos = serving.ask("/v1/completions", {**asked, "ignore_eos": False, "logit_bias": {"258": 100}})[1]["choices"][0]
    assert (eos["finish_reason"], eos["stop_reason"]) == ("stop", None)
