"""``kvtop bench`` as it is typed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.run import assert_one_line, environment, kvtop
from tests.load.served import served  # noqa: F401
from tests.load.server import Call, Server, well
from tests.publish.kit import wait_until


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["KIND"]),
        (["serving", "--threads", "0"], ["--threads"]),
        (["serving", "--streams", "1,1"], ["--streams", "different"]),
        (["serving", "http://127.0.0.1:9", "--threads", "2"], ["--threads", "--note"]),
        (["serving", "-o", "/nowhere/x"], ["no such folder"]),
        (["serving", "--output-tokens", "99999999999"], ["--output-tokens", "10,000,000"]),
        (["compare", "http://127.0.0.1:9"], ["one server"]),
        (["compare", "a=http://127.0.0.1:9", "a=http://127.0.0.1:8"], ["named twice"]),
    ],
)
def test_wrong_usage_is_one_line(folder: Path, arguments: list[str], words: list[str]) -> None:
    assert_one_line(kvtop(folder, "bench", *arguments), 2, *words)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_servers_are_loaded_in_turn_with_the_same_requests(folder: Path, served: Server) -> None:  # noqa: F811
    kept = folder / "c.json"
    both = (f"a={served.url}", f"b={served.url}")
    few = ("--streams", "1,2", "--requests", "3", "--warmup-requests", "1", "--rounds", "2", "--output-tokens", "4")
    done = kvtop(folder, "bench", "compare", *both, *few, "-o", str(kept), "--note", "box=busy")
    assert done.returncode == 0, done.stderr
    assert "OVER a" in done.stdout
    result = read(kept)
    order = [(run["cell"]["streams"], run["round"], run["server"]) for run in result["runs"]]
    assert order == [(n, r, s) for n in (1, 2) for r, s in ((0, "a"), (0, "b"), (1, "b"), (1, "a"))]
    digests = {(run["cell"]["streams"], run["round"]): set() for run in result["runs"]}
    for run in result["runs"]:
        digests[run["cell"]["streams"], run["round"]].add(run["load"]["asked"]["digest"])
    assert [len(of_round) for of_round in digests.values()] == [1] * 4
    assert len(set.union(*digests.values())) == 4
    assert (result["schema"], result["notes"]) == ("kvtop.bench/1", {"box": "busy"})


def test_ctrl_c_keeps_what_was_measured(folder: Path, served: Server) -> None:  # noqa: F811
    command = [
        sys.executable,
        "-m",
        "kvtop",
        "bench",
        "compare",
        f"a={served.url}",
        f"b={served.url}",
        "--rounds",
        "999",
        "--json",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(folder)) as bench:
        try:
            wait_until(lambda: len(served.calls) > 50, "requests")
            os.kill(bench.pid, signal.SIGINT)
            out, _ = bench.communicate(timeout=60)
        finally:
            bench.kill()
    runs = json.loads(out)["runs"]
    assert len(runs) >= 2
    assert all(run["load"]["counts"]["finished"] == 16 for run in runs)
    assert bench.returncode == 128 + signal.SIGINT


def test_a_server_that_ends_half_way_costs_nothing_of_what_was_measured(
    folder: Path,
    served: Server,  # noqa: F811
) -> None:
    async def goes(call: Call) -> None:
        served.models_status = 500
        await call.answer(500, {"error": {"message": "out of memory"}})

    few = ("--streams", "1", "--requests", "2", "--warmup-requests", "0", "--rounds", "9", "--output-tokens", "4")
    served._script = iter([well] * 7 + [goes])
    kept = folder / "c.json"
    done = kvtop(folder, "bench", "compare", f"a={served.url}", f"b={served.url}", *few, "-o", str(kept))
    assert_one_line(done, 1, "answers with HTTP 500")
    assert "a: http_5xx x1: HTTP 500: out of memory" in done.stdout
    assert [run["load"]["counts"]["finished"] for run in read(kept)["runs"]] == [2, 2, 2, 1]


def test_more_streams_than_a_load_has_open_otherwise(folder: Path, served: Server) -> None:  # noqa: F811
    few = ("--streams", "1001", "--requests", "2", "--warmup-requests", "0", "--output-tokens", "4")
    done = kvtop(folder, "bench", "serving", served.url, "--prompt-tokens", "8", *few, "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert (run["load"]["counts"]["finished"], run["load"]["counts"]["failed"]) == (2, 0), done.stderr


def test_a_server_that_runs_is_measured_as_it_is(folder: Path, served: Server) -> None:  # noqa: F811
    done = kvtop(folder, "bench", "serving", served.url, "--requests", "2", "--json")
    result = json.loads(done.stdout)
    assert [run["cell"]["threads"] for run in result["runs"]] == [None] * 4
    assert all(run["load"]["counts"]["finished"] == 2 for run in result["runs"])
    # Its memory is looked at from outside: here it is that of the test itself.
    assert all(run["load"]["server"]["rss_bytes"] > 10_000_000 for run in result["runs"])


def test_the_model_that_was_named_is_asked_for_whatever_its_name(folder: Path, served: Server) -> None:  # noqa: F811
    served.models = {"data": [{"id": "other"}, {"id": "smollm2"}]}
    few = (
        "--streams",
        "1",
        "--prompt-tokens",
        "8",
        "--requests",
        "1",
        "--warmup-requests",
        "0",
        "--output-tokens",
        "2",
    )
    for named, asked in ((("--model", "smollm2"), "smollm2"), ((), "other")):
        served.calls.clear()
        done = kvtop(folder, "bench", "serving", served.url, *few, *named, "--seed", str(2**63 - 1))
        assert done.returncode == 0, done.stderr
        assert {call.body["model"] for call in served.calls} == {asked}
        assert all(0 <= call.body["seed"] < 2**32 for call in served.calls)


def test_our_own_engine_is_started_with_each_number_of_threads(folder: Path) -> None:
    done = kvtop(
        folder,
        "bench",
        "serving",
        "--model",
        "random",
        "--threads",
        "1,2",
        "--streams",
        "1",
        "--prompt-tokens",
        "24",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [run["cell"]["threads"] for run in result["runs"]] == [1, 2]
    assert [run["load"]["counts"]["finished"] for run in result["runs"]] == [6, 6]
    assert [run["load"]["notes"]["threads"] for run in result["runs"]] == ["1", "2"]
    assert list(folder.glob("*.sock")) == []


def test_an_engine_that_cannot_start_is_one_line(folder: Path) -> None:
    assert_one_line(kvtop(folder, "bench", "serving", "--model", "/none.gguf", "--threads", "1"), 1, "none.gguf")
    assert not list(folder.iterdir()), "a log without a word in it is left to nobody"
