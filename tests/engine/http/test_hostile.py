"""Clients that mean no good, or break: each gets an error or is let go, and nobody else notices."""

import gzip
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from engine.http.chat import ChatRequest
from engine.http.completions import CompletionRequest
from engine.http.settings import HttpLimits
from engine.http.tokens import DetokenizeRequest, TokenizeRequest
from engine.http.work import _WORKERS
from tests.engine.http.kit import PATIENCE, Serving

PATH = "/v1/completions"
LIMITS = HttpLimits(body_bytes=20_000, header_seconds=1.0, body_seconds=1.0, idle_seconds=1.0)


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """With deadlines that a test can wait for."""
    it = Serving(tmp_path_factory.mktemp("h"), LIMITS, max_running=64)
    yield it
    it.until(lambda: it.idle)
    it.close()
    assert it.faults == []


@pytest.fixture
def bystander(hurried: Serving) -> Iterator[None]:
    """Somebody else's stream, begun before and read to its end after: all of it comes."""
    asked = {"prompt": "bystander", "max_tokens": 300, "ignore_eos": True, "stream_options": {"include_usage": True}}
    stream = hurried.events(PATH, asked)
    next(stream)
    yield
    *_, last, done = stream
    assert (last["usage"]["completion_tokens"], done) == (300, "[DONE]")


def answer_of(raw: socket.socket) -> tuple[int, Any]:
    """Status and JSON of what comes until the other side ends it; (0, None): nothing came."""
    raw.settimeout(PATIENCE)
    data = b""
    while True:
        try:
            piece = raw.recv(65536)
        except ConnectionResetError:
            piece = b""
        if not piece:
            break
        data += piece
        head, gap, body = data.partition(b"\r\n\r\n")
        told = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), None)
        if gap and told is not None and len(body) >= int(told.partition(b":")[2]):
            break
    if not data:
        return 0, None
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def connect(serving: Serving) -> socket.socket:
    return socket.create_connection(("127.0.0.1", serving.port), PATIENCE)


HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'"x"', "must be a JSON object"),
        (b'{"prompt": "\xff"}', "not UTF-8: byte 12 is 0xff"),
        (b"\xff\xfe{\0}\0", "not UTF-8"),
        (b'{"prompt": "\\ud800"}', "prompt: U+D800 is half of a surrogate pair"),
        (b'{"prompt": "x", "temperature": NaN}', "temperature: nan is not a finite number"),
        (b'{"prompt": "x", "top_p": Infinity}', "top_p: inf is not a finite number"),
        (b'{"prompt": "x", "temperature": 1e999}', "temperature: inf is not a finite number"),
        (b'{"prompt": "x", "metadata": {"a": [1, {"b": -Infinity}]}}', "metadata.a[1].b: -inf"),
        (b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"prompt": "x", "n": ' + b"9" * 4299 + b"}", "n: a number of 14281 bits"),
        (b'{"prompt": [1, -' + b"9" * 4299 + b"]}", "prompt[1]: a number of"),
        (b'{"prompt": ' + b"[" * 9000 + b"]" * 9000 + b"}", "deeper than 32 levels"),
        (b'{"prompt": "x", "a": ' + b"[" * 40 + b"]" * 40 + b"}", "deeper than 32 levels"),
        (b'{"prompt": "x", "a": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}", "deeper than 32 levels"),
        (b'{"prompt": "x", "prompt": 7}', "prompt: "),
        (b'{"prompt": ["' + b'a","' * 2000 + b'b"]}', "2001 outputs are too many"),
        (b'{"prompt": "' + b"a" * 9000 + b'"}', "9000 tokens are too many"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bodies_that_are_none(serving: Serving, body: bytes, words: str) -> None:
    status, answer, _ = serving.ask(PATH, body)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert words in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 400


@pytest.mark.usefixtures("bystander")
def test_a_body_that_is_too_large_by_its_own_word_or_by_its_length(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b"Content-Length: 10485760\r\n\r\n" + b"a" * 1000)
    status, answer = answer_of(raw)
    raw.close()
    assert (status, answer["error"]["code"]) == (413, "body_too_large")
    raw = connect(hurried)
    raw.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    try:
        for _ in range(10):
            raw.sendall(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
    except OSError:
        pass  # it has been let go meanwhile
    status, answer = answer_of(raw)
    raw.close()
    assert status in (0, 413)
    assert hurried.http.gate.body_bytes == 0


def test_a_compressed_body_is_told_what_it_should_be(serving: Serving) -> None:
    status, answer, _ = serving.ask(PATH, gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert (status, answer["error"]["code"]) == (415, "content_encoding")


def test_ten_megabytes_are_refused_in_words_that_a_client_reads(serving: Serving) -> None:
    status, answer, _ = serving.ask(PATH, b'{"prompt": "' + b"a" * (10 << 20) + b'"}')
    assert (status, answer["error"]["code"]) == (413, "body_too_large")


@pytest.mark.usefixtures("bystander")
def test_half_a_chunk_and_then_nothing(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b'Transfer-Encoding: chunked\r\n\r\n20\r\n{"prompt"')
    status, answer = answer_of(raw)
    raw.close()
    assert (status, answer["error"]["code"]) == (408, "body_timeout")


@pytest.mark.usefixtures("bystander")
def test_half_a_chunk_and_then_gone(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b'Transfer-Encoding: chunked\r\n\r\n20\r\n{"prompt"')
    hurried.until(lambda: hurried.http.gate.body_bytes == len('{"prompt"'))
    raw.close()
    hurried.until(lambda: hurried.http.gate.body_bytes == 0)


@pytest.mark.usefixtures("bystander")
def test_a_chunk_that_is_none(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    status, answer = answer_of(raw)
    raw.close()
    assert (status, answer["error"]["code"]) == (400, "http")


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/comp", HEAD, HEAD + b"X-A: b\r\n"], ids=["nothing", "line", "head", "more"]
)
def test_headers_that_never_end_end_the_connection(hurried: Serving, sent: bytes) -> None:
    raw = connect(hurried)
    raw.sendall(sent)
    assert answer_of(raw) == (0, None)
    raw.close()


@contextmanager
def dripping(raw: socket.socket, drop: bytes) -> Iterator[None]:
    """A little more, again and again."""
    enough = threading.Event()

    def drip() -> None:
        try:
            while not enough.wait(0.02):
                raw.sendall(drop)
        except OSError:
            pass

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    yield
    enough.set()
    thread.join(PATIENCE)
    raw.close()


@pytest.mark.usefixtures("bystander")
def test_headers_that_drip_end_the_connection_too(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD)
    with dripping(raw, b"X-A: b\r\n"):
        assert answer_of(raw) == (0, None)


@pytest.mark.usefixtures("bystander")
def test_so_do_those_of_a_second_request(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer_of(raw)[0] == 200
    raw.sendall(HEAD)
    with dripping(raw, b"X-A: b\r\n"):
        assert answer_of(raw) == (0, None)


def test_a_connection_on_which_nothing_follows_is_ended(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer_of(raw)[0] == 200
    assert answer_of(raw) == (0, None)
    raw.close()


@pytest.mark.usefixtures("bystander")
def test_a_body_that_goes_on_after_its_answer_ends_the_connection(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b"Content-Length: 10485760\r\n\r\n")
    assert answer_of(raw)[0] == 413
    with dripping(raw, b"a" * 100):
        assert answer_of(raw) == (0, None)


@pytest.mark.usefixtures("bystander")
def test_a_body_that_drips_has_the_time_of_any_body(hurried: Serving) -> None:
    raw = connect(hurried)
    raw.sendall(HEAD + b"Content-Length: 10000\r\n\r\n")
    with dripping(raw, b" "):
        assert answer_of(raw)[0] == 408


def test_bodies_that_drip_keep_no_place_from_a_request_that_has_come(tmp_path: Path) -> None:
    """As many of them as there are places."""
    it = Serving(tmp_path, HttpLimits(requests=3))
    drips = [connect(it) for _ in range(3)]
    try:
        for raw in drips:
            raw.sendall(HEAD + b"Content-Length: 10000\r\n\r\n" + b" " * 100)
        it.until(lambda: it.http.gate.body_bytes == 300)
        status, answer, _ = it.ask(PATH, {"prompt": "x", "max_tokens": 1})
        assert status == 200, answer
        rest = json.dumps({"prompt": "x", "max_tokens": 4000, "ignore_eos": True}).encode().rjust(9900)
        for raw in drips:
            raw.sendall(rest)
        it.until(lambda: it.http.gate.active == 3)
        late = connect(it)
        late.sendall(HEAD + b"Content-Length: 10000\r\n\r\n")  # it is not asked for the rest
        assert answer_of(late)[0] == 429
        late.close()
    finally:
        for raw in drips:
            raw.close()
        it.close()
    assert it.faults == []


@pytest.mark.usefixtures("bystander")
def test_a_flood_of_headers(hurried: Serving) -> None:
    raw = connect(hurried)
    try:
        for number in range(4000):
            raw.sendall(f"X-{number}: {'a' * 100}\r\n".encode() if number else HEAD)
    except OSError:
        pass
    assert answer_of(raw)[0] in (0, 400)
    raw.close()


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / FTP/1.1\r\n\r\n", b"\0" * 100 + b"\r\n\r\n", HEAD + b"a b: c\r\n\r\n"],
    ids=["tls", "word", "version", "zeros", "name"],
)  # fmt: skip
def test_what_is_no_http_is_told_so(serving: Serving, sent: bytes) -> None:
    raw = connect(serving)
    raw.sendall(sent)
    raw.shutdown(socket.SHUT_WR)
    status, answer = answer_of(raw)
    raw.close()
    assert (status, answer["error"]["code"]) == (400, "http")


def test_too_many_connections_are_told_so_and_the_others_go_on(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(connections=5))
    try:
        stream = it.events(PATH, {"prompt": "before", "max_tokens": 50, "ignore_eos": True})
        next(stream)
        silent = [connect(it) for _ in range(4)]
        it.until(lambda: it.http.connections == 5)
        late = connect(it)
        status, answer = answer_of(late)
        assert (status, answer["error"]["code"]) == (503, "connections")
        assert list(stream)[-1] == "[DONE]"
        for raw in (*silent, late):
            raw.close()
        it.until(lambda: not it.http.connections)
        assert it.ask("/health", method="GET")[0] == 200
    finally:
        it.close()


def test_many_large_bodies_at_once_have_no_room(tmp_path: Path) -> None:
    it = Serving(tmp_path, HttpLimits(body_bytes=20_000, bodies_bytes=60_000))
    half = HEAD + b"Content-Length: 19990\r\n\r\n" + b" " * 19000
    try:
        halves = [connect(it) for _ in range(3)]
        for raw in halves:
            raw.sendall(half)
        it.until(lambda: it.http.gate.body_bytes == 57_000)
        late = connect(it)
        late.sendall(half)
        assert answer_of(late)[0] == 429
        for raw in (*halves, late):
            raw.close()
        it.until(lambda: not it.http.gate.body_bytes)
    finally:
        it.close()
    assert it.faults == []


def test_bodies_that_wait_to_be_taken_apart_take_room_too(tmp_path: Path) -> None:
    """All of each has come, and nobody has got to it."""
    it = Serving(tmp_path, HttpLimits(body_bytes=20_000, bodies_bytes=60_000))
    body = json.dumps({"prompt": "x", "max_tokens": 1}).encode().ljust(19_000)
    free = threading.Event()
    try:
        for _ in range(2):  # the workers have something else to do
            _WORKERS.submit(free.wait, PATIENCE)
        waiting = [connect(it) for _ in range(3)]
        for raw in waiting:
            raw.sendall(HEAD + b"Content-Length: 19000\r\n\r\n" + body)
        it.until(lambda: it.http.gate.body_bytes == 57_000)
        status, answer, _ = it.ask(PATH, body)
        assert (status, answer["error"]["code"]) == (429, "busy")
        status, answer, _ = it.ask("/tokenize", body)
        assert (status, answer["error"]["code"]) == (429, "busy")
        free.set()
        assert [answer_of(raw)[0] for raw in waiting] == [200] * 3
        it.until(lambda: not it.http.gate.body_bytes)
    finally:
        free.set()
        it.close()
    assert it.faults == []


def test_the_other_end_of_a_place_that_is_not_there(serving: Serving) -> None:
    for method, path, code in (
        ("GET", "/", 404), ("POST", "/v2/completions", 404), ("GET", PATH, 405), ("DELETE", "/health", 405),
        ("GET", "/v1/models/none", 404), ("GET", "/%00", 404), ("GET", "/..%2f..%2fetc/passwd", 404),
    ):  # fmt: skip
        status, answer, headers = serving.ask(path, None, method=method)
        assert status == code
        assert set(answer["error"]) == {"message", "type", "param", "code"}
        assert headers["content-type"] == "application/json"


def test_a_list_is_read_up_to_its_first_fault() -> None:
    """A body has room for two million of them, and a kilobyte each is told with is gigabytes."""
    for kind in (CompletionRequest, ChatRequest, TokenizeRequest, DetokenizeRequest):
        for field in kind.model_fields:
            for wrong in ({}, None, [{}], "x", 1, []):
                asked = {"prompt": "x", "messages": [], "tokens": [], field: [wrong] * 1000}
                assert _faults(kind, asked) < 10, (kind, field, wrong)


def _faults(kind: type[BaseModel], asked: dict[str, Any]) -> int:
    try:
        kind.model_validate(asked)
    except ValidationError as error:
        return error.error_count()
    return 0


def test_models_are_listed_at_a_path_with_a_slash_behind_too(serving: Serving) -> None:
    assert serving.ask("/v1/models/", method="GET")[1] == serving.ask("/v1/models", method="GET")[1]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "prompt", "messages", "model", "n", "best_of", "stream", "stream_options", "max_tokens", "max_completion_tokens",
        "min_tokens", "stop", "stop_token_ids", "seed", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
        "frequency_penalty", "repetition_penalty", "logit_bias", "logprobs", "top_logprobs", "ignore_eos", "use_beam_search",
        "beam_width", "length_penalty", "priority", "cache_salt", "retention", "request_id", "return_token_ids", "echo",
        "suffix", "tools", "tool_choice", "response_format", "chat_template_kwargs", "add_generation_prompt",
    ]
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(FIELDS, ANYTHING, max_size=5), st.booleans())
def test_any_body_gets_an_answer_or_is_told_what_is_wrong(serving: Serving, fields: dict[str, Any], chat: bool) -> None:
    asked = {"max_tokens": 2, "messages": [{"role": "user", "content": "x"}], "prompt": "x", **fields}
    path = "/v1/chat/completions" if chat else PATH
    status, text, _ = serving.ask_raw(path, asked)
    assert status in (200, 400, 404), text
    if status != 200:
        assert set(json.loads(text)["error"]) == {"message", "type", "param", "code"}
    assert serving.faults == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_get_an_answer(serving: Serving, data: bytes) -> None:
    status, text, _ = serving.ask_raw(PATH, data)
    assert status == 400
    assert json.loads(text)["error"]["message"]
