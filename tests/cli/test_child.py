"""The engine as a child, played by small scripts."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kvtop.commands import child as child_module
from kvtop.commands.child import EngineChild, Progress, remove_if_dead
from kvtop.errors import UserError
from tests.e2e.tmux import alive, wait_until

READY = 'print(json.dumps({"ready": {"name": "x", "socket": SOCK, "control": SOCK + "2"}}), flush=True)\n'


def play(monkeypatch: pytest.MonkeyPatch, folder: Path, *parts: str) -> EngineChild:
    code = f"import json, os, signal, sys, time\nSOCK = {str(folder / 'x.sock')!r}\n" + "".join(
        textwrap.dedent(part) for part in parts
    )
    monkeypatch.setattr(child_module, "engine_command", lambda arguments: [sys.executable, "-c", code])
    child = EngineChild([], folder / "x.log")
    child.start()
    return child


def never(_: object) -> None:
    raise AssertionError("not expected")


def test_reports_reach_the_parent_and_the_rest_the_log(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    child = play(
        monkeypatch,
        folder,
        """
        print("some library's chatter")
        print(json.dumps({"progress": {"what": "model", "done": 5, "total": 10}}))
        print(json.dumps({"progress": {"what": "model", "done": "many", "total": None}}))
        print(json.dumps({"note": "random weights"}))
        print("a warning", file=sys.stderr)
        """,
        READY + "sys.stdin.read()\n",
    )
    seen: list[Progress] = []
    notes: list[str] = []
    ready = child.wait_ready(seen.append, notes.append)
    assert ready.socket == folder / "x.sock"
    assert seen == [Progress("model", 5, 10), Progress("model", 0, None)]
    assert notes == ["random weights"]
    log = child.log.read_text()
    assert "chatter" in log
    assert "a warning" in log
    assert child.log.stat().st_mode & 0o777 == 0o600
    assert child.exit_code is None
    assert child.stop() == 0
    assert child.stop() == 0


@pytest.mark.parametrize(
    ("script", "words", "code"),
    [
        ('print(json.dumps({"failed": "no such model", "hint": "try random"}))\nsys.exit(1)', "no such model", 1),
        ('print(json.dumps({"failed": "axis? what axis", "hint": ""}))\nsys.exit(2)', "axis? what axis", 2),
        ('sys.exit("ImportError: no libfoo")', "last words: ImportError: no libfoo", 1),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV", 1),
    ],
)
def test_a_failed_start_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, words: str, code: int
) -> None:
    child = play(monkeypatch, folder, script)
    with pytest.raises(UserError) as caught:
        child.wait_ready(never, never)
    assert words in caught.value.message
    assert caught.value.code == code
    child.stop()


def test_a_child_that_hears_nothing_is_killed_and_its_socket_removed(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setattr(child_module, "TERM_AFTER", 0.2)
    monkeypatch.setattr(child_module, "KILL_AFTER", 0.4)
    child = play(
        monkeypatch,
        folder,
        """
        import socket
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        s = socket.socket(socket.AF_UNIX)
        s.bind(SOCK)
        s.listen()
        """,
        READY + "while True: time.sleep(1)\n",
    )
    child.wait_ready(never, never)
    assert (folder / "x.sock").exists()
    assert child.stop() == -signal.SIGKILL
    assert not (folder / "x.sock").exists()


def test_a_full_pipe_never_blocks_the_child(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    child = play(monkeypatch, folder, READY + "for _ in range(20000): print('chatter ' * 10)\nsys.stdin.read()\n")
    child.wait_ready(never, never)
    wait_until(lambda: child.log.stat().st_size >= 20000 * 81, 60, "the child's chatter did not get through")
    assert child.stop() == 0


def test_it_dies_with_a_parent_that_is_killed(folder: Path) -> None:
    script = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from kvtop.commands import child
        loop = "import sys; sys.stdin.read()"
        child.engine_command = lambda arguments: [sys.executable, "-c", loop]
        one = child.EngineChild([], Path({str(folder)!r}) / "x.log")
        one.start()
        print(one.pid, flush=True)
        time.sleep(600)
    """)
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()
    wait_until(lambda: not alive(pid), 30, "the child outlived its parent")


def test_a_log_that_cannot_be_written_is_said(folder: Path) -> None:
    with pytest.raises(UserError, match="cannot write the engine's log"):
        EngineChild([], folder / "no" / "such" / "x.log").start()


def test_only_a_dead_socket_is_removed(folder: Path) -> None:
    path = folder / "y.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        remove_if_dead(path)
        assert path.exists()
    remove_if_dead(path)
    assert not path.exists()
    remove_if_dead(path)
