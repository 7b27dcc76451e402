"""The screen in a real terminal: what it shows of a live engine, and what it leaves behind however it ends."""

import fcntl
import json
import os
import pty
import signal
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.engines import KVTOP, KVTOP_TYPED, Engines
from tests.e2e.tmux import Tmux, alive, children, wait_until

Terminal = Callable[..., Tmux]
DASHBOARD = r"\d+ running"
DEMO = f"{KVTOP_TYPED} demo --model random --name shown"


def kvtop_pid(tmux: Tmux) -> int:
    """The kvtop process that the terminal's shell started."""
    (pid,) = children(int(tmux.ask("pane_pid")))
    return pid


def assert_restored(tmux: Tmux) -> None:
    """Back at the shell, on the normal screen, no mouse reports, a line that echoes."""
    wait_until(lambda: tmux.ask("alternate_on") == "0", 60, "the alternate screen was left on")
    assert tmux.ask("mouse_any_flag") == "0"
    assert tmux.ask("cursor_flag") == "1"
    tmux.run("stty -a | tr ' ;' '\\n' | grep -cx -e echo -e icanon -e isig")
    tmux.wait_for(r"(?m)^3$", 30)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_q_ends_the_demo_and_its_engine(terminal: Terminal, engines: Engines, size: tuple[int, int]) -> None:
    tmux = terminal(*size)
    tmux.run(f"{DEMO}; echo code=$?")
    tmux.wait_for(DASHBOARD)
    pid = engines.wait_pid("shown")
    assert tmux.ask("alternate_on") == "1"
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$", 60)
    assert_restored(tmux)
    assert not alive(pid)
    assert list(engines.place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal_and_ends_the_engine(
    terminal: Terminal, engines: Engines, number: signal.Signals
) -> None:
    tmux = terminal()
    tmux.run(f"{DEMO}; echo code=$?")
    tmux.wait_for(DASHBOARD)
    pid = engines.wait_pid("shown")
    os.kill(kvtop_pid(tmux), number)
    screen = tmux.wait_for(rf"(?m)^code={128 + number}$", 60)
    assert "Traceback" not in screen
    assert_restored(tmux)
    assert not alive(pid)
    assert engines.sockets() == []


def test_ctrl_c_before_the_screen_is_there(terminal: Terminal, engines: Engines) -> None:
    tmux = terminal()
    tmux.run(f"{DEMO}; echo code=$?")
    wait_until((engines.place / "shown.log").exists, 60, "the demo did not start its engine")
    tmux.keys("C-c")
    screen = tmux.wait_for(r"(?m)code=(0|130)$", 60)
    assert "Traceback" not in screen
    assert_restored(tmux)
    assert engines.pid("shown") is None
    assert engines.sockets() == []


def test_a_killed_screen_takes_its_engine_along(terminal: Terminal, engines: Engines) -> None:
    tmux = terminal()
    tmux.run(f"{DEMO}; echo code=$?")
    tmux.wait_for(DASHBOARD)
    pid = engines.wait_pid("shown")
    os.kill(kvtop_pid(tmux), signal.SIGKILL)
    wait_until(lambda: not alive(pid), 60, "the engine outlived the killed demo")
    wait_until(lambda: engines.sockets() == [], 30, "sockets were left behind")
    # Nobody could put this terminal right; one command does.
    tmux.run(f"{KVTOP_TYPED} --reset-terminal; stty sane")
    wait_until(lambda: tmux.ask("alternate_on") == "0", 30, "--reset-terminal did not leave the alternate screen")
    assert tmux.ask("mouse_any_flag") == "0"


def test_a_closed_terminal_ends_the_demo(terminal: Terminal, engines: Engines) -> None:
    tmux = terminal()
    tmux.run(DEMO)
    tmux.wait_for(DASHBOARD)
    viewer, engine = kvtop_pid(tmux), engines.wait_pid("shown")
    tmux.kill()
    wait_until(lambda: not alive(viewer), 60, "the screen outlived its terminal")
    wait_until(lambda: not alive(engine), 60, "the engine outlived the terminal")
    assert engines.sockets() == []


def test_a_dead_engine_leaves_its_last_view_and_its_return_is_joined(terminal: Terminal, engines: Engines) -> None:
    engine = engines.start("back")
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach back; echo code=$?")
    tmux.wait_for(DASHBOARD)
    os.kill(engine.pid, signal.SIGKILL)
    engine.wait()
    screen = tmux.wait_for(r"(?i)disconnected")
    assert "KV used" in screen, "the last view is gone"
    engines.start("back")
    wait_until(lambda: "disconnected" not in tmux.screen().lower(), 90, "it did not reconnect")
    tmux.wait_for(DASHBOARD)
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$", 60)
    assert_restored(tmux)


def test_a_demo_whose_engine_died_says_so_at_the_end(terminal: Terminal, engines: Engines) -> None:
    tmux = terminal(120, 30)
    tmux.run(f"{DEMO}; echo code=$?")
    tmux.wait_for(DASHBOARD)
    os.kill(engines.wait_pid("shown"), signal.SIGKILL)
    tmux.wait_for(r"(?i)disconnected")
    tmux.keys("q")
    screen = tmux.wait_for(r"(?m)^code=1$", 60)
    assert "the engine was ended by SIGKILL" in screen
    assert "shown.log" in screen
    assert engines.sockets() == []


def test_the_only_engine_needs_no_name_and_of_several_one_is_chosen(terminal: Terminal, engines: Engines) -> None:
    engines.start("alpha")
    tmux = terminal()
    tmux.run(KVTOP_TYPED)
    tmux.wait_for(rf"alpha[\s\S]*{DASHBOARD}")
    tmux.keys("q")
    assert_restored(tmux)
    engines.start("beta")
    tmux.run(f"clear; {KVTOP_TYPED}")
    tmux.wait_for(r"2\s+beta[\s\S]*which one")
    tmux.run("2")
    tmux.wait_for(rf"beta[\s\S]*{DASHBOARD}")
    assert tmux.ask("alternate_on") == "1"


def test_switching_a_policy_in_the_dialog(terminal: Terminal, engines: Engines) -> None:
    engines.start("dialog", "--set", "capacity=max_utilization")
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach dialog")
    tmux.wait_for(DASHBOARD)
    tmux.keys("P")
    tmux.wait_for(r"▸ capacity")
    tmux.keys("Enter")
    tmux.wait_for(r"● max_utilization\s+now")
    tmux.keys("k")
    tmux.wait_for(r"▸ ○ guaranteed_no_evict")
    tmux.keys("Enter")
    tmux.wait_for(r"> Cancel <")
    tmux.keys("Tab")
    tmux.wait_for(r"> Apply <")
    assert engines_policy(engines, "dialog") == "max_utilization", "changed before it was confirmed"
    tmux.keys("Enter")
    tmux.wait_for(r"took effect at iteration \d+")
    wait_until(
        lambda: engines_policy(engines, "dialog") == "guaranteed_no_evict", 60, "the screen said so, the engine did not"
    )
    document = json.loads(engines.kvtop("snapshot", "-e", "dialog", "-").stdout)
    (event,) = [event for event in document["events"] if event["kind"] == "policy"]
    assert (event["axis"], event["old"], event["new"]) == ("capacity", "max_utilization", "guaranteed_no_evict")
    assert event["pid"] == kvtop_pid(tmux)
    assert event["uid"] == os.getuid()


def engines_policy(engines: Engines, name: str) -> str:
    """The capacity policy by the engine's own word."""
    axes = json.loads(engines.kvtop("ctl", "-e", name, "policies", "--json").stdout)["axes"]
    value: str = next(axis["current"] for axis in axes if axis["name"] == "capacity")
    return value


def test_a_policy_switched_from_the_shell_shows_on_the_screen(terminal: Terminal, engines: Engines) -> None:
    engines.start("shell", "--set", "capacity=max_utilization")
    tmux = terminal(160, 40)
    tmux.run(f"{KVTOP_TYPED} attach shell")
    tmux.wait_for(rf"max_utilization[\s\S]*{DASHBOARD}")
    assert engines.kvtop("ctl", "set", "capacity=guaranteed_no_evict").returncode == 0
    tmux.wait_for(r"(?m)^.*capacity guaranteed_no_evict|^guaranteed_no_evict")
    tmux.wait_for(r"policy[^\n]*guaranteed_no_evict")


def test_a_snapshot_from_the_screen(terminal: Terminal, engines: Engines) -> None:
    engines.start("snap")
    tmux = terminal()
    tmux.run(f"{KVTOP_TYPED} attach snap")
    tmux.wait_for(DASHBOARD)
    tmux.keys("s")
    tmux.wait_for(r"kvtop-snap-\d")

    def files() -> list[Path]:
        return sorted(tmux.folder.glob("kvtop-snap-*"))

    wait_until(lambda: len(files()) == 2, 30, "no snapshot was written")
    first, second = files()
    assert (first.suffix, second.suffix) == (".json", ".svg")
    assert first.stat().st_mode & 0o777 == second.stat().st_mode & 0o777 == 0o600
    assert json.loads(first.read_text())["engine"]["name"] == "snap"
    assert "<svg" in second.read_text()


def test_a_snapshot_from_the_shell_has_the_screen_beside_it(engines: Engines, tmp_path: Path) -> None:
    engines.start("both")
    done = engines.kvtop("snapshot", "-o", str(tmp_path / "incident"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(tmp_path / "incident.json"), str(tmp_path / "incident.svg")]
    svg = (tmp_path / "incident.svg").read_text()
    assert "KV&#160;used" in svg
    assert "both" in svg


def test_a_terminal_too_small_says_what_it_needs(terminal: Terminal, engines: Engines) -> None:
    engines.start("tiny")
    tmux = terminal(50, 12)
    tmux.run(f"{KVTOP_TYPED} attach tiny; echo code=$?")
    tmux.wait_for(r"needs \d+x\d+, this terminal is 50x12")
    tmux.keys("q")
    tmux.wait_for(r"(?m)^code=0$", 60)
    assert_restored(tmux)


@pytest.mark.parametrize(("setting", "words"), [("TERM=dumb", "TERM"), ("KVTOP_COLOR=pink", "KVTOP_COLOR")])
def test_a_terminal_that_cannot_show_it_gets_a_line(
    terminal: Terminal, engines: Engines, setting: str, words: str
) -> None:
    engines.start("plain")
    tmux = terminal()
    tmux.run(f"{setting} {KVTOP_TYPED} attach plain; echo code=$?")
    screen = tmux.wait_for(r"(?m)^code=2$", 60)
    assert "Traceback" not in screen
    assert f"kvtop: {'the screen' if setting.startswith('TERM') else words}" in screen


def test_a_stalled_terminal_does_not_keep_it_from_ending(engines: Engines, environment: dict[str, str]) -> None:
    engines.start("stall")
    viewer, terminal = pty.fork()
    if viewer == 0:
        os.execvpe(KVTOP[0], [*KVTOP, "attach", "stall"], environment)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 200, 0, 0))
        seen = b""
        while b"\x1b[?1049h" not in seen:
            seen += os.read(terminal, 65536)
        # From here on nobody reads what it draws; the pipe to the terminal fills and blocks the writer.
        time.sleep(5)
        os.kill(viewer, signal.SIGTERM)
        ended: list[int] = []

        def gone() -> bool:
            pid, status = os.waitpid(viewer, os.WNOHANG)
            if pid:
                ended.append(os.waitstatus_to_exitcode(status))
            return bool(ended)

        wait_until(gone, 60, "it did not end")
        assert ended == [128 + signal.SIGTERM]
    finally:
        os.close(terminal)
