"""The engine as a process: it leaves in order, whenever and however often it is told to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "engine", "--model", "random", "--workload", "mix", "--name", "told", "--ready-json"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Started with its standard input held open; ready."""
    environment = os.environ | {"KVTOP_SOCKET_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    os.chmod(tmp_path, 0o700)
    process = subprocess.Popen(
        [*COMMAND, "--parent-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    while "ready" not in json.loads(process.stdout.readline()):
        pass
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def _sockets(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.is_socket()]


def test_a_storm_of_signals_ends_it_in_order(engine: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert len(_sockets(tmp_path)) == 2
    time.sleep(0.3)
    for number in 40 * [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
        if engine.poll() is None:
            engine.send_signal(number)
    assert engine.wait(30) == 0
    assert _sockets(tmp_path) == []


def test_it_ends_with_its_parents_pipe(engine: "subprocess.Popen[str]", tmp_path: Path) -> None:
    assert engine.stdin is not None
    engine.stdin.close()
    assert engine.wait(30) == 0
    assert _sockets(tmp_path) == []


@pytest.mark.parametrize("setting", ["nonsense=1", "max_running=0", "order"])
def test_a_policy_that_cannot_be_is_wrong_usage(setting: str, tmp_path: Path) -> None:
    environment = os.environ | {"KVTOP_SOCKET_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*COMMAND, "--set", setting], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 2
    assert setting.partition("=")[0] in done.stdout
