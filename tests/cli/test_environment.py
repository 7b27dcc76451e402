"""Environments that lie, lack or refuse: each gets an answer or one line, and never exit code 0 after a fault."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.fakes import FakeEngine
from tests.cli.run import assert_one_line, environment

KVTOP = f"{sys.executable} -m kvtop"


@pytest.fixture
def engine(folder: Path) -> Iterator[FakeEngine]:
    with FakeEngine(folder) as engine:
        yield engine


def shell(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """``script`` in bash, KVTOP being the command; the import path is ours whatever the script does to the folder."""
    env = environment(folder, KVTOP=KVTOP, PYTHONPATH=os.pathsep.join(filter(None, sys.path)), **more)
    return subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=120, env=env, stdin=subprocess.DEVNULL
    )


LISTING = [
    "$KVTOP ls",
    "cd $(mktemp -d) && rmdir $PWD && $KVTOP ls",
    "umask 0777; $KVTOP ls",
    "env -u HOME -u TERM -u PATH -u LANG $KVTOP ls",
    "HOME=nowhere XDG_CACHE_HOME=relative TMPDIR=/nonexistent XDG_RUNTIME_DIR='/a\nb' $KVTOP ls",
    "TERM=$'\\e[31m' COLUMNS=-1 LINES=99999999999999999999 NO_COLOR= KVTOP_COLOR=pink $KVTOP ls",
    "PYTHONOPTIMIZE=2 $KVTOP ls",
    "LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 $KVTOP ls",
    "LANG=xx_YY.ISO-8859-1 PYTHONCOERCECLOCALE=0 $KVTOP ls",
    "PYTHONIOENCODING=ascii:strict $KVTOP ls",
    "trap '' PIPE HUP INT TERM; $KVTOP ls",
    "ulimit -n 24; $KVTOP ls",
    "$KVTOP ls <&-",
]


@pytest.mark.parametrize("script", LISTING)
def test_it_lists_in_any_environment(folder: Path, engine: FakeEngine, script: str) -> None:
    done = shell(folder, script)
    assert (done.returncode, done.stderr) == (0, "")
    assert "fake" in done.stdout
    assert "alive" in done.stdout


def test_a_snapshot_is_taken_from_a_folder_that_is_gone(folder: Path, engine: FakeEngine, tmp_path: Path) -> None:
    """Its picture asked for the current folder, which it does not need, and nothing was written."""
    done = shell(folder, f"cd $(mktemp -d) && rmdir $PWD && $KVTOP snapshot {tmp_path / 'x.json'} --watch 0.1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(tmp_path / "x.json"), str(tmp_path / "x.svg")]
    there = shell(folder, "cd $(mktemp -d) && rmdir $PWD && $KVTOP snapshot --watch 0.1")
    assert_one_line(there, 1, "cannot write kvtop-fake-", "No such file")


@pytest.mark.parametrize(
    "command", ["ls", "ls --json", "--help", "--version", "ctl policies", "snapshot - --watch 0.1"]
)
def test_an_output_that_takes_nothing_is_a_line_and_no_success(folder: Path, engine: FakeEngine, command: str) -> None:
    assert_one_line(shell(folder, f"$KVTOP {command} > /dev/full"), 1, "standard output", "No space left")


def test_a_reader_that_takes_nothing_and_errors_that_nobody_reads(folder: Path, engine: FakeEngine) -> None:
    done = shell(folder, "$KVTOP ls | head -c0; echo ${PIPESTATUS[0]}; $KVTOP attach nope 2>/dev/full; echo $?")
    assert (done.stdout.split(), done.stderr) == (["0", "1"], "")


FAULT = """
import kvtop.commands.ls
def fail(options):
    raise ZeroDivisionError("in the\\nmiddle")
kvtop.commands.ls.run = fail
from kvtop.cli import entry
import sys
sys.argv = ["kvtop", "ls"]
entry()
"""


@pytest.mark.parametrize("switches", [[], ["-O"], ["-OO"]])
def test_a_fault_is_one_line_and_the_traceback_for_who_wants_it(folder: Path, switches: list[str]) -> None:
    def run(**more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *switches, "-c", FAULT]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment(folder, **more))

    assert_one_line(run(), 1, "internal error: ZeroDivisionError: in the middle", "KVTOP_DEBUG=1")
    told = run(KVTOP_DEBUG="1")
    assert told.returncode == 1
    assert "Traceback" in told.stderr
    assert told.stderr.splitlines()[-2].startswith("kvtop: internal error")


# -- places

ELSEWHERE = "env -u KVTOP_SOCKET_DIR -u XDG_RUNTIME_DIR TMPDIR=/nonexistent $KVTOP"


def test_an_engine_of_another_environment_is_found_and_commanded_by_its_socket_or_its_run(folder: Path) -> None:
    """As one that cron started, with a folder for temporary files that the login shell knows nothing of."""
    name = f"cron-{os.getpid()}"
    place = folder / f"kvtop-{os.getuid()}"
    place.mkdir(mode=0o700)
    with FakeEngine(place, name) as engine:
        listed = json.loads(shell(folder, f"{ELSEWHERE} ls --json").stdout)
        (found,) = [fact for fact in listed["engines"] if fact["name"] == name]
        assert (found["alive"], found["socket"]) == (True, str(place / f"{name}.sock"))
        assert {"folder": str(place), "trouble": None} in listed["looked_in"]
        # By its name alone it may be a namesake of the one that was looked at, which has ended since.
        for target in (f"-e {name}", ""):
            refused = shell(folder, f"{ELSEWHERE} ctl {target} pause")
            assert_one_line(refused, 2, f"engine {name} is not one of", f"if it is: -e {found['socket']}")
        assert_one_line(
            shell(folder, f"{ELSEWHERE} ctl --run run-2 -e {name} pause"), 1, "run-2", "run-1", "kvtop ls --json"
        )
        assert engine.seen == []
        for target in (f"-e {found['socket']}", f"-e {name} --run {found['run']}", f"-e {name} --run run-"):
            done = shell(folder, f"{ELSEWHERE} ctl {target} pause")
            assert done.returncode == 0, done.stderr
        assert len(engine.seen) == 3
        assert json.loads(shell(folder, f"{ELSEWHERE} ctl -e {name} policies --json").stdout)["run"] == found["run"]
        twin = folder / "other" / f"kvtop-{os.getuid()}"
        twin.mkdir(parents=True, mode=0o700)
        with FakeEngine(twin, name):
            both = shell(folder, f"{ELSEWHERE} ctl -e {name} pause")
            assert_one_line(both, 2, f"2 engines named {name}", str(place), str(twin))
            listing = shell(folder, f"{ELSEWHERE} ls").stdout
            assert str(place) in listing
            assert str(twin) in listing
    assert len(engine.seen) == 3


def test_where_was_looked_is_said(folder: Path) -> None:
    for command in ("ls", "attach", "attach nope", "snapshot -", "ctl pause"):
        done = shell(folder, f"$KVTOP {command}")
        assert f"looked in {folder}" in done.stderr
        assert "kvtop demo" in done.stderr
