"""Chats: the model's template, whole and streamed, and what a conversation finds of itself in the cache."""

import pytest

from tests.engine.http.kit import Serving

PATH = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello"}]


def test_a_chat_is_the_template_of_its_messages(serving: Serving) -> None:
    tokenizer = serving.server.tokenizer
    assert tokenizer is not None
    assert tokenizer.chat_template is not None
    prompt = tokenizer.encode_chat(tokenizer.chat_template.render(HELLO))
    inside = serving.server.submit(prompt, 8).result(60.0)[0]
    asked = {"messages": HELLO, "max_completion_tokens": 8, "temperature": 0, "return_token_ids": True}
    status, answer, _ = serving.ask(PATH, asked)
    assert status == 200, answer
    (choice,) = answer["choices"]
    assert answer["object"] == "chat.completion"
    assert choice["message"] == {"role": "assistant", "content": inside.text, "refusal": None}
    assert (choice["token_ids"], choice["prompt_token_ids"]) == (list(inside.token_ids), prompt)
    assert answer["usage"]["prompt_tokens"] == len(prompt)


def test_a_stream_opens_with_the_role_and_says_the_same(serving: Serving) -> None:
    asked = {"messages": HELLO, "max_tokens": 8, "temperature": 0, "n": 2}
    whole = serving.ask(PATH, asked)[1]["choices"]
    *chunks, done = serving.events(PATH, asked)
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    for index in (0, 1):
        deltas = [each for chunk in chunks for each in chunk["choices"] if each["index"] == index]
        assert deltas[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(each["delta"]["content"] for each in deltas) == whole[index]["message"]["content"]
        assert [each["finish_reason"] for each in deltas if each["finish_reason"]] == ["length"]


def test_without_a_limit_it_may_take_what_the_context_has_room_for(serving: Serving) -> None:
    raw = serving.open(PATH, {"messages": HELLO, "ignore_eos": True})
    live = serving.engine.scheduler.requests
    serving.until(lambda: live)
    (request,) = live.values()
    assert request.total_limit == serving.engine.scheduler.max_model_len
    raw.close()
    serving.until(lambda: not live)


def test_parts_of_type_text_are_one_text(serving: Serving) -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    told = serving.ask("/tokenize", {"messages": [{"role": "user", "content": parts}]})[1]["tokens"]
    assert told == serving.ask("/tokenize", {"messages": [{"role": "user", "content": "hel\nlo"}]})[1]["tokens"]


def test_the_second_turn_finds_the_first_in_the_cache(serving: Serving) -> None:
    turns = [{"role": "user", "content": "a long question " * 5}]
    asked = {"max_tokens": 20, "temperature": 0, "ignore_eos": True, "cache_salt": "turns"}
    first = serving.ask(PATH, asked | {"messages": turns})[1]
    said = first["choices"][0]["message"]["content"]
    turns += [{"role": "assistant", "content": said}, {"role": "user", "content": "and?"}]
    second = serving.ask(PATH, asked | {"messages": turns})[1]
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= first["usage"]["prompt_tokens"] // 16 * 16 > 0


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        ("hello", "messages"),
        ([7], "messages[0]"),
        ([{"role": "pope", "content": "x"}], "messages[0].role"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 7}], "messages[0].content"),
        ([{"role": "user", "content": "x", **{f"field {n}": n for n in range(63)}}], "messages[0]"),
        (
            [*HELLO, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "messages[1].content[0].type",
        ),
        ([{"role": "user", "content": "\ud800"}], "messages[0].content"),
    ],
)
def test_messages_that_cannot_be_read_are_refused_by_their_place(
    serving: Serving, messages: object, param: str
) -> None:
    status, answer, _ = serving.ask(PATH, {"messages": messages, "max_tokens": 1})
    assert (status, answer["error"]["param"]) == (400, param), answer
    assert answer["error"]["message"].startswith(param)


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt", "bos_token"])
def test_variables_of_the_template_that_are_not_the_askers(serving: Serving, name: str) -> None:
    status, answer, _ = serving.ask(PATH, {"messages": HELLO, "chat_template_kwargs": {name: "x"}, "max_tokens": 1})
    assert status == 400, answer


def test_tokens_and_text(serving: Serving) -> None:
    status, told, _ = serving.ask("/tokenize", {"prompt": "héllo", "return_token_strs": True})
    assert status == 200
    assert told["tokens"] == list("héllo".encode())
    assert (told["count"], told["max_model_len"]) == (6, serving.engine.scheduler.max_model_len)
    assert told["token_strs"][:2] == ["h", "bytes:\\xc3"]
    assert serving.ask("/detokenize", {"tokens": told["tokens"]})[1] == {"prompt": "héllo"}
    assert serving.ask("/detokenize", {"tokens": [512]})[1]["error"]["param"] == "tokens[0]"
    assert serving.ask("/tokenize", {})[1]["error"]["param"] == "prompt"
