"""Engines with random weights, started and asked as a user would."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kvtop.protocol.places import observe_path
from kvtop.sources.discover import look
from tests.e2e.tmux import wait_until

KVTOP = [sys.executable, "-m", "kvtop"]
KVTOP_TYPED = f"{sys.executable} -m kvtop"


class Engines:
    """Processes of ``kvtop engine`` in one socket folder."""

    def __init__(self, place: Path, environment: Mapping[str, str]) -> None:
        self.place = place
        self.environment = dict(environment)
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        """An engine with a workload, ready. Its workload is slow enough for its events to stay in sight."""
        arguments = ["engine", "--model", "random", "--workload", "mix", "--rate", "2", "--name", name, *options]
        log = self.place / f"{name}.test-log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*KVTOP, *arguments], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=self.environment
            )
        self._running.append(process)

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return self.pid(name) is not None

        wait_until(ready, 120, lambda: f"engine {name} did not start: {log.read_text()}")
        return process

    def kvtop(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*KVTOP, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment,
        )

    def pid(self, name: str) -> int | None:
        """Its pid by its own word; None where it is not (yet) running."""
        # Asked from here: a process of `kvtop ls` for each try takes longer than the engine takes to start.
        found = look(name, observe_path(self.place, name))
        return found.hello.engine.pid if found.hello is not None else None

    def wait_pid(self, name: str) -> int:
        found: list[int] = []

        def there() -> bool:
            if (pid := self.pid(name)) is not None:
                found.append(pid)
            return bool(found)

        wait_until(there, 120, f"engine {name} did not start")
        return found[0]

    def sockets(self) -> list[str]:
        return sorted(entry.name for entry in self.place.iterdir() if entry.is_socket())

    def stop_all(self) -> None:
        for process in self._running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
