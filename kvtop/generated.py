"""Files that are made from the code and committed: written anew, or compared with what is committed."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

Files = Mapping[Path, str]
"""The whole text of each file."""


def cell(text: str) -> str:
    """``text`` in a table of Markdown."""
    return text.replace("|", "\\|").replace("\n", " ")


def main_of(module: str, files: Callable[[], Files], arguments: Sequence[str]) -> int:
    """What ``python -m MODULE`` does, and its exit code: it writes those ``files`` that are not current. With ``--check`` it
    writes none, and names them (1). Wrong usage is 2."""
    if list(arguments) not in ([], ["--check"]):
        print(f"usage: python -m {module} [--check]", file=sys.stderr)
        return 2
    stale = {path: text for path, text in files().items() if _committed(path) != text}
    if arguments:
        for path in stale:
            name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{name} is not current; run: python -m {module}", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _committed(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
