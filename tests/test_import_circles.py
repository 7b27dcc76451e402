"""No module imports itself by way of others. What is imported for types alone counts: it has to be read, too."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def modules(package: str) -> dict[str, Path]:
    """By dotted name, the files of ``package``, a folder of the repository."""
    found = {}
    for path in (ROOT / package).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Modules of ``known`` that ``name`` imports, anywhere in its text."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *(node.module.split(".") if node.module else [])])
            wanted = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        for each in wanted:
            # ``from a.b import c`` names the module a.b.c, or something in a.b.
            target = each if each in known else each.rpartition(".")[0]
            if target in known and target != name:
                yield target


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan, without recursion)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        if root in order:
            continue
        work = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in stack:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    component = [stack.pop()]
                    while component[-1] != node:
                        component.append(stack.pop())
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


def graph_of(*packages: str) -> dict[str, set[str]]:
    known = {name: path for package in packages for name, path in modules(package).items()}
    return {name: set(imported(name, path, known)) for name, path in known.items()}


@pytest.mark.parametrize("packages", [("engine",), ("kvtop", "panels")], ids=" and ".join)
def test_nothing_runs_in_a_circle(packages: tuple[str, ...]) -> None:
    graph = graph_of(*packages)
    assert sum(map(len, graph.values())) > len(graph), "hardly any import was seen"
    found = circles(graph)
    assert not found, "\n".join(", ".join(circle) for circle in found)


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}) == [["a", "b"], ["c", "d"]]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_for_types_and_of_packages_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import A\n\n"
        "def f():\n    import p.b\n    from . import c\n    from .d import e\n"
    )
    known = {f"p.{name}": path for name in "abcd"}
    assert set(imported("p.x", path, known)) == {"p.a", "p.b", "p.c", "p.d"}
