"""What the page says of the format is so: its ten lines of Python read a recording."""

import re
from pathlib import Path

import pytest

from kvtop.record import Recording
from tests.recordings.kit import recording, told

PAGE = Path(__file__).parents[2] / "docs" / "recording.md"


def test_the_program_on_the_page_reads_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path / "a.kvtop", told())
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(program.replace('"FILE"', repr(str(path))), {})
    chunks = Recording(path).chunks
    said = [f"{list(chunk.summary.seqs)} {chunk.summary.lines} lines" for chunk in chunks]
    assert capsys.readouterr().out.splitlines() == said
