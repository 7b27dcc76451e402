"""A terminal to run kvtop in: one tmux server of our own, one session, read back as text."""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path


class Tmux:
    """One session on a private tmux server (its own socket, no configuration)."""

    def __init__(self, environment: Mapping[str, str], size: tuple[int, int], folder: Path) -> None:
        self._server = f"kvtop-test-{os.getpid()}"
        self._place = tempfile.mkdtemp(prefix="kvtmux")
        self._environment = {**environment, "TMUX_TMPDIR": self._place}
        self.size = size
        self.folder = folder

    def _tmux(self, *arguments: str, check: bool = True) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._server, "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment,
        )
        if check and done.returncode:
            raise AssertionError(f"tmux {arguments[0]}: {done.stderr.strip()}")
        return done.stdout

    def start(self) -> None:
        """A plain shell; the command under test is typed into it, so that what it leaves behind can be seen."""
        columns, rows = self.size
        self._tmux(
            "new-session",
            "-d",
            "-c",
            str(self.folder),
            "-x",
            str(columns),
            "-y",
            str(rows),
            "env",
            "PS1=$ ",
            "HISTFILE=",
            "bash",
            "--norc",
            "-i",
        )
        self._tmux("set-option", "-g", "escape-time", "0")
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def keys(self, *names: str) -> None:
        """Keys by tmux's names: Enter, Escape, C-c, Up, …"""
        self._tmux("send-keys", *names)

    def send(self, text: str) -> None:
        """``text`` as the terminal would send it, byte by byte: what no key is named for."""
        self._tmux("send-keys", "-H", *(f"{byte:02x}" for byte in text.encode()))

    def click(self, pattern: str) -> None:
        """Presses and releases the left button in the middle of what ``pattern`` matches on the screen."""
        for line, text in enumerate(self.screen().splitlines(), 1):
            if match := re.search(pattern, text):
                column = (match.start() + match.end()) // 2 + 1
                self.send(f"\x1b[<0;{column};{line}M")
                self.send(f"\x1b[<0;{column};{line}m")
                return
        raise AssertionError(f"{pattern!r} is not on the screen:\n{self.screen()}")

    def paste(self, text: str) -> None:
        """As a terminal pastes into a program that has asked for pastes to be marked."""
        self._tmux("set-buffer", "-b", "pasted", text)
        self._tmux("paste-buffer", "-p", "-r", "-d", "-b", "pasted")

    def run(self, command: str) -> None:
        self.type(command)
        self.keys("Enter")

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def coloured(self) -> str:
        """The screen with its SGR sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    def paint(self, colour: str) -> None:
        """Gives the pane a background, which tmux names to who asks for it."""
        self._tmux("set-option", "-g", "window-style", f"bg={colour}")

    def ask(self, variable: str) -> str:
        """A tmux format variable of the pane, such as ``alternate_on`` or ``pane_pid``."""
        return self._tmux("display-message", "-p", "#{" + variable + "}").strip()

    def wait_for(self, pattern: str, seconds: float = 90.0) -> str:
        """The screen once ``pattern`` (a regular expression) is on it."""
        screens: list[str] = []

        def seen() -> bool:
            screens[:] = [self.screen()]
            return re.search(pattern, screens[0]) is not None

        wait_until(seen, seconds, lambda: f"{pattern!r} did not come to the screen:\n{screens[0]}")
        return screens[0]

    def kill(self) -> None:
        self._tmux("kill-server", check=False)
        shutil.rmtree(self._place, ignore_errors=True)


def wait_until(condition: Callable[[], bool], seconds: float, complaint: Callable[[], str] | str) -> None:
    """Polls; these machines are slow, so limits are generous and only reached by a failure."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(complaint if isinstance(complaint, str) else complaint())
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid: int) -> list[int]:
    """Processes whose parent is ``pid``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found
