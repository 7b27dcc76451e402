"""kvtop's own engine as a child process: started, listened to, and ended whatever happens to the parent.

When the parent goes, the orderly `EngineChild.stop` ends it, or else its stdin, a pipe that closes with the parent however
that dies; on Linux the engine, told ``--parent-stdin``, asks the kernel for a signal at the parent's death besides.
"""

import contextlib
import importlib.util
import json
import os
import queue
import signal
import site
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvtop
from kvtop.errors import UserError, one_line

TERM_AFTER = 3.0
KILL_AFTER = 6.0
"""Seconds after closing its stdin at which a child that is still there is terminated, and killed."""

SILENCE_LIMIT = 900.0
"""Seconds without a word before it is ready, after which a child is given up (a stalled download reports itself)."""

_MAX_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a step of the start-up is, in bytes; ``total`` is None where it is not known."""

    what: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine serves: where it can be observed and commanded, and where it takes requests, if it does."""

    name: str
    socket: Path
    control: Path
    http: str | None = None


def require_engine() -> None:
    """Raises `UserError` unless the engine and what it needs are installed. Imports neither."""
    for module in ("engine", "torch", "gguf", "tokenizers", "safetensors"):
        if importlib.util.find_spec(module) is None:
            raise UserError(
                f"kvtop's own engine is not installed (no module {module})",
                'install it: pip install "kvtop-live[engine]"',
            )


def engine_command(arguments: Sequence[str]) -> list[str]:
    """The command line of the engine. ``-P``: a folder ``engine`` where the user happens to stand is not ours."""
    return [sys.executable, "-P", "-m", "engine", *arguments]


def engine_environment() -> dict[str, str]:
    """The environment in which ``-m engine`` finds the engine that came with this kvtop, also in a bare checkout."""
    environment = dict(os.environ)
    root = str(Path(kvtop.__file__).resolve().parents[1])
    if root not in [*site.getsitepackages(), site.getusersitepackages()]:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
    return environment


class EngineChild:
    """One engine process. ``arguments`` go to ``python -m engine``; what it says beside its reports goes to ``log``;
    ``environment`` goes before the parent's."""

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._environment = dict(environment or {})
        self._arguments = arguments
        self._reports: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._process: subprocess.Popen[bytes] | None = None
        self._sockets: tuple[Path, ...] = ()

    def start(self) -> None:
        """Raises `UserError` where the process or its log cannot be made.

        Call it from the main thread: the kernel's signal comes when the *thread* that started the child ends.
        """
        try:
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise UserError(f"cannot write the engine's log {self.log}: {error.strerror}") from None
        try:
            self._process = subprocess.Popen(
                engine_command(self._arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=engine_environment() | self._environment,
                # Of its own session: Ctrl-C is for the parent, which then ends the child in good order.
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"cannot start the engine: {error.strerror}") from None
        finally:
            os.close(log)
        threading.Thread(target=self._listen, name="engine-reports", daemon=True).start()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return None if self._process is None else self._process.poll()

    def wait_ready(self, on_progress: Callable[[Progress], None], on_note: Callable[[str], None]) -> Ready:
        """Blocks until the engine serves. Raises `UserError` with the engine's own sentence when it cannot."""
        while True:
            try:
                report = self._reports.get(timeout=SILENCE_LIMIT)
            except queue.Empty:
                raise UserError(
                    f"the engine has said nothing for {SILENCE_LIMIT:.0f} s", f"its log: {self.log}"
                ) from None
            if report is None:
                raise UserError(
                    f"the engine did not start: {self.obituary()}", f"its log: {self.log}", self._failure_code()
                )
            if isinstance(progress := report.get("progress"), dict):
                on_progress(_progress(progress))
            elif "note" in report:
                on_note(one_line(report["note"]))
            elif "failed" in report:
                hint = one_line(report.get("hint") or "")
                raise UserError(one_line(report["failed"]), hint, self._failure_code())
            elif isinstance(ready := report.get("ready"), dict):
                places = Ready(str(ready["name"]), Path(ready["socket"]), Path(ready["control"]), ready.get("http"))
                self._sockets = (places.socket, places.control)
                return places

    def obituary(self) -> str:
        """How it ended, and the last thing it said."""
        code = self._exit_code_soon()
        if code is None:
            how = "it closed its output"
        elif code < 0:
            how = f"ended by {signal_name(-code)}"
        else:
            how = f"exit code {code}"
        return f"{how}; last words: {last}" if (last := _last_line(self.log)) else how

    def stop(self) -> int | None:
        """Ends it: stdin closes, then SIGTERM, then SIGKILL. Returns its exit code. A second call does nothing more.

        An exception that arrives meanwhile (a second Ctrl-C) kills it at once.
        """
        process = self._process
        if process is None:
            return None
        try:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            for patience, action in (
                (TERM_AFTER, process.terminate),
                (KILL_AFTER - TERM_AFTER, process.kill),
            ):
                try:
                    process.wait(patience)
                    break
                except subprocess.TimeoutExpired:
                    action()
        except BaseException:
            process.kill()
            raise
        finally:
            process.wait()
            for path in self._sockets:
                remove_if_dead(path)
        if process.returncode == 0 or _is_empty(self.log):
            self.log.unlink(missing_ok=True)
        return process.returncode

    def _exit_code_soon(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._running.wait(2.0)
        return None

    def _failure_code(self) -> int:
        """The engine, too, exits with 2 for wrong usage."""
        return 2 if self._exit_code_soon() == 2 else 1

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the engine was not started")
        return self._process

    def _listen(self) -> None:
        """Reads its reports for as long as it lives, so that its pipe never fills; ends them with None."""
        stream = self._running.stdout
        if stream is None:
            raise RuntimeError("the engine's output is not a pipe")
        with stream, self.log.open("ab", buffering=0) as log:
            while line := stream.readline(_MAX_LINE):
                try:
                    report = json.loads(line)
                except ValueError:
                    report = None
                if isinstance(report, dict):
                    self._reports.put(report)
                else:
                    log.write(line)
        self._reports.put(None)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def remove_if_dead(path: Path) -> None:
    """Removes a socket that nobody listens on; a killed engine cannot do it itself."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()


def _progress(report: dict[str, Any]) -> Progress:
    done, total = report.get("done"), report.get("total")
    return Progress(
        one_line(report.get("what") or "starting", 40),
        done if isinstance(done, int) and done >= 0 else 0,
        total if isinstance(total, int) and total > 0 else None,
    )


def _is_empty(path: Path) -> bool:
    """Also where there is none."""
    with contextlib.suppress(OSError):
        return path.stat().st_size == 0
    return True


def _last_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((text for line in reversed(lines) if (text := one_line(line, 200))), "")
