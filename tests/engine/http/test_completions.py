"""Completions: prompts of all forms, whole and streamed, several outputs, stops, usage."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.http.kit import Serving

PATH = "/v1/completions"


def test_a_completion_is_what_the_engine_puts_out(serving: Serving) -> None:
    prompt = serving.server.tokenizer.encode("hello")  # type: ignore[union-attr]
    inside = serving.server.submit(prompt, 8).result(60.0)[0]
    asked = {"prompt": "hello", "max_tokens": 8, "temperature": 0, "return_token_ids": True}
    status, answer, headers = serving.ask(PATH, asked)
    assert status == 200
    (choice,) = answer["choices"]
    assert choice["token_ids"] == list(inside.token_ids)
    assert choice["text"] == inside.text
    assert choice["prompt_token_ids"] == prompt
    assert choice["finish_reason"] == "length"
    assert answer["object"] == "text_completion"
    assert answer["model"] == "random"
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["usage"]["total_tokens"] == 13
    assert headers["x-request-id"] == answer["id"]


def test_a_stream_says_the_same_in_pieces(serving: Serving) -> None:
    asked = {"prompt": "stream", "max_tokens": 12, "temperature": 0, "return_token_ids": True}
    whole = serving.ask(PATH, asked)[1]["choices"][0]
    *chunks, done = serving.events(PATH, asked)
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    assert [token for choice in choices for token in choice["token_ids"]] == whole["token_ids"]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)


def test_the_usage_comes_last_where_it_is_wanted_and_in_every_chunk_where_that_is(serving: Serving) -> None:
    asked = {"prompt": "usage", "max_tokens": 6, "stream_options": {"include_usage": True}}
    *chunks, last, done = serving.events(PATH, asked | {"ignore_eos": True})
    assert done == "[DONE]"
    assert last["choices"] == []
    assert (last["usage"]["prompt_tokens"], last["usage"]["completion_tokens"]) == (5, 6)
    assert all(chunk["usage"] is None for chunk in chunks)
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last, _ = serving.events(PATH, asked | {"ignore_eos": True, "stream_options": options})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == last["usage"]["completion_tokens"] == 6


def test_every_form_of_a_prompt(serving: Serving) -> None:
    def texts(prompt: object, **more: object) -> list[str]:
        status, answer, _ = serving.ask(PATH, {"prompt": prompt, "max_tokens": 4, "temperature": 0, **more})
        assert status == 200, answer
        assert [choice["index"] for choice in answer["choices"]] == list(range(len(answer["choices"])))
        return [choice["text"] for choice in answer["choices"]]

    one, other = texts("one"), texts("other one")
    assert texts(list(b"one")) == one
    assert texts(["one", "other one"]) == one + other
    assert texts([list(b"other one"), list(b"one")]) == other + one
    assert texts(["one", "other one"], n=2) == 2 * one + 2 * other


def test_the_id_that_the_client_gives_is_the_one_on_the_screen(serving: Serving) -> None:
    asked = {"prompt": "named", "max_tokens": 400, "ignore_eos": True}
    by_header = serving.open(PATH, asked | {"request_id": "mine"})
    again = serving.open(PATH, asked | {"request_id": "mine"})
    live = serving.engine.scheduler.requests
    serving.until(lambda: {request.id for request in list(live.values())} == {"mine", "mine-2"})
    by_header.close()
    again.close()
    serving.until(lambda: not live)
    status, answer, headers = serving.ask(PATH, {"prompt": "x", "max_tokens": 1}, headers={"X-Request-Id": "mine"})
    assert (status, answer["id"], headers["x-request-id"]) == (200, "mine", "mine"), "it is free again"
    for written, read in (("müde 漢".encode(), "müde 漢"), ("müde".encode("latin-1"), "müde")):
        named = {"X-Request-Id": written.decode("latin-1")}
        assert serving.ask(PATH, {"prompt": "x", "max_tokens": 1}, headers=named)[1]["id"] == read
    status, answer, _ = serving.ask(PATH, {"prompt": "x", "max_tokens": 1, "request_id": "a\nb"})
    assert (status, answer["error"]["param"]) == (400, "request_id")


def test_several_prompts_have_its_id_and_their_numbers(serving: Serving) -> None:
    raw = serving.open(
        PATH, {"prompt": ["a", "b"], "max_tokens": 400, "ignore_eos": True, "request_id": "both", "n": 2}
    )
    live = serving.engine.scheduler.requests
    serving.until(
        lambda: {request.id for request in list(live.values())} == {"both-0", "both-0.1", "both-1", "both-1.1"}
    )
    raw.close()
    serving.until(lambda: not live)
    answer = serving.ask(PATH, {"prompt": ["a", "b"], "max_tokens": 1, "request_id": "both"})[1]
    assert answer["id"] == "both"


@pytest.mark.parametrize("name", ["日本", " é ", "a: b", '"', "x" * 128])
def test_ids_of_all_characters_come_back(serving: Serving, name: str) -> None:
    asked = {"prompt": "x", "max_tokens": 1, "request_id": name}
    status, answer, headers = serving.ask(PATH, asked)
    assert (status, answer["id"]) == (200, name)
    assert headers["x-request-id"].encode("latin-1").decode() == name.strip()
    chunk, *_ = serving.events(PATH, asked)
    assert chunk["id"] == name


def test_a_prefix_that_was_computed_is_told_as_cached(serving: Serving) -> None:
    asked = {"prompt": "p" * 70, "max_tokens": 2, "cache_salt": "of this test"}
    first = serving.ask(PATH, asked)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    second = serving.ask(PATH, asked)[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    other = serving.ask(PATH, asked | {"cache_salt": "another"})[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert (first, second, other) == (0, 64, 0)


def test_stops(serving: Serving) -> None:
    asked = {"prompt": "stops", "max_tokens": 40, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
    whole = serving.ask(PATH, asked)[1]["choices"][0]
    word = whole["text"][9:12]
    stopped = serving.ask(PATH, asked | {"stop": word})[1]["choices"][0]
    assert stopped["text"] == whole["text"][: whole["text"].index(word)]
    assert stopped["finish_reason"] == "stop"
    token = whole["token_ids"][7]
    by_token = serving.ask(PATH, asked | {"stop_token_ids": [token]})[1]["choices"][0]
    assert by_token["token_ids"] == whole["token_ids"][: whole["token_ids"].index(token) + 1]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 30), st.integers(1, 12), st.integers(1, 3))
def test_no_part_of_a_stop_string_is_said_wherever_tokens_and_chunks_end(
    serving: Serving, start: int, length: int, more: int
) -> None:
    letters = {str(token): 100 for token in b"abc"}  # few, so that beginnings of stop strings are everywhere
    asked = {"prompt": "borders", "max_tokens": 40, "seed": 3, "logit_bias": letters, "logprobs": 0}
    whole = serving.ask(PATH, asked)[1]["choices"][0]["text"]
    stop = whole[start : start + length]
    others = [stop + "never" * number for number in range(1, more)]
    *chunks, done = serving.events(PATH, {**asked, "stop": [*others, stop]})
    choices = [chunk["choices"][0] for chunk in chunks]
    assert "".join(choice["text"] for choice in choices) == whole[: whole.index(stop)]
    assert (choices[-1]["finish_reason"], choices[-1]["stop_reason"], done) == ("stop", stop, "[DONE]")
    offsets = [offset for choice in choices for offset in choice["logprobs"]["text_offset"]]
    assert offsets == list(range(len(offsets))), "of tokens whose text is held back too"


def test_a_seed_makes_samples_the_same_again_and_unlike_each_other(serving: Serving) -> None:
    asked = {"prompt": "seeds", "max_tokens": 12, "seed": 7, "n": 3, "temperature": 1.5}
    first, second = (serving.ask(PATH, asked)[1]["choices"] for _ in range(2))
    assert [choice["text"] for choice in first] == [choice["text"] for choice in second]
    assert len({choice["text"] for choice in first}) == 3


def test_a_beam_search_answers_with_its_best(serving: Serving) -> None:
    prompt = list(b"beams")
    inside = serving.server.submit(prompt, 6, beam=4).result(60.0)
    asked = {"prompt": prompt, "max_tokens": 6, "use_beam_search": True, "beam_width": 4, "n": 2}
    status, answer, _ = serving.ask(PATH, asked)
    assert status == 200, answer
    assert [choice["text"] for choice in answer["choices"]] == [output.text for output in inside[:2]]
    assert answer["usage"]["completion_tokens"] == 12


def test_priority_retention_and_salt_reach_the_engine(serving: Serving) -> None:
    keep = [{"start": 0, "end": 16, "priority": 90, "seconds": 5}]
    more = {"priority": -3, "retention": keep, "cache_salt": "s", "request_id": "kept"}
    raw = serving.open(PATH, {"prompt": "x" * 20, "max_tokens": 400, "ignore_eos": True, **more})
    live = serving.engine.scheduler.requests
    serving.until(lambda: live)
    (request,) = live.values()
    assert (request.priority, request.cache_salt, request.retention[0].priority) == (-3, "s", 90)
    raw.close()
    serving.until(lambda: not live)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -1),
        ("temperature", "hot"),
        ("top_p", 0),
        ("top_p", 1.5),
        ("top_k", -2),
        ("min_p", 2),
        ("n", 0),
        ("n", 65),
        ("n", 20_000),
        ("n", True),
        ("best_of", 3),
        ("max_tokens", 0),
        ("max_tokens", 10**6),
        ("max_tokens", 2.5),
        ("presence_penalty", 3),
        ("frequency_penalty", -2.5),
        ("repetition_penalty", 0),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"7": "much"}),
        ("logprobs", 99),
        ("seed", 1 << 70),
        ("stop", 7),
        ("stop", [""]),
        ("stop_token_ids", [10**6]),
        ("prompt", []),
        ("prompt", ""),
        ("prompt", {}),
        ("prompt", [1, "a"]),
        ("prompt", [[1], []]),
        ("prompt", [-1]),
        ("prompt", [512]),
        ("priority", 1 << 40),
        ("retention", [{"priority": 101}]),
        ("retention", [7]),
        ("cache_salt", "s" * 300),
        ("request_id", "r" * 129),
        ("stream", "yes"),
        ("stream_options", []),
        ("echo", True),
        ("suffix", "end"),
        ("tools", [{}]),
        ("response_format", {"type": "json_object"}),
        ("guided_json", {}),
        ("prompt_logprobs", 1),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_name(serving: Serving, field: str, value: object) -> None:
    status, answer, _ = serving.ask(PATH, {"prompt": "x", "max_tokens": 1, field: value})
    assert status == 400, answer
    error = answer["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] is not None
    assert error["param"].partition("[")[0].partition(".")[0] == field
    assert field in error["message"]


def test_fields_that_change_nothing_are_let_pass(serving: Serving) -> None:
    harmless = {"user": "u", "logprobs": None, "echo": False, "tools": [], "best_of": 1, "anything": {"a": 1}}
    assert serving.ask(PATH, {"prompt": "x", "max_tokens": 1, **harmless})[0] == 200


def test_another_model_is_not_found(serving: Serving) -> None:
    status, answer, _ = serving.ask(PATH, {"model": "gpt-5", "prompt": "x"})
    assert (status, answer["error"]["param"], answer["error"]["code"]) == (404, "model", "model_not_found")
