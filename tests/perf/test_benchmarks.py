"""Every benchmark can be called, and runs: what is measured once a month is broken by what changes every day."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL: dict[str, tuple[str, ...]] = {
    "engine_turn": ("--blocks", "1000", "--running", "8", "--waiting", "20", "--turns", "3"),
    "http_cost": ("--tokens", "5", "--streams", "2", "--rounds", "1"),
    "kv_error": ("--types", "float32"),
    "memory": ("--sizes", "4000"),
    "overhead": ("--model", "random", "--seconds", "0.2", "--rounds", "1"),
    "overnight": ("--minutes", "0.1", "--rate", "5"),
    "recording": ("--blocks", "2000", "--running", "4", "--seconds", "1"),
    "render": ("--frames", "10"),
    "rest": ("--seconds", "0.5", "--blocks", "500", "--requests", "10"),
    "sampling": ("--rows", "2"),
    "scale": ("--quick", "--only", "snapshot"),
    "soak": ("--minutes", "0.05"),
    "startup": ("--starts", "1"),
}
"""By module: the least it can be asked for."""


def test_every_benchmark_is_tried() -> None:
    found = {path.stem for path in Path(__file__).parent.glob("*.py") if "def main()" in path.read_text()}
    assert found - {Path(__file__).stem} == set(SMALL)


def test_make_perf_runs_all_that_do_not_take_an_hour() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert [name for name in SMALL if f"python -m tests.perf.{name}" not in makefile] == []


def test_each_says_how_it_is_called() -> None:
    # In one process: each of its own would import torch once more.
    code = (
        "import runpy, sys\n"
        f"for name in {sorted(SMALL)!r}:\n"
        "    sys.argv = [name, '--help']\n"
        "    try:\n"
        "        runpy.run_module(f'tests.perf.{name}', run_name='__main__')\n"
        "        print('RAN', name)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code, (name, end.code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "RAN" not in done.stdout, "without asking what was wanted, it began to measure"
    assert done.stdout.count("usage:") == len(SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_it_runs(name: str) -> None:
    command = [sys.executable, "-m", f"tests.perf.{name}", *SMALL[name]]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    # 1: over a bound, which so small a run may be.
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip(), "it measured nothing"
