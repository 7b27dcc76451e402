"""The demo without a terminal, and what scripts do with a running engine."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from kvtop.commands.demo import preset_arguments
from tests.e2e.engines import KVTOP, Engines
from tests.e2e.tmux import alive, wait_until

RANDOM = ("--model", "random")


def test_demo_once_prints_one_document_and_leaves_nothing(place: Path, engines: Engines) -> None:
    done = engines.kvtop("demo", *RANDOM, "--name", "once", "--once", "--seconds", "6", "--json", timeout=300)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert next(iter(document)) == "schema"
    assert document["engine"]["name"] == "once"
    assert document["model"]["random_weights"] is True
    assert document["admissions"] > 0
    assert document["ledger_violations"] == 0
    assert document["contradictions"] == []
    assert document["kv_blocks_total"] > document["kv_blocks_free"]
    assert max(document["batch_size_by_iteration"]) > 1
    assert document["requests"]
    assert not alive(document["engine"]["pid"])
    assert list(place.iterdir()) == []


def test_the_sharing_preset_forks_searches_and_keeps_its_books(engines: Engines) -> None:
    engines.start("sharing", *preset_arguments("sharing"), "--rate", "20")
    seen: set[str] = set()

    def samples_and_beams() -> bool:
        document = json.loads(engines.kvtop("snapshot", "-").stdout)
        assert document["workload"].startswith("sharing N 3k+400, W 2k+200")
        assert document["ledger_violations"] == 0
        assert document["contradictions"] == []
        for row in document["requests"]:
            if row["label"] == "N":
                assert (row["siblings"], row["score"]) == (3, None)
                seen.add("samples")
            elif row["score"] is not None:
                assert (row["label"], row["siblings"]) == ("W", 4)
                seen.add("beams")
        return seen == {"samples", "beams"}

    wait_until(samples_and_beams, 120, lambda: f"in two minutes only {seen or 'neither'} of samples and scored beams")


def test_demo_once_for_a_person(engines: Engines) -> None:
    done = engines.kvtop("demo", *RANDOM, "--once", "--seconds", "1", timeout=300)
    assert done.returncode == 0, done.stderr
    assert "admissions" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_however_the_demo_is_ended_its_engine_ends_too(
    place: Path, engines: Engines, environment: dict[str, str], number: signal.Signals
) -> None:
    demo = subprocess.Popen(
        [*KVTOP, "demo", *RANDOM, "--name", "ended", "--once", "--seconds", "600"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    try:
        pid = engines.wait_pid("ended")
        demo.send_signal(number)
        code = demo.wait(60)
    finally:
        demo.kill()
    assert code == {signal.SIGINT: 130, signal.SIGKILL: -9}.get(number, 128 + number)
    wait_until(lambda: not alive(pid), 60, "the engine outlived the demo")
    wait_until(lambda: engines.sockets() == [], 30, f"left behind: {engines.sockets()}")


def test_ended_while_it_starts(engines: Engines, environment: dict[str, str]) -> None:
    demo = subprocess.Popen(
        [*KVTOP, "demo", *RANDOM, "--name", "early", "--once"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    log = engines.place / "early.log"
    wait_until(log.exists, 60, "the demo did not start its engine")
    demo.send_signal(signal.SIGINT)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert engines.pid("early") is None
    assert engines.sockets() == []


def test_an_engine_that_dies_is_named_with_its_log(engines: Engines, environment: dict[str, str]) -> None:
    demo = subprocess.Popen(
        [*KVTOP, "demo", *RANDOM, "--name", "dies", "--once", "--seconds", "600"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    os.kill(engines.wait_pid("dies"), signal.SIGKILL)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "SIGKILL" in errors
    assert "dies.log" in errors
    assert "Traceback" not in errors
    assert engines.sockets() == []


def test_a_name_in_use_is_refused_and_its_engine_unharmed(engines: Engines) -> None:
    first = engines.start("twin")
    done = engines.kvtop("demo", *RANDOM, "--name", "twin", "--once", "--seconds", "1")
    assert done.returncode == 2
    assert "kvtop attach twin" in done.stderr
    assert first.poll() is None
    assert engines.pid("twin") == first.pid


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "nonsense=1"], "nonsense"),
        (["--set", "capacity"], "capacity"),
        (["--block-size", "7"], "block size 7"),
        (["--model", "/no/such/model.gguf"], "/no/such/model.gguf"),
    ],
)
def test_a_start_that_fails_is_one_line(engines: Engines, options: list[str], words: str) -> None:
    done = engines.kvtop("demo", *RANDOM, "--once", *options)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("kvtop: ")]) == 1


def test_switching_the_capacity_policy_is_logged_with_who_when_from_and_to(engines: Engines) -> None:
    engines.start("switch", "--set", "capacity=max_utilization")
    done = engines.kvtop(
        "ctl", "-e", "switch", "set", "capacity=guaranteed_no_evict", "--transition", "preempt", "--json"
    )
    assert done.returncode == 0, done.stderr
    reply = json.loads(done.stdout)
    document = json.loads(engines.kvtop("snapshot", "-e", "switch", "-").stdout)
    assert document["policies"]["capacity"] == "guaranteed_no_evict"
    (event,) = [event for event in document["events"] if event["kind"] == "policy" and event["axis"] == "capacity"]
    assert (event["old"], event["new"]) == ("max_utilization", "guaranteed_no_evict")
    assert event["uid"] == os.getuid()
    assert event["pid"] > 0
    assert event["wall"] > 0
    assert event["iteration"] == reply["iteration"] - 1, "it happens between two iterations; the reply names the second"
    assert f"from iteration {reply['iteration']}" in event["detail"]
    later = [e for e in document["events"] if e["kind"] == "preempt" and e["iteration"] >= reply["iteration"]]
    assert later == [], "guaranteed_no_evict preempted somebody"


def test_the_engine_refuses_what_makes_no_sense(engines: Engines) -> None:
    engines.start("picky")
    for setting in ("capacity=sideways", "nonsense=1", "max_running=-3"):
        done = engines.kvtop("ctl", "set", setting)
        assert done.returncode == 2, setting
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("kvtop: engine picky refused: ")
    done = engines.kvtop("ctl", "abort", "999999")
    assert done.returncode == 1
    assert "999999" in done.stderr


def test_pause_and_resume(engines: Engines) -> None:
    engines.start("nap")
    assert engines.kvtop("ctl", "pause").returncode == 0
    assert json.loads(engines.kvtop("snapshot", "-", "--watch", "0.5").stdout)["status"]["state"] == "paused"
    first = json.loads(engines.kvtop("snapshot", "-", "--watch", "0.5").stdout)["iteration"]
    assert json.loads(engines.kvtop("snapshot", "-", "--watch", "0.5").stdout)["iteration"] == first
    assert engines.kvtop("ctl", "resume").returncode == 0

    def goes_on() -> bool:
        iteration: int = json.loads(engines.kvtop("snapshot", "-", "--watch", "0.5").stdout)["iteration"]
        return iteration > first

    wait_until(goes_on, 60, "the engine did not go on")
