"""What the client makes of servers that behave, and of those that do not, over real sockets."""

import asyncio
import json
import math
from functools import partial
from typing import Any

import pytest

from kvtop.errors import UserError
from kvtop.load.arrivals import Arrivals, Closed, Recorded, Renewal
from kvtop.load.driver import Limits
from kvtop.load.plan import Plan, chats, mixed, synthetic
from kvtop.load.result import LoadResult
from kvtop.load.run import Settings, run_load
from kvtop.mixes import MIXES, Scale
from tests.load.server import STREAM_HEAD, Behaviour, Call, Server, well

SMALL = synthetic((12, 12), (5, 5), shared=0, groups=1, seed=1)


def load(
    server: Server,
    plan: Plan = SMALL,
    arrivals: Arrivals | None = None,
    *,
    requests: int = 1,
    watch: Any = None,
    **more: Any,
) -> LoadResult:
    async def both() -> LoadResult:
        async with server.running():
            settings = Settings(
                server.url, lambda _: (plan, arrivals or Closed(1)), Limits(60.0, requests, patience=5.0), **more
            )
            return await run_load(settings, on_tick=watch)

    return asyncio.run(both())


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_server_that_behaves(api: str) -> None:
    server = Server()
    result = load(server, requests=6, api=api)
    assert result.counts == {"sent": 6, "finished": 6, "failed": 0, "unfinished": 0, "warmup": 0, "overdue": 0}
    assert (result.prompt.p50, result.output.p50, result.tokens_counted_by) == (12, 5, "usage")
    assert result.cached_share == pytest.approx(1 / 12)
    assert result.finish_reasons == {"length": 6}
    assert result.ttft.count == result.tpot.count == result.latency.count == 6
    server_said = result.server
    assert (server_said.model, server_said.owner, server_said.root, server_said.context) == (
        "m",
        "test",
        "m.gguf",
        4096,
    )
    assert result.asked.prompts_exact
    body = server.calls[0].body
    assert body["ignore_eos"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert ("messages" in body, "prompt" in body) == (api == "chat", api != "chat")


def test_connections_are_used_again() -> None:
    server = Server()
    seen: list[int] = []

    async def watched(call: Call) -> None:
        seen.append(server.open_now)
        await well(call)

    server.behaviours = [watched] * 8
    load(server, requests=8)
    # Those that asked what the server is were more than one at a time; after them none is opened anew.
    assert max(seen) == min(seen) <= 4


def test_a_server_that_does_not_count_or_tokenize() -> None:
    async def bare(call: Call) -> None:
        await well(call, usage=False, done=False)

    result = load(Server(behaviours=[bare], tokenizes=False))
    assert (result.counts["finished"], result.tokens_counted_by, result.output.p50) == (1, "chunks", 5)
    assert (result.prompt.count, result.cached_share, result.rates.prompt_tokens) == (0, None, None)
    assert not result.asked.prompts_exact


def test_a_server_that_speaks_of_itself_as_llama_server_does() -> None:
    models = {"models": [{"name": "m"}], "data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 8192}}]}
    result = load(Server(models=models, like_llama=True))
    assert result.asked.prompts_exact
    assert result.prompt.p50 == 12
    assert (result.server.owner, result.server.context, result.server.version) == ("llamacpp", 2048, "b11434-x")


def test_only_fields_of_the_original_api_if_asked() -> None:
    server = Server()
    load(server, plain=True)
    assert set(server.calls[0].body) == {"model", "prompt", "max_tokens", "temperature", "stream", "stream_options"}


def test_extensions_go_only_to_our_own_engine() -> None:
    plan = mixed(MIXES["sharing"], Scale(0.01, 0.05), seed=1)
    other, own = Server(), Server(models={"data": [{"id": "m", "owned_by": "kvtop"}]})
    for server in (other, own):
        load(server, plan, requests=20)
    assert not any({"priority", "cache_salt"} & set(call.body) for call in other.calls)
    assert any("cache_salt" in call.body for call in own.calls)
    assert any("priority" in call.body for call in own.calls)
    assert {call.body.get("n", 1) for call in other.calls} == {1, 3}


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_conversation_carries_the_answers_along(api: str) -> None:
    server = Server()
    result = load(server, chats((3, 3), (4, 4), (2, 2), shared=6, groups=1, think=0, seed=2), api=api, requests=3)
    assert [row.turn for row in result.requests] == [0, 1, 2]
    if api == "chat":
        roles = [[message["role"] for message in call.body["messages"]] for call in server.calls]
        assert roles[2] == ["system", "user", "assistant", "user", "assistant", "user"]
        assert server.calls[2].body["messages"][:2] == server.calls[0].body["messages"]
        assert server.calls[2].body["messages"][2]["content"] == " w w"
    else:
        prompts = [call.body["prompt"] for call in server.calls]
        assert prompts[2].startswith(prompts[1])
        assert prompts[1].startswith(prompts[0])
    assert [row.prompt_tokens for row in result.requests] == [10, 16, 22]
    assert [call.headers["x-request-id"] for call in server.calls] == ["chat-0", "chat-0.1", "chat-0.2"]


def test_what_arrives_has_the_name_that_users_have_for_it() -> None:
    plan = chats((2, 2), (4, 4), (2, 2), shared=0, groups=1, think=0, seed=2)
    assert load(Server(), plan, Renewal(50.0)).asked.arrivals == "Poisson, 50 conversations/s"
    assert load(Server(), SMALL, Renewal(50.0)).asked.arrivals == "Poisson, 50 requests/s"


# -- servers that do not behave ----------------------------------------------------------------------------------


async def _stream(call: Call, *chunks: bytes, ends: bool = True) -> None:
    await call.send(STREAM_HEAD)
    for chunk in chunks:
        await call.chunk(chunk)
    if ends:
        await call.end()
    else:
        call.writer.close()


async def _raw(call: Call, raw: bytes) -> None:
    await call.send(raw)
    call.writer.close()


async def _silence(call: Call) -> None:
    await call.send(STREAM_HEAD)
    await call.event(call.piece(" w"))
    await asyncio.sleep(30)


PIECE = b'data: {"choices": [{"text": " w"}]}\n\n'

BAD: dict[str, tuple[Behaviour, str, str]] = {
    "queue full": (partial(Call.answer, status=429, document={"error": {"message": "too many"}}), "http_429", "too many"),
    "draining": (partial(Call.answer, status=503, document={"error": "draining"}), "http_503", "draining"),
    "a wrong field": (partial(Call.answer, status=400, document={"message": "bad n"}), "http_4xx", "bad n"),
    "no JSON in an error": (lambda call: _raw(call, b"HTTP/1.1 500 X\r\n\r\n<h1>Oh \xff\x1b[2J</h1>"), "http_5xx", "<h1>Oh"),
    "moved": (lambda call: _raw(call, b"HTTP/1.1 302 X\r\nlocation: /\r\ncontent-length: 0\r\n\r\n"), "malformed", "302"),
    "an answer, not a stream": (partial(Call.answer, status=200, document={"choices": []}), "malformed", "application/json"),
    "no HTTP": (lambda call: _raw(call, b"SSH-2.0-x\r\n\r\n"), "malformed", "not HTTP"),
    "hangs up at once": (lambda call: _raw(call, b""), "dropped", "disconnected"),
    "hangs up in mid-stream": (lambda call: _stream(call, PIECE, ends=False), "dropped", "closed"),
    "ends in mid-answer": (lambda call: _stream(call, PIECE), "dropped", "before the answer did"),
    "half an event": (lambda call: _stream(call, PIECE, PIECE[:-8]), "dropped", "before the answer did"),
    "no JSON": (lambda call: _stream(call, PIECE, b"data: {oops\n\n"), "malformed", "not JSON"),
    "deep nesting": (lambda call: _stream(call, b"data: " + b"[" * 100_000 + b"\n\n"), "malformed", "not JSON"),
    "a list": (lambda call: _stream(call, b"data: []\n\n"), "malformed", "no object"),
    "no choices": (lambda call: _stream(call, b"data: {}\n\n"), "malformed", "without choices"),
    "choices of text": (lambda call: _stream(call, b'data: {"choices": ["a"]}\n\n'), "malformed", "no object"),
    "not UTF-8": (lambda call: _stream(call, b'data: {"choices": [{"text": "\xff"}]}\n\n'), "malformed", "UTF-8"),
    "a line without end": (lambda call: _stream(call, *[b"data: " + b"x" * 1_000_000] * 5), "malformed", "more than"),
    "an error in the stream": (
        lambda call: _stream(call, PIECE, b'data: {"error": {"message": "out of memory"}}\n\n'), "reported", "out of memory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_fault_has_a_name_and_the_next_request_is_fine(how: str) -> None:
    behaviour, kind, words = BAD[how]
    result = load(Server(behaviours=[behaviour]), requests=2)
    bad, good = result.requests
    assert (bad.failure, good.failure) == (kind, None)
    assert words in bad.detail
    assert bad.detail.isprintable()
    assert bad.latency is None
    assert result.counts["failed"] == 1
    assert [failed.kind for failed in result.failures] == [kind]


def test_silence_is_waited_for_so_long_as_was_said() -> None:
    (row,) = load(Server(behaviours=[_silence]), timeout=0.5).requests
    assert (row.failure, row.detail) == ("timeout", "no complete answer within 0.5 s")


def test_pieces_cut_anywhere_are_put_together() -> None:
    async def crumbs(call: Call) -> None:
        whole = 'data: {"choices": [{"text": "é"}]}\r\n\r\ndata: {"choices": [{"text": "!", "finish_reason": "stop"}]}\n\n'.encode()
        await _stream(call, *(whole[at : at + 1] for at in range(len(whole))))

    result = load(Server(behaviours=[crumbs]))
    assert (result.counts["finished"], result.output.p50) == (1, 2)


def test_after_the_end_was_said_nothing_is_waited_for() -> None:
    async def lingers(call: Call) -> None:
        await call.send(STREAM_HEAD)
        await call.event(call.piece(" w", "length"))
        await call.event("[DONE]")
        await asyncio.sleep(30)

    assert load(Server(behaviours=[lingers]), timeout=20.0).counts["finished"] == 1


def test_a_request_is_not_done_before_its_answer_is() -> None:
    """Whoever watches sees it open as long as it is."""
    seen: list[tuple[int, float | None]] = []

    async def halts(call: Call) -> None:
        await call.send(STREAM_HEAD)
        await call.event(call.piece(" w"))
        while not any(tokens for tokens, _ in seen):
            await asyncio.sleep(0.01)
        await call.event(call.piece(" w", "length"))
        await call.end()

    result = load(
        Server(behaviours=[halts]), watch=lambda tally: seen.extend((len(s.tokens_at), s.done) for s in tally.samples)
    )
    assert result.counts["finished"] == 1
    assert all(done is None for tokens, done in seen if tokens == 1)
    assert any(tokens == 1 for tokens, _ in seen)


def test_text_without_letters_is_no_token_and_reasoning_is() -> None:
    async def thinks(call: Call) -> None:
        await call.send(STREAM_HEAD)
        for delta in (
            {"role": "assistant", "content": ""},
            {"reasoning_content": "hm"},
            {"content": "yes"},
            {"content": None},
        ):
            await call.event({"choices": [{"index": 0, "delta": delta}]})
        await call.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        await call.end()

    assert load(Server(behaviours=[thinks]), api="chat").output.p50 == 2


def test_the_token_goes_to_the_server_and_nowhere_else() -> None:
    server = Server()
    result = load(server, token="hush")
    assert server.calls[0].headers["authorization"] == "Bearer hush"
    assert "hush" not in result.dumps()


def test_nobody_there_is_one_sentence() -> None:
    settings = Settings("http://127.0.0.1:9", lambda _: (SMALL, Closed(1)), Limits(1.0))
    with pytest.raises(UserError, match="no server answers"):
        asyncio.run(run_load(settings))


def test_a_model_that_is_called_by_its_path_is_asked_for_whole() -> None:
    path = "/models/" + "snapshots/" * 30 + "model.gguf"
    server = Server(models={"data": [{"id": path, "max_model_len": 512}]})
    assert load(server).server.context == 512
    assert server.calls[0].body["model"] == path


@pytest.mark.parametrize("models", [{}, {"data": []}, {"data": "x"}, []])
def test_a_server_without_models_must_be_told_one(models: Any) -> None:
    with pytest.raises(UserError, match="lists no model"):
        load(Server(models=models))
    assert load(Server(models=models), model="mine").server.model == "mine"


@pytest.mark.parametrize(
    ("status", "words"), [(503, "serve yet, or no more: still loading"), (401, "token"), (404, "HTTP 404")]
)
def test_a_server_that_cannot_be_asked_says_why(status: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        load(Server(models={"error": {"message": "still loading"}}, models_status=status))


def test_a_server_that_lists_nothing_can_be_loaded_all_the_same() -> None:
    assert load(Server(models={}, models_status=404), model="mine").counts["finished"] == 1


@pytest.mark.parametrize("how", ["a stream", "a long one", "a slow one", "a compressed one that is none"])
def test_answers_without_end_to_what_is_asked_before_the_load_end_all_the_same(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the version, to words, and to the prompt that tells how many tokens words have."""
    monkeypatch.setattr("kvtop.load.asking.MOST_ANSWER_BYTES", 100_000)
    monkeypatch.setattr("kvtop.load.asking.ANSWER_WITHIN", 0.1)
    kind = b"text/event-stream" if how == "a stream" else b"application/json"
    coding = b"content-encoding: gzip\r\n" if how == "a compressed one that is none" else b""

    async def goes_on(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-type: " + kind + b"\r\n" + coding + b"\r\n")
        while True:
            await call.send(b" " * (10 if how == "a slow one" else 10_000))
            await asyncio.sleep(0.01 if how == "a slow one" else 0)

    result = load(Server(elsewhere=goes_on), requests=2, timeout=0.2)
    assert result.counts["finished"] == 2
    assert result.server.version is None


def test_two_hundred_at_once_are_all_sent_at_once() -> None:
    server = Server()
    most = 0

    async def holds(call: Call) -> None:
        nonlocal most
        most = max(most, len(server.calls))
        while len(server.calls) < 200:
            await asyncio.sleep(0.01)
        await well(call)

    server.behaviours = [holds] * 200
    result = load(server, arrivals=Recorded([0.0] * 200), requests=200)
    assert result.counts["finished"] == 200
    assert result.most_open == 200


def test_a_result_can_be_written_and_read(tmp_path: Any) -> None:
    from kvtop.load.result import read_result

    result = load(Server(), requests=3, bounds={"ttft": 5.0}, notes={"threads": "2"})
    path = tmp_path / "r.json"
    path.write_text(result.dumps())
    assert read_result(path) == result
    assert result.goodput is not None
    assert result.goodput.share == 1.0
    for broken, words in (
        ({"schema": "kvtop.load/9"}, "kvtop.load/9"),
        ({**json.loads(result.dumps()), "rates": 3}, "rates"),
        ({**json.loads(result.dumps()), "slices": [math.nan]}, "slices.0"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(UserError, match=words):
            read_result(path)
