"""Pages that are made from the code: those that are committed are what the code says now."""

import importlib
import re
from pathlib import Path

import pytest

from kvtop.generated import main_of

ROOT = Path(__file__).resolve().parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
MODULES = re.findall(r"-m (\S+) --check", MAKEFILE)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_committed_is_current(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_of(module, importlib.import_module(module).files, ["--check"]) == 0, capsys.readouterr().err


def test_every_page_is_checked_by_make_and_written_by_it() -> None:
    documents = {
        str(path.relative_to(ROOT).with_suffix("")).replace("/", ".")
        for package in ("kvtop", "engine", "panels")
        for path in (ROOT / package).rglob("*.py")
        if "main_of(" in path.read_text() and path.name != "generated.py"
    }
    written = MAKEFILE.partition("\ndocs:")[2].partition("\n\n")[0]
    assert set(MODULES) == documents == set(re.findall(r"-m (\S+)", written))


def test_a_page_that_is_not_current_is_named_and_then_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, other = tmp_path / "docs" / "page.md", tmp_path / "other.md"
    other.write_text("as it is")
    before = other.stat().st_mtime_ns

    def run(*arguments: str) -> int:
        return main_of("a.module", lambda: {page: "new – text\n", other: "as it is"}, arguments)

    assert run("--check") == 1
    assert capsys.readouterr().err == f"{page} is not current; run: python -m a.module\n"
    assert not page.exists()
    assert run() == 0
    assert page.read_text(encoding="utf-8") == "new – text\n"
    assert other.stat().st_mtime_ns == before
    assert run("--check") == 0
    assert run("--wrong") == run("--check", "--check") == 2
