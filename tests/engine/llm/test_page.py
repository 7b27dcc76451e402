"""The example of the page on Python runs as it is written there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("model", [pytest.param("smollm2", marks=[pytest.mark.model, pytest.mark.slow]), "random"])
def test_the_example_runs(
    model: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVTOP_SOCKET_DIR", str(folder))
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    exec(compile(code.replace('"smollm2"', f'"{model}"'), "docs/python.md", "exec"), {})
    said = capsys.readouterr().out
    assert len(re.findall(r"^(fcfs|shortest_prompt) r-000[0-3] \d+ ", said, re.MULTILINE)) == 8
    assert len(code.splitlines()) <= 12
