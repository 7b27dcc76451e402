"""What people install: a wheel of the repository in an empty environment, without torch, looks into a live engine."""

import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.engines import Engines
from tests.e2e.tmux import Tmux

ROOT = Path(__file__).resolve().parents[2]


def _run(*command: str | Path, **how: object) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        timeout=300,
        **how,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what the repository tracks, so that nothing is left in the working tree."""
    folder = tmp_path_factory.mktemp("build")
    source = folder / "source"
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "screenshots/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, source)
    (built,) = folder.glob("kvtop_live-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment that holds the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=False)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    _run(*pip, "install", "--quiet", "--no-compile", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return folder / "bin"


@pytest.fixture
def clean(environment: dict[str, str]) -> dict[str, str]:
    """The environment of a user who has only the wheel: no way back to this repository."""
    return {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def test_it_is_whole_and_typed(installed: Path, clean: dict[str, str], tmp_path: Path) -> None:
    found = _run(
        installed / "python",
        "-c",
        "import importlib.util as u, importlib.resources as r, kvtop, json;"
        "print(json.dumps([kvtop.__file__, u.find_spec('torch') is None,"
        " (r.files('kvtop') / 'py.typed').is_file(), (r.files('engine') / 'py.typed').is_file()]))",
        cwd=tmp_path,
        env=clean,
    )
    assert (installed.parent / "share" / "man" / "man1" / "kvtop.1").is_file(), "man kvtop finds it beside bin"
    file, no_torch, *typed = json.loads(found)
    assert str(installed.parent) in file
    assert no_torch, "the viewer must not bring torch"
    assert typed == [True, True]


def test_it_says_in_one_line_that_the_engine_is_an_extra(
    installed: Path, clean: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [str(installed / "kvtop"), "engine", "--model", "random"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=clean,
    )
    assert done.returncode != 0
    assert "kvtop-live[engine]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def screen(clean: dict[str, str], tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(clean, (80, 24), tmp_path)
    tmux.start()
    yield tmux
    tmux.kill()


def test_it_attaches(installed: Path, clean: dict[str, str], engines: Engines, screen: Tmux, tmp_path: Path) -> None:
    engines.start("served")
    listed = json.loads(_run(installed / "kvtop", "ls", "--json", cwd=tmp_path, env=clean))
    assert [engine["name"] for engine in listed["engines"] if engine["alive"]] == ["served"]
    document = json.loads(_run(installed / "kvtop", "snapshot", "-", cwd=tmp_path, env=clean))
    assert document["engine"]["name"] == "served"
    screen.run(f"{installed / 'kvtop'} attach served; echo code=$?")
    screen.wait_for(r"\d+ running")
    screen.keys("q")
    screen.wait_for(r"(?m)^code=0$", 60)
    assert os.listdir(tmp_path) == []
