import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.engines import Engines
from tests.e2e.tmux import Tmux


@pytest.fixture
def place() -> Iterator[Path]:
    """A socket folder of our own. Short: the path of a Unix socket has about a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="kvt") as name:
        os.chmod(name, 0o700)
        yield Path(name)


@pytest.fixture
def environment(place: Path) -> dict[str, str]:
    ours = ("TMUX", "TMUX_PANE", "NO_COLOR", "COLORTERM", "COLORFGBG")
    kept = {k: v for k, v in os.environ.items() if k not in ours}
    return kept | {"KVTOP_SOCKET_DIR": str(place), "TERM": "xterm-256color", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def engines(place: Path, environment: dict[str, str]) -> Iterator[Engines]:
    running = Engines(place, environment)
    yield running
    running.stop_all()


@pytest.fixture
def terminal(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Tmux]]:
    """Makes terminals: ``terminal(columns, rows)``; whatever still runs in them afterwards is ended."""
    made: list[Tmux] = []

    def make(columns: int = 80, rows: int = 24) -> Tmux:
        tmux = Tmux(environment, (columns, rows), tmp_path)
        tmux.start()
        made.append(tmux)
        return tmux

    yield make
    for tmux in made:
        tmux.kill()
