"""Who drags in what, seen from a fresh interpreter: the contracts of `pyproject.toml`, held to at run time too."""

import json
import subprocess
import sys

import pytest


def _loaded_after(code: str) -> set[str]:
    """Top-level packages in ``sys.modules`` once ``code`` has run."""
    program = (
        code
        + "\nimport json, sys\nprint(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})), file=sys.__stdout__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


HELP = """
import contextlib, io
from kvtop.cli import main
for words in (["--help"], ["demo", "--help"]):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        main(words)
    assert "usage" in said.getvalue().lower()
"""

SCREEN = """
import asyncio, kvtop.app.picture, kvtop.state, kvtop.cli, kvtop.commands.attach, kvtop.commands.demo
assert "kvtop" in kvtop.app.picture.screen_svg(kvtop.state.EngineState(), (80, 24), 0.0)
"""

SCHEDULE = """
from tests.engine.fake_model import make_engine, request
engine, telemetry = make_engine()
engine.scheduler.add(request(0, [1, 2, 3, 4, 5], 4), engine.clock())
while engine.step() is not None:
    pass
assert engine.scheduler.totals.finished == 1
telemetry.keyframe()
"""


@pytest.mark.parametrize(
    ("what", "code", "kept_out"),
    [
        ("the help", HELP, {"torch", "textual", "rich", "pydantic", "numpy", "engine", "panels"}),
        ("the screen", SCREEN, {"torch", "engine", "triton", "gguf"}),
        ("the publisher", "import kvtop.publish", {"torch", "textual", "rich", "numpy", "engine", "panels"}),
        ("the sources", "import kvtop.sources.socket, kvtop.sources.control", {"torch", "textual", "rich", "engine"}),
        ("scheduler, pool and telemetry with a fake model", SCHEDULE, {"torch", "textual", "rich", "triton", "gguf"}),
    ],
)
def test_nothing_heavy_comes_along(what: str, code: str, kept_out: set[str]) -> None:
    assert not _loaded_after(code) & kept_out, f"{what} drags in what it must not"
