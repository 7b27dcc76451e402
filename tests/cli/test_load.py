"""``kvtop load`` as it is typed."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fakes import FakeEngine, fake_hello
from tests.cli.run import assert_one_line, environment, kvtop
from tests.load.served import served as server  # noqa: F401
from tests.load.server import Server, well
from tests.publish.kit import wait_until

DATA = Path(__file__).parents[1] / "data" / "traces"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["no server named"]),
        (["ftp://x"], ["ftp://x", "URL"]),
        (["http://u:p@x"], ["password", "KVTOP_LOAD_TOKEN"]),
        (["http://127.0.0.1:9", "--rate", "0"], ["--rate"]),
        (["http://127.0.0.1:9", "--rate", "1e12"], ["--rate", "at most 1,000,000"]),
        (["http://127.0.0.1:9", "--prompt-tokens", "10000001"], ["10,000,000 at most"]),
        (["http://127.0.0.1:9", "--rate", "1", "--streams", "1"], ["--streams", "--rate"]),
        (["http://127.0.0.1:9", "--burst", "5"], ["SIZE/SECONDS"]),
        (["http://127.0.0.1:9", "--ramp", "5"], ["FROM-TO"]),
        (["http://127.0.0.1:9", "--prompt-tokens", "9-3"], ["9-3"]),
        (["http://127.0.0.1:9", "--slo", "tftt=1"], ["tftt", "ttft=S"]),
        (["http://127.0.0.1:9", "--think", "1"], ["--think", "--chats"]),
        (["http://127.0.0.1:9", "--trace", "/none"], ["/none"]),
        (["http://127.0.0.1:9", "--trace", "/none", "--mix", "mix"], ["--mix", "trace"]),
        (["http://127.0.0.1:9", "--mix", "mix", "--prompt-tokens", "3"], ["--prompt-tokens", "mix"]),
        (["http://127.0.0.1:9", "--shared-tokens", "64"], ["--shared-tokens"]),
        (["http://127.0.0.1:9", "--shared-tokens", "99999999999", "--chats", "2"], ["--shared-tokens", "10,000,000"]),
        (["http://127.0.0.1:9", "--seed", str(2**63)], ["--seed", "2^63 - 1"]),
        (["http://127.0.0.1:9", "--warmup", "40"], ["warm-up"]),
        (["http://127.0.0.1:9", "-o", "/nowhere/x.json"], ["no such folder"]),
        (["--compare", "/none", "/none"], ["/none"]),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, arguments: list[str], words: list[str]) -> None:
    assert_one_line(kvtop(folder, "load", *arguments), 2, *words)


def test_nobody_there_is_one_line(folder: Path) -> None:
    assert_one_line(
        kvtop(folder, "load", "http://127.0.0.1:9"), 1, "no server answers", "127.0.0.1:9", "Connection refused"
    )
    assert_one_line(kvtop(folder, "load", "nobody"), 1, "no engine named nobody")


@pytest.mark.parametrize(
    ("http", "words"),
    [
        (None, ("serves no HTTP", "--http")),
        ("http://127.0.0.1:9", ("no server answers at http://127.0.0.1:9",)),
        ("http://0.0.0.0:9", ("no server answers at http://127.0.0.1:9",)),
        ("http://[::]:9", ("no server answers at http://[::1]:9",)),
    ],
)
def test_an_engine_is_loaded_where_it_says_that_it_serves(
    folder: Path, http: str | None, words: tuple[str, ...]
) -> None:
    hello = fake_hello("named")
    placed = hello.model_copy(update={"engine": hello.engine.model_copy(update={"http": http})})
    with FakeEngine(folder, "named", placed) as engine:
        assert_one_line(kvtop(folder, "load", engine.name), 1, *words)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--streams", "3", "--requests", "6"],
        ["--rate", "50", "--requests", "6", "--burstiness", "0.5"],
        ["--burst", "6/1", "--requests", "6"],
        ["--ramp", "0-100", "--requests", "6", "--seconds", "2"],
        ["--mix", "sharing", "--streams", "2", "--requests", "6", "--length-scale", "0.02"],
        ["--chats", "2-3", "--streams", "2", "--requests", "6", "--think", "0", "--shared-tokens", "9"],
        ["--trace", str(DATA / "azure-2023-conv-40.csv"), "--time-scale", "0.01", "--length-scale", "0.05", "--requests", "6"],
        ["--trace", str(DATA / "mooncake-conversation-60.jsonl"), "--length-scale", "0.02", "--requests", "6", "--time-scale", "0.001"],
    ],
    ids=lambda words: words[0] + words[1].rpartition("/")[2][:6],
)  # fmt: skip
def test_each_kind_of_load_is_sent_and_told(folder: Path, server: Server, arguments: list[str]) -> None:  # noqa: F811
    done = kvtop(folder, "load", server.url, *arguments)
    assert done.returncode == 0, done.stderr
    assert "6 sent, 6 answered, 0 failed" in done.stdout
    assert max(map(len, done.stdout.split("\n\n", 1)[1].splitlines())) <= 80
    for word in ("first token", "requests offered", "sent after due", "P99"):
        assert word in done.stdout
    assert len(server.calls) == 6
    assert done.stderr == ""


def test_results_are_kept_and_compared(folder: Path, server: Server) -> None:  # noqa: F811
    files = [str(folder / name) for name in ("a.json", "b.json")]
    for name in files:
        assert kvtop(folder, "load", server.url, "--requests", "8", "-o", name, "--note", "threads=2").returncode == 0
    assert_one_line(kvtop(folder, "load", server.url, "-o", files[0]), 2, "exists")
    kept = json.loads(Path(files[0]).read_text())
    assert (kept["schema"], kept["notes"], len(kept["requests"])) == ("kvtop.load/1", {"threads": "2"}, 8)
    done = kvtop(folder, "load", "--compare", *files)
    assert done.returncode == 0
    assert "B/A" in done.stdout
    assert "95 % INTERVAL" in done.stdout
    assert "not the same" not in done.stdout


def test_a_result_does_not_tell_in_which_folder_a_server_has_its_model(folder: Path, server: Server) -> None:  # noqa: F811
    server.models = {"data": [{"id": "/home/anna/m.gguf", "root": "/home/anna/m", "max_model_len": 4096}]}
    assert kvtop(folder, "load", server.url, "--requests", "2", "-o", str(folder / "a.json")).returncode == 0
    assert {call.body["model"] for call in server.calls} == {"/home/anna/m.gguf"}
    kept = (folder / "a.json").read_text()
    assert "anna" not in kept
    assert json.loads(kept)["server"]["model"] == "m.gguf"


def test_a_result_that_cannot_be_written_leaves_no_file_and_says_which(folder: Path, server: Server) -> None:  # noqa: F811
    name = folder / "full.json"
    command = [sys.executable, "-m", "kvtop", "load", server.url, "--requests", "3", "-o", str(name)]

    def no_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))  # as a full disk: part of it can be written

    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment(folder), preexec_fn=no_room
    )
    assert_one_line(done, 1, f"cannot write {name}", "-o")
    assert "3 sent, 3 answered" in done.stdout
    assert not list(folder.glob("*.json*"))


@pytest.mark.parametrize(
    ("token", "code", "words"),
    [
        ("", 1, ["asks for a token", "KVTOP_LOAD_TOKEN"]),
        ("no", 1, ["does not take this token"]),
        ("clé", 2, ["KVTOP_LOAD_TOKEN has characters"]),
        ("a b", 2, ["KVTOP_LOAD_TOKEN has characters"]),
    ],
)
def test_a_token_that_is_asked_for(
    folder: Path,
    server: Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    token: str,
    code: int,
    words: list[str],
) -> None:
    server.models_status = 401
    monkeypatch.setenv("KVTOP_LOAD_TOKEN", token)
    assert_one_line(kvtop(folder, "load", server.url), code, *words)


@pytest.mark.parametrize("path", ["", "/", "/nope"])
def test_a_server_of_another_kind_is_named_by_the_address_that_was_asked(
    folder: Path,
    server: Server,  # noqa: F811
    path: str,
) -> None:
    server.models_status = 404
    asked = f"{server.url}{path.rstrip('/')}/v1/models"
    assert_one_line(kvtop(folder, "load", server.url + path), 1, f"kvtop: {asked} answers with HTTP 404")


def test_more_streams_than_may_be_open_are_refused(folder: Path, server: Server) -> None:  # noqa: F811
    done = kvtop(folder, "load", server.url, "--streams", "9", "--open", "8")
    assert_one_line(done, 2, "9 streams", "8 may be at a time", "--open 9")
    assert server.calls == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_gives_the_results_so_far(folder: Path, server: Server, number: int) -> None:  # noqa: F811
    command = [sys.executable, "-m", "kvtop", "load", server.url, "--streams", "2", "--seconds", "600", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(folder)) as load:
        try:
            wait_until(lambda: len(server.calls) > 10, "requests")
            os.kill(load.pid, number)
            out, _ = load.communicate(timeout=60)
        finally:
            load.kill()
    result = json.loads(out)
    assert result["stopped"]
    assert result["counts"]["finished"] > 5
    assert load.returncode == 128 + number


def test_none_answered_is_a_failure(folder: Path, server: Server) -> None:  # noqa: F811
    async def refuses(call):  # type: ignore[no-untyped-def]
        await call.answer(429, {"error": {"message": "queue full"}})

    server.behaviours = [refuses] * 5
    server._script = iter(server.behaviours)
    done = kvtop(folder, "load", server.url, "--requests", "3")
    assert done.returncode == 1
    assert "http_429 x3: HTTP 429: queue full" in done.stdout
    assert "no request was answered" in done.stderr


def test_a_load_whose_server_fails_half_of_it_is_a_failure_that_a_script_sees(
    folder: Path,
    server: Server,  # noqa: F811
) -> None:
    async def breaks(call):  # type: ignore[no-untyped-def]
        await call.answer(500, {"error": {"message": "out of order"}})

    server.behaviours = [well, breaks] * 5
    server._script = iter(server.behaviours)
    done = kvtop(folder, "load", server.url, "--requests", "4")
    assert_one_line(done, 1, "2 of 4 requests failed")
    assert "4 sent, 2 answered, 2 failed" in done.stdout
