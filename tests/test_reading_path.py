"""The path through one step that `docs/engine.md` begins with exists, and can be read in one sitting."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_LINES = 1500


def _lines(path: Path, part: str) -> int:
    """Of the whole file (``part`` empty), or of the functions and methods named in it."""
    text = path.read_text()
    names = re.findall(r"`([\w.]+)`", part)
    if not names:
        return len(text.splitlines())
    found = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno is not None
    }
    return sum(found[name] for name in names)


def test_the_path_through_one_step_is_short_and_its_stations_exist() -> None:
    text = (ROOT / "docs" / "engine.md").read_text().split("\n## ")[1]
    stations = re.findall(r"^\| `engine/([\w/]+\.py)`([^|]*)\|", text, re.MULTILINE)
    assert len(stations) > 8
    lines = sum(_lines(ROOT / "engine" / name, part) for name, part in stations)
    assert lines <= MOST_LINES, f"{lines} lines"
    claimed = re.search(r"([\d,]+) lines", text)
    assert claimed is not None
    assert int(claimed.group(1).replace(",", "")) >= lines
