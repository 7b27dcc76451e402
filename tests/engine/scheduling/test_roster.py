"""The request lists have one owner."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import engine
from tests.engine.driving import Drive

ROOT = Path(engine.__file__).parent
OWNER = ROOT / "scheduling" / "roster.py"
LISTS = {"requests", "running", "waiting"}
CHANGES = {"append", "add", "insert", "remove", "pop", "clear", "extend", "update", "setdefault", "popitem", "sort"}
CHANGES |= {"reverse", "reorder"}


def _is_list_of_scheduler(node: ast.AST) -> bool:
    """``….running``, ``….roster.waiting``, ``_running`` too."""
    return isinstance(node, ast.Attribute) and node.attr.removeprefix("_") in LISTS


def _is_own(node: ast.AST) -> bool:
    """``self.requests``: where it is not the scheduler's, something else of that name."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def writes(tree: ast.AST, *, own: bool = True) -> Iterator[tuple[int, str]]:
    """Line and what is written there, of every write to a list of that name; ``own``: attributes of ``self`` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if (
                node.func.attr in CHANGES
                and _is_list_of_scheduler(node.func.value)
                and (own or not _is_own(node.func.value))
            ):
                yield node.lineno, ast.unparse(node.func)
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Delete):
            targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
            for target in targets:
                inner = target.value if isinstance(target, ast.Subscript) else target
                if _is_list_of_scheduler(inner) and (own or not _is_own(inner)):
                    yield node.lineno, ast.unparse(target)


def test_nobody_but_their_owner_writes_the_request_lists() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} writes {what}"
        for path in ROOT.rglob("*.py")
        if path != OWNER
        for line, what in writes(ast.parse(path.read_text()), own="scheduling" in path.parts)
    ]
    assert not found, found
    owned = OWNER.read_text()
    assert all(f"self._{name}" in owned for name in LISTS), "the owner calls them otherwise: this test sees nothing"


@pytest.mark.parametrize(
    "line",
    [
        "roster.running.append(request)",
        "scheduler.requests[num] = request",
        "del self.roster.requests[num]",
        "self.scheduler.waiting.remove(head)",
        "roster._running.insert(0, request)",
        "self.running = []",
        "self.running += [request]",
    ],
)
def test_a_write_is_seen(line: str) -> None:
    assert list(writes(ast.parse(line)))


def test_a_request_that_ended_is_no_more_why_the_queue_waits() -> None:
    drive = Drive(max_running=1)
    drive.add(1)
    head = drive.add(2)
    drive.step()
    assert drive.scheduler.verdict is not None
    drive.scheduler.abort(head, drive.now)
    assert drive.scheduler.verdict is None
