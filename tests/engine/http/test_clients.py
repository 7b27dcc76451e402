"""Clients that people have: the openai package, curl, and the requests of vLLM's serving benchmark."""

import json
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.engine.http.kit import Serving

HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def client(serving: Serving) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{serving.http.url}/v1", api_key="none", max_retries=0, timeout=60)


def test_the_openai_package_completes(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="random", prompt="hello", max_tokens=5, temperature=0)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 5
    pieces = client.completions.create(model="random", prompt="hello", max_tokens=5, temperature=0, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == answer.choices[0].text


def test_the_openai_package_chats(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "random", "messages": HELLO, "max_tokens": 6, "temperature": 0, "seed": 1}
    answer = client.chat.completions.create(**asked)
    said = answer.choices[0].message.content
    pieces = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == said
    assert pieces[-1].usage is not None
    assert pieces[-1].usage.completion_tokens == answer.usage.completion_tokens  # type: ignore[union-attr]
    with client.chat.completions.stream(**{k: v for k, v in asked.items() if k != "seed"}) as stream:
        assert "".join(event.delta for event in stream if event.type == "content.delta") == said


def test_the_openai_package_may_close_a_stream(serving: Serving, client: openai.OpenAI) -> None:
    pieces = client.completions.create(
        model="random", prompt="closed", max_tokens=3000, stream=True, extra_body={"ignore_eos": True}
    )
    next(iter(pieces))
    assert serving.engine.scheduler.requests
    pieces.close()
    serving.until(lambda: serving.idle)


def test_the_openai_package_lists_models_and_gives_ids(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["random"]
    assert client.models.retrieve("random").id == "random"
    answer = client.chat.completions.create(
        model="random", messages=HELLO, max_tokens=1, extra_headers={"X-Request-Id": "of-openai"}
    )
    assert answer.id == "of-openai"
    assert answer._request_id == "of-openai"


def test_the_openai_package_is_told_what_is_wrong(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(model="random", messages=HELLO, temperature=-1)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.NotFoundError) as missing:
        client.completions.create(model="other", prompt="x")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="tools"):
        client.chat.completions.create(
            model="random", messages=HELLO, tools=[{"type": "function", "function": {"name": "f"}}]
        )


@pytest.mark.parametrize("chat", [False, True])
def test_a_plain_curl_streams(serving: Serving, chat: bool) -> None:
    path, what = ("/v1/chat/completions", {"messages": HELLO}) if chat else ("/v1/completions", {"prompt": "hello"})
    body = json.dumps({**what, "max_tokens": 5, "stream": True, "ignore_eos": True})
    done = subprocess.run(
        ["curl", "-sSN", serving.http.url + path, "-H", "Content-Type: application/json", "-d", body],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    events = done.stdout.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: {") for event in events[:-2])


def test_the_readmes_curl_works_as_it_is_written(serving: Serving) -> None:
    text = (Path(__file__).parents[3] / "README.md").read_text().split("## Chat with it")[1].split("```")[1]
    command = text[text.index("curl -N") :].strip()
    assert "http://127.0.0.1:8000/" in command
    command = command.replace("http://127.0.0.1:8000", serving.http.url).replace("curl", "curl -sS", 1)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert '"id":"mine"' in done.stdout
    assert done.stdout.endswith("data: [DONE]\n\n")


def test_curl_without_a_type_is_told_how(serving: Serving) -> None:
    done = subprocess.run(
        ["curl", "-s", f"{serving.http.url}/v1/completions", "-d", "{}"], capture_output=True, text=True, timeout=60
    )
    assert "Content-Type: application/json" in json.loads(done.stdout)["error"]["message"]


def test_the_requests_of_vllms_serving_benchmark(serving: Serving) -> None:
    """It counts a token when a chunk has choices, and takes the number of output tokens from the usage at the end."""
    common = {
        "model": "random",
        "temperature": 0.0,
        "repetition_penalty": 1.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }
    completion = {"prompt": "benchmark", "max_tokens": 16, "logprobs": None, **common}
    content = [{"type": "text", "text": "benchmark"}]
    chat = {"messages": [{"role": "user", "content": content}], "max_completion_tokens": 16, **common}
    for path, body in (("/v1/completions", completion), ("/v1/chat/completions", chat)):
        *chunks, last, done = serving.events(path, body)
        assert done == "[DONE]"
        assert all(chunk["choices"] for chunk in chunks)
        assert not last["choices"]
        assert last["usage"]["completion_tokens"] == 16
        if path.endswith("/chat/completions"):
            assert all(chunk["choices"][0]["delta"]["content"] is not None for chunk in chunks)
        else:
            assert all(isinstance(chunk["choices"][0]["text"], str) for chunk in chunks)
