"""What the written pages name is there: files, folders, make targets, policies."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.__main__ import parser
from engine.http.chat import ChatRequest
from engine.http.completions import CompletionRequest
from engine.policies.policy_set import AXES
from kvtop.cli import build_parser

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/engine.md",
    "docs/serving.md",
    "docs/metrics.md",
    "docs/terminals.md",
    "docs/config.md",
    "docs/snapshot.md",
    "docs/alarms.md",
    "docs/load.md",
)
FOLDERS = ("engine", "kvtop", "panels", "tests", "docs", "screenshots")


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def there(name: str) -> bool:
    """A page may leave out the folders that it speaks of: any file or folder of the project ends with its name."""
    return (ROOT / name).exists() or any(
        f"/{path.relative_to(ROOT)}".endswith("/" + name.rstrip("/"))
        for top in FOLDERS
        for path in (ROOT / top).rglob("*")
    )


def sources() -> Iterator[Path]:
    for package in ("engine", "kvtop", "panels"):
        yield from (ROOT / package).rglob("*.py")


@pytest.mark.parametrize("page", PAGES)
def test_files_and_modules_that_a_page_names_are_there(page: str) -> None:
    text = text_of(page)
    named = set(re.findall(r"`((?:\w+/)+[\w-]*(?:\.\w+)?|\w+\.py)`", text)) | set(re.findall(r"\]\(([\w./-]+)\)", text))
    named |= {
        name.replace(".", "/") + ".py" for name in re.findall(r"python -m ((?:tests|kvtop|engine)\.[\w.]+)", text)
    }
    named = {name for name in named if "NAME" not in name}
    assert not {name for name in named if not there(name)}


@pytest.mark.parametrize("page", PAGES)
def test_targets_that_a_page_tells_to_make_are_in_the_makefile(page: str) -> None:
    targets = set(re.findall(r"^(\w+):", text_of("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make (\w+)", text_of(page), re.MULTILINE)) <= targets


def test_variables_that_are_asked_for_are_written_down_and_those_written_down_are_asked_for() -> None:
    def variables(text: str) -> set[str]:
        return set(re.findall(r"KVTOP_[A-Z_]+", text))

    code = variables("".join(path.read_text() for path in sources()))
    assert variables("".join(map(text_of, PAGES))) == code


def options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Of a parser and its commands."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from options(command)


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CONTRIBUTING.md"])
def test_options_that_a_page_names_are_options(page: str) -> None:
    known = {*options(build_parser()), *options(parser())}
    told = {
        word for code in re.findall(r"`([^`]*)`", text_of(page)) for word in re.findall(r"(?<!\S)--[a-z][a-z-]+", code)
    }
    assert told <= known


def test_every_policy_and_every_choice_is_in_the_table_of_the_engine_page() -> None:
    rows = re.findall(
        r"^\| (?:`(\w+)`)? ?\| ([^|]+) \|", text_of("docs/engine.md").split("| axis | choices")[1], re.MULTILINE
    )
    told: dict[str, set[str]] = {}
    axis = ""
    for name, choices in rows:
        axis = name or axis
        if axis in AXES:
            told.setdefault(axis, set()).update(re.findall(r"`(\w+)`", choices))
    assert {name: told.get(name) for name in AXES if AXES[name].kind == "choice"} == {
        name: set(axis.choices) for name, axis in AXES.items() if axis.kind == "choice"
    }
    assert set(told) == set(AXES)


def test_every_field_of_a_request_over_http_is_written_down() -> None:
    told = set(re.findall(r"`(\w+)`", text_of("docs/serving.md")))
    assert {*CompletionRequest.model_fields, *ChatRequest.model_fields} <= told


def test_every_recipe_names_what_it_touches() -> None:
    recipes = re.split(r"^### ", text_of("CONTRIBUTING.md").split("## Recipes")[1], flags=re.MULTILINE)[1:]
    assert [recipe.splitlines()[0] for recipe in recipes] == [
        "A policy axis", "A panel", "A source", "A command", "A setting", "A number", "A column of the requests table", "A field of a request", "A model family", "A block state", "An event kind", "An alarm",
    ]  # fmt: skip
    for recipe in recipes:
        assert re.search(r"`\w+/[\w/]+\.py`", recipe)


def test_the_makefile_runs_every_benchmark() -> None:
    """One that is run has a ``main``; the others help them."""
    benchmarks = {path.stem for path in (ROOT / "tests" / "perf").glob("*.py") if "\ndef main(" in path.read_text()}
    assert set(re.findall(r"-m tests\.perf\.(\w+)", text_of("Makefile"))) == benchmarks
