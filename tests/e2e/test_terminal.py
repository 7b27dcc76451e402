"""What terminals and shells do to a program that holds one: bytes, stops, hang-ups, locales."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.fakes import FakeEngine
from tests.e2e.engines import KVTOP, KVTOP_TYPED, Engines
from tests.e2e.tmux import Tmux, alive, children, wait_until

Terminal = Callable[..., Tmux]
DASHBOARD = r"\d+ running"
WHOLE = r"fake kvtop[\s\S]*KV used[\s\S]*most blocks[\s\S]*chat-3[\s\S]*queue:[\s\S]*events:[\s\S]* help"
"""The screen from its first row to its last."""


@pytest.fixture
def fake(place: Path) -> Iterator[FakeEngine]:
    """An engine that costs next to nothing."""
    with FakeEngine(place) as engine:
        yield engine


KEPT_BYTES = 200_000
"""Of what a viewer has written: the latest."""


class Viewer:
    """kvtop on a pseudo terminal of which the test is the other end, and whose last words it keeps."""

    def __init__(self, command: list[str], environment: Mapping[str, str], *, ignore: tuple[int, ...] = ()) -> None:
        self.shown = b""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            for number in ignore:
                signal.signal(number, signal.SIG_IGN)
            os.execvpe(command[0], command, dict(environment))
        self.size(80, 24)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def _read(self) -> None:
        try:
            while data := os.read(self.terminal, 65536):
                # All of it would be copied with each piece: a screen of 65,535 columns is megabytes, and who reads
                # slowly is drawn for slowly.
                self.shown = self.shown[-KEPT_BYTES:] + data
        except OSError:
            pass  # hung up, by either side

    def wait_for(self, text: bytes) -> None:
        wait_until(lambda: text in self.shown, 90, lambda: f"{text!r} was not shown: {self.shown[-2000:]!r}")

    def type(self, data: bytes) -> None:
        os.write(self.terminal, data)

    def hang_up(self) -> None:
        """The terminal is gone, as when its window is closed."""
        os.close(self.terminal)
        self.terminal = -1

    def exit_code(self) -> int:
        """Negative: the signal that ended it."""
        ended: list[int] = []

        def gone() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                ended.append(os.waitstatus_to_exitcode(status))
                self.pid = 0
            return bool(ended)

        wait_until(gone, 60, lambda: f"it did not end: {self.shown[-2000:]!r}")
        return ended[0]

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.terminal >= 0:
            self.hang_up()


@contextmanager
def viewer(
    environment: Mapping[str, str],
    *arguments: str,
    ignore: tuple[int, ...] = (),
    program: list[str] = KVTOP,
    **more: str,
) -> Iterator[Viewer]:
    shown = Viewer([*program, *arguments], {**environment, **more}, ignore=ignore)
    try:
        yield shown
    finally:
        shown.close()


def test_bytes_that_are_no_text_are_dropped(fake: FakeEngine, environment: dict[str, str]) -> None:
    with viewer(environment, "attach", "fake") as screen:
        screen.wait_for(b"running")
        screen.type(b"\xff\xc3(\xe9\x80")
        time.sleep(0.3)
        screen.type(b"P")
        screen.wait_for(b"policies")
        screen.type(b"\x03\x03")
        assert screen.exit_code() == 0
    assert b"Traceback" not in screen.shown


def test_a_terminal_that_is_gone_ends_it_though_nothing_tells(fake: FakeEngine, environment: dict[str, str]) -> None:
    with viewer(environment, "attach", "fake", ignore=(signal.SIGHUP,)) as screen:
        screen.wait_for(b"running")
        screen.hang_up()
        assert screen.exit_code() == 1


FAULT = """
import sys
from kvtop.app.feed import Feed
def drain(self, now):
    raise ZeroDivisionError("while drawing")
Feed.drain = drain
from kvtop.cli import entry
entry()
"""


def test_a_fault_of_the_screen_is_a_line_and_exit_code_1(fake: FakeEngine, environment: dict[str, str]) -> None:
    with viewer(environment, "attach", "fake", program=[KVTOP[0], "-c", FAULT]) as screen:
        assert screen.exit_code() == 1
        screen.wait_for(b"internal error: ZeroDivisionError: while drawing")
    assert b"Traceback" not in screen.shown
    assert screen.shown.rindex(b"\x1b[?1049l") < screen.shown.index(b"internal error"), "said where it is seen"


def test_a_size_of_nothing_and_a_storm_of_sizes(fake: FakeEngine, environment: dict[str, str]) -> None:
    """Nobody has set the size of a serial line; COLUMNS and LINES, exported once, are what they were."""
    with viewer(environment, "attach", "fake", COLUMNS="7", LINES="garbage") as screen:
        screen.wait_for(b"running")
        for step in range(60):
            screen.size(*((0, 0), (1, 1), (200, 60), (65535, 65535), (79, 23))[step % 5])
        screen.size(132, 43)
        screen.wait_for(b"\x1b[43;")
        screen.type(b"q")
        assert screen.exit_code() == 0


LACKS_ALL = (
    "cd $(mktemp -d) && rmdir $PWD && ulimit -n 24 && umask 0777 && unset HOME && "
    "export TERM=nobody-knows NO_COLOR= TMPDIR=/nonexistent XDG_CACHE_HOME=relative PYTHONOPTIMIZE=2 && "
    'exec "$@"'
)


def test_an_environment_that_lacks_all_has_a_screen(fake: FakeEngine, environment: dict[str, str]) -> None:
    """Also the folder that snapshots go to is gone, and that is said only when one is taken."""
    root = str(Path(__file__).parents[2])
    with viewer(
        environment, "attach", "fake", program=["bash", "-c", LACKS_ALL, "", *KVTOP], PYTHONPATH=root
    ) as screen:
        screen.wait_for(b"running")
        screen.wait_for(b"help")
        screen.type(b"s")
        screen.wait_for(b"no snapshot")
        screen.type(b"q")
        assert screen.exit_code() == 0


@pytest.mark.parametrize(
    ("locale", "ascii_only"),
    [
        ({"LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, True),
        ({"LANG": "en_US.ISO-8859-1"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "C", "PYTHONUTF8": "1"}, False),
    ],
)
def test_the_locale_chooses_the_characters(
    fake: FakeEngine, environment: dict[str, str], locale: dict[str, str], ascii_only: bool
) -> None:
    bare = {name: value for name, value in environment.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    with viewer(bare, "attach", "fake", **locale) as screen:
        screen.wait_for(b"running")
        screen.type(b"P")
        screen.wait_for(b"policies")
        screen.type(b"\x03")
        screen.exit_code()
    assert b"\\u" not in screen.shown
    assert screen.shown.isascii() is ascii_only


def test_ctrl_z_goes_back_to_the_shell_and_fg_draws_all_anew(terminal: Terminal, fake: FakeEngine) -> None:
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach fake; echo code=$?")
    tmux.wait_for(rf"{DASHBOARD}[\s\S]*? help")
    tmux.keys("C-z")
    tmux.wait_for(r"Stopped")
    assert tmux.ask("alternate_on") == "0"
    assert tmux.ask("mouse_any_flag") == "0"
    assert tmux.ask("cursor_flag") == "1"
    tmux.run("stty -a | tr ' ;' '\\n' | grep -cx -e echo -e icanon -e isig")
    tmux.wait_for(r"(?m)^3$", 30)
    tmux.run("clear; fg; echo code=$?")
    tmux.wait_for(WHOLE)
    assert tmux.ask("alternate_on") == "1"
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$", 60)
    assert tmux.ask("alternate_on") == "0"


def test_a_background_job_and_one_that_was_stopped_by_force_come_back_with_fg(
    terminal: Terminal, fake: FakeEngine
) -> None:
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach fake &")
    shell = int(tmux.ask("pane_pid"))
    wait_until(lambda: bool(children(shell)), 60, "it did not start")
    (pid,) = children(shell)
    wait_until(lambda: stopped(pid), 60, "it does not wait for the terminal")
    assert tmux.ask("alternate_on") == "0"
    tmux.run("fg; echo code=$?")
    tmux.wait_for(WHOLE)
    os.kill(pid, signal.SIGSTOP)
    tmux.wait_for("Stopped")
    tmux.run("fg; echo code=$?")
    tmux.wait_for(WHOLE)
    wait_until(lambda: "Stopped" not in tmux.screen(), 60, "what the shell wrote is still there")
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$", 60)
    assert tmux.ask("alternate_on") == "0"


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_without_a_shell_ctrl_z_says_so(fake: FakeEngine, environment: dict[str, str]) -> None:
    """As the first process of its session (``ssh HOST kvtop``, a pane of its own) nobody could bring it back."""
    with viewer(environment, "attach", "fake") as screen:
        screen.wait_for(b"running")
        screen.type(b"\x1a")
        screen.wait_for(b"no shell here")
        screen.type(b"q")
        assert screen.exit_code() == 0


def test_an_engine_under_nohup_outlives_its_terminal(
    engines: Engines, place: Path, environment: dict[str, str]
) -> None:
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            ["nohup", *KVTOP, "engine", "--model", "random", "--name", "kept"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )
    try:
        pid = engines.wait_pid("kept")
        assert pid == process.pid
        os.kill(pid, signal.SIGHUP)
        time.sleep(1.0)
        assert alive(pid)
        assert engines.kvtop("ctl", "-e", "kept", "pause").returncode == 0
        os.kill(pid, signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
