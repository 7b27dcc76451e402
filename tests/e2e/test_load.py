"""The engine under `kvtop load`, by its name: every kind of load is answered, and what it counts adds up with what the engine did."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.engines import KVTOP, Engines
from tests.e2e.tmux import wait_until

DATA = Path(__file__).parents[1] / "data" / "traces"


@pytest.fixture
def served(engines: Engines) -> Engines:
    engines.start("served", "--workload", "none", "--http", "127.0.0.1:0")
    return engines


def load(engines: Engines, *arguments: str) -> dict[str, Any]:
    done = engines.kvtop("load", "served", "--json", "--open", "200", *arguments)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert result["counts"]["failed"] == result["counts"]["unfinished"] == 0, result["failures"]
    return result


def test_the_screen_knows_a_request_by_the_name_of_its_row(served: Engines) -> None:
    command = ["load", "served", "--streams", "2", "--output-tokens", "3000", "--seconds", "300", "--json"]
    with subprocess.Popen(
        [*KVTOP, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=served.environment
    ) as client:
        try:
            wait_until(
                lambda: {"load-0", "load-1"} <= {row["id"] for row in snapshot(served)["requests"]}, 60, "the requests"
            )
            client.send_signal(signal.SIGINT)
            out, _ = client.communicate(timeout=60)
        finally:
            client.kill()
    result = json.loads(out)
    assert [row["session"] for row in result["requests"]][:2] == [0, 1]
    # The client has gone: what it had asked for goes with it.
    wait_until(lambda: snapshot(served)["active_sequences"] == 0, 60, "its requests end")


def snapshot(engines: Engines) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(engines.kvtop("snapshot", "-", "--watch", "0.5").stdout)
    return found


def test_the_engine_answers_every_kind_of_load(served: Engines) -> None:
    plain = load(served, "--streams", "4", "--requests", "12", "--output-tokens", "8")
    assert plain["server"]["owner"] == "kvtop"
    assert (plain["counts"]["finished"], plain["output"]["p50"], plain["tokens_counted_by"]) == (12, 8, "usage")
    assert plain["finish_reasons"] == {"length": 12}

    mixed = load(served, "--mix", "sharing", "--length-scale", "0.01", "--rate", "20", "--requests", "20")
    assert mixed["asked"]["extensions"]

    chats = ("--chats", "3", "--streams", "2", "--requests", "6", "--think", "0", "--shared-tokens", "60")
    told = load(served, *chats, "--prompt-tokens", "20", "--output-tokens", "6")
    # What a turn repeats of the turn before, the engine has still.
    assert [row["cached_tokens"] > 0 for row in told["requests"] if row["turn"]] == [True] * 4

    blocks = str(DATA / "mooncake-conversation-60.jsonl")
    traced = load(
        served,
        "--trace",
        blocks,
        "--length-scale",
        "0.02",
        "--time-scale",
        "0.1",
        "--requests",
        "12",
        "--seconds",
        "60",
    )
    assert traced["cached_share"] > 0

    after = snapshot(served)
    assert (after["active_sequences"], after["waiting_sequences"], after["ledger_violations"]) == (0, 0, 0)
