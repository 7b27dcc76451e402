"""Runs the command line as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

HEAVY = ("torch", "textual", "pydantic", "numpy", "engine", "asyncio")


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "KVTOP_SOCKET_DIR": str(folder), "PYTHONWARNINGS": "error", "KVTOP_DEBUG": "", **more}


def kvtop(
    folder: Path, *arguments: str, timeout: float = 120, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """``kvtop ARGUMENTS`` without a terminal; the socket folder is ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "kvtop", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        cwd=cwd,
        env=environment(folder),
    )


def imported_by(*arguments: str) -> set[str]:
    """Top-level packages in ``sys.modules`` once ``kvtop ARGUMENTS`` has run."""
    code = (
        "import sys, contextlib, io\n"
        "from kvtop.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        f"    main({list(arguments)!r})\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    return set(done.stdout.split())


def assert_one_line(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """It failed with ``code`` and said why in one line (and perhaps what to do in a second), with all of ``words``."""
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert 1 <= len(lines) <= 2, done.stderr
    assert lines[0].startswith("kvtop: ")
    for word in words:
        assert word in done.stderr
