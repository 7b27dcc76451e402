"""The commands against an engine that a test plays, and against what is no engine."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvtop.commands.ctl import allows, never_right, typed
from kvtop.commands.verbs import VERBS
from kvtop.protocol import Abort, Command, Compact, Keyframe, Pin, PolicyAxis, SetPolicy
from kvtop.protocol.commands import COMMANDS
from tests.cli import fakes
from tests.cli.fakes import SECRET, FakeEngine, fake_hello, fake_keyframe
from tests.cli.run import assert_one_line, environment, kvtop


@pytest.fixture
def engine(folder: Path) -> Iterator[FakeEngine]:
    with FakeEngine(folder) as engine:
        yield engine


@contextmanager
def impostor(path: Path, says: bytes) -> Iterator[None]:
    """Something that listens at ``path``, says a few bytes to whoever connects, and hangs up."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                peer.sendall(says)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


def dead_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


# -- which engine ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [[], ["attach"], ["snapshot", "-"], ["ctl", "pause"]])
def test_without_an_engine_it_says_how_to_start_one(folder: Path, command: list[str]) -> None:
    assert_one_line(kvtop(folder, *command), 1, "no engine is running", "kvtop demo")


def test_without_a_terminal_the_screen_points_to_what_works(folder: Path, engine: FakeEngine) -> None:
    for command in ([], ["attach", "fake"], ["attach", str(folder / "fake.sock")]):
        assert_one_line(kvtop(folder, *command), 2, "needs a terminal", "kvtop snapshot -")


def test_among_several_it_lists_them(folder: Path, engine: FakeEngine) -> None:
    with FakeEngine(folder, "other"):
        assert_one_line(kvtop(folder), 2, "fake, other", "kvtop attach NAME")
        assert_one_line(kvtop(folder, "snapshot", "-"), 2, "fake, other", "-e NAME")
        done = kvtop(folder, "ctl", "-e", "other", "pause")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("other: ")


def test_a_name_nobody_has(folder: Path, engine: FakeEngine) -> None:
    assert_one_line(kvtop(folder, "attach", "nope"), 1, "no engine named nope", "running: fake")


def test_a_dead_engine(folder: Path) -> None:
    dead_socket(folder / "gone.sock")
    assert_one_line(kvtop(folder, "attach", "gone"), 1, "gone", "nobody is listening")


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "not JSON"),
        (b'{"type":"iteration","seq":1}\n', "iteration"),
        (b"", "closed"),
        (fake_hello().model_copy(update={"protocol": "99.0"}).model_dump_json().encode() + b"\n", "99.0"),
    ],
)
@pytest.mark.parametrize("command", [["attach", "odd"], ["snapshot", "-e", "odd", "-"], ["ctl", "-e", "odd", "pause"]])
def test_what_is_no_engine_is_said_to_be_none(folder: Path, says: bytes, words: str, command: list[str]) -> None:
    with impostor(folder / "odd.sock", says):
        assert_one_line(kvtop(folder, *command), 1, "odd", words)


@pytest.mark.parametrize("command", ["attach {}", "snapshot - -e {}", "ctl -e {} pause"])
def test_a_path_that_is_no_socket_is_said_to_be_none(folder: Path, command: str) -> None:
    """It was taken for the socket of an engine that is gone."""
    plain = folder / "notes.txt"
    plain.write_text("mine")
    for path in (plain, folder):
        assert_one_line(kvtop(folder, *command.format(path).split()), 1, f"{path} is not a socket")


def test_a_folder_open_to_others_is_refused(folder: Path) -> None:
    os.chmod(folder, 0o777)
    for command, code in ((["ls"], 1), (["attach", "x"], 1), (["demo", "--once"], 2)):
        assert_one_line(kvtop(folder, *command), code, "open to others", "chmod 700")


# -- ls ----------------------------------------------------------------------------------------------------------


def test_ls_lists_the_living_and_the_dead(folder: Path, engine: FakeEngine) -> None:
    dead_socket(folder / "gone.sock")
    done = kvtop(folder, "ls")
    assert done.returncode == 1, "a dead engine is not well"
    head, alive, dead = done.stdout.splitlines()
    assert head.split()[:3] == ["NAME", "STATE", "KIND"]
    assert head.split()[-1] == "HTTP"
    for word in ("fake", "alive", "toy", "4321", "1h01m", "33 %", "2", "1", "http://127.0.0.1:8000"):
        assert word in alive
    assert "gone" in dead
    assert "nobody is listening" in dead

    document = json.loads(kvtop(folder, "ls", "--json").stdout)
    assert next(iter(document)) == "schema"
    first, second = document["engines"]
    assert (first["name"], first["alive"], first["kv_blocks_used"], first["running"]) == ("fake", True, 4, 2)
    assert (second["name"], second["alive"], second["kv_usage"], second["running"]) == ("gone", False, None, None)
    assert (first["http"], second["http"]) == ("http://127.0.0.1:8000", None)


def test_ls_of_nothing_is_fine(folder: Path) -> None:
    done = kvtop(folder, "ls", "--json")
    assert (done.returncode, json.loads(done.stdout)["engines"]) == (0, [])
    assert "kvtop demo" in kvtop(folder, "ls").stderr


# -- ctl ---------------------------------------------------------------------------------------------------------


def test_set_sends_typed_values_and_prints_the_iteration(folder: Path, engine: FakeEngine) -> None:
    changes = ["capacity=guaranteed_no_evict", "prefix_cache=off", "max_running=4"]
    done = kvtop(folder, "ctl", "set", *changes, "--transition", "preempt", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "as you say (iteration " in done.stdout
    assert "chat-3 waits longer" in done.stdout
    (command,) = engine.seen
    assert isinstance(command, SetPolicy)
    assert command.changes == {"capacity": "guaranteed_no_evict", "prefix_cache": False, "max_running": 4}
    assert command.changes["prefix_cache"] is False
    assert (command.transition, command.dry_run) == ("preempt", True)


def test_the_engine_refuses_in_its_own_words_what_is_wrong_usage(folder: Path, engine: FakeEngine) -> None:
    assert_one_line(kvtop(folder, "ctl", "set", "nonsense=1"), 2, "no policy axis 'nonsense'; there are capacity")
    done = kvtop(folder, "ctl", "set", "nonsense=1", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["ok"] is False


AXES = {
    "order": PolicyAxis(name="order", kind="choice", choices={"fcfs": "first come"}),
    "prefix_cache": PolicyAxis(name="prefix_cache", kind="bool"),
    "max_running": PolicyAxis(name="max_running", kind="int", minimum=1, maximum=64),
    "watermark": PolicyAxis(name="watermark", kind="float", minimum=0.0, maximum=0.5),
}


@pytest.mark.parametrize(
    ("axis", "typed_text", "allowed"),
    [
        ("order", "fcfs", True),
        ("order", "shortest", False),
        ("prefix_cache", "off", True),
        ("prefix_cache", "perhaps", False),
        ("max_running", "64", True),
        ("max_running", "0", False),
        ("max_running", "65", False),
        ("max_running", "1.5", False),
        ("max_running", "on", False),
        ("watermark", "0", True),
        ("watermark", "0.51", False),
        ("watermark", "nan", False),
    ],
)
def test_only_what_the_axis_has_not_is_wrong_usage(axis: str, typed_text: str, allowed: bool) -> None:
    value = typed(AXES[axis], typed_text)
    assert allows(AXES[axis], value) is allowed
    hello = fake_hello().model_copy(update={"axes": list(AXES.values())})
    assert never_right(SetPolicy(id="x", changes={axis: value}), hello) is not allowed
    assert never_right(SetPolicy(id="x", changes={axis: value, "gone": 1}), hello)


def test_what_could_be_right_at_another_time_is_no_wrong_usage() -> None:
    hello = fake_hello()  # of 12 blocks
    for command in (
        Abort(id="x", request=99),
        Pin(id="x", request="r-1"),
        Compact(id="x"),
        Compact(id="x", first=0, end=12),
    ):
        assert not never_right(command, hello)
    assert never_right(Compact(id="x", first=0, end=13), hello)
    assert not never_right(SetPolicy(id="x", changes={"nonsense": 1}), None), "nothing is known of what it allows"


def test_json_replies(folder: Path, engine: FakeEngine) -> None:
    done = kvtop(folder, "ctl", "--json", "abort", "7")
    reply = json.loads(done.stdout)
    assert reply["ok"] is True
    assert isinstance(reply["iteration"], int)
    (command,) = engine.seen
    assert isinstance(command, Abort)
    assert command.request == 7
    assert command.run == fake_hello().engine.run, "what it read of the engine is what it commands"


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        (["abort", "7"], {"type": "abort", "request": 7}),
        (["preempt", "chat-1"], {"type": "preempt", "request": "chat-1"}),
        (["pause"], {"type": "pause"}),
        (["resume"], {"type": "resume"}),
        (["reset-prefix-cache"], {"type": "reset_prefix_cache"}),
        (["pin", "7"], {"type": "pin", "request": 7}),
        (["unpin", "7"], {"type": "unpin", "request": 7}),
        (["compact"], {"type": "compact"}),
        (["compact", "0:9"], {"type": "compact", "first": 0, "end": 9}),
        (["keyframe"], {"type": "keyframe"}),
    ],
)
def test_each_verb_sends_its_command_and_no_other(
    folder: Path, engine: FakeEngine, verb: list[str], fields: dict[str, object]
) -> None:
    done = kvtop(folder, "ctl", *verb)
    assert done.returncode == 0, done.stderr
    (command,) = engine.seen
    assert isinstance(command, Command)
    sent = command.model_dump(exclude_none=True)
    assert sent.pop("id").startswith("ctl-")
    assert sent == {**fields, "run": fake_hello().engine.run}


def test_every_command_of_the_protocol_has_its_verb() -> None:
    typed = {"set_policy" if verb.name == "set" else verb.type for verb in VERBS if verb.name != "policies"}
    assert typed == set(COMMANDS)


def test_policies_shows_what_holds_and_what_may_be_typed(folder: Path, engine: FakeEngine) -> None:
    out = kvtop(folder, "ctl", "policies").stdout
    assert "max_utilization" in out
    assert "max_utilization, guaranteed_no_evict" in out
    assert "1 to 64 requests" in out
    axes = json.loads(kvtop(folder, "ctl", "policies", "--json").stdout)["axes"]
    assert [(axis["name"], axis["current"]) for axis in axes][1] == ("prefix_cache", True)


def test_an_observable_engine_without_a_control_socket(folder: Path, engine: FakeEngine) -> None:
    (folder / "fake.ctl.sock").unlink()
    assert_one_line(kvtop(folder, "ctl", "pause"), 1, "no such socket")


# -- snapshot ----------------------------------------------------------------------------------------------------


def test_snapshot_to_stdout(folder: Path, engine: FakeEngine) -> None:
    done = kvtop(folder, "snapshot", "-", "--watch", "1")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert next(iter(document)) == "schema"
    assert document["engine"]["name"] == "fake"
    assert document["iteration"] > 110
    assert document["rates"]["decode_tokens"] > 0
    assert len(document["batch_size_by_iteration"]) > 3
    assert SECRET not in done.stdout


def test_a_snapshot_that_contradicts_itself_is_written_and_said_to(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lying(seq: int = 10) -> Keyframe:
        said = fake_keyframe(seq)
        return said.model_copy(update={"gauges": said.gauges.model_copy(update={"kv_blocks_active": 5})})

    monkeypatch.setattr(fakes, "fake_keyframe", lying)
    with FakeEngine(folder):
        done = kvtop(folder, "snapshot", "-", "--watch", "0.3")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert f"contradiction: {document['contradictions'][0]}\n" in done.stderr
    assert "alarm: ledger violation: " in done.stderr
    assert next(alarm["state"] for alarm in document["alarms"] if alarm["alarm"] == "ledger_violation") == "firing"


def test_a_service_level_that_is_none_is_refused_before_an_engine_is_looked_for(folder: Path) -> None:
    says = "tpt=0.1 is not NAME=SECONDS with one of ttft, tpot, queue, latency"
    assert_one_line(kvtop(folder, "attach", "nobody", "--slo", "ttft=1,tpt=0.1"), 2, says)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("preemption_strom.least=3", "did you mean preemption_storm?"),
        ("preemption_storm.most=3", "it has for_s, hold_s, window_s, least"),
        ("preemption_storm.least=-3", "from 2 to"),
        ("stale_data", "is not NAME.THRESHOLD=VALUE"),
    ],
)
def test_a_threshold_that_there_is_not_is_refused_with_those_there_are(folder: Path, value: str, says: str) -> None:
    assert_one_line(kvtop(folder, "attach", "nobody", "--alarm", value), 2, says)


def test_snapshot_into_a_folder(folder: Path, engine: FakeEngine) -> None:
    """It was written beside the folder, under the folder's name."""
    target = folder / "incident"
    target.mkdir()
    done = kvtop(folder, "snapshot", str(target), "--no-svg", "--watch", "0.3")
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.parent == target
    assert path.name.startswith("kvtop-fake-2")
    assert json.loads(path.read_text())["schema"] == "kvtop.snapshot/1"


def test_snapshot_file(folder: Path, engine: FakeEngine) -> None:
    done = kvtop(folder, "snapshot", "--no-svg", "--watch", "0.3", cwd=folder)
    assert done.returncode == 0, done.stderr
    path = folder / done.stdout.strip()
    assert path.name.startswith("kvtop-fake-2")
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["schema"] == "kvtop.snapshot/1"
    before = path.read_text()
    assert_one_line(kvtop(folder, "snapshot", str(path), "--no-svg"), 1, "exists")
    assert path.read_text() == before
    assert_one_line(
        kvtop(folder, "snapshot", "-o", str(folder / "no" / "x"), "--no-svg", "--watch", "0.1"), 1, "No such file"
    )


# -- pipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [["snapshot", "-", "--watch", "0.2"], ["ls"], ["ls", "--json"], ["--help"]])
def test_a_reader_that_leaves_is_no_fault(folder: Path, engine: FakeEngine, command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kvtop", *command],
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            env=environment(folder),
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 0


def test_closed_streams_do_not_bring_a_traceback(folder: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m kvtop ls <&- 2>&-; echo $?"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(folder),
    )
    assert done.stdout.strip() == "0"
    assert done.stderr == ""
