"""Lines of keys, found by a scanner of our own: compared with documents whose lines are known, and never an exception."""

import tomllib
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvtop.settings.definitions import quoted
from kvtop.settings.lines import lines_of

NAMES = st.text(st.sampled_from("ab-_1 .\"'#=[\\é"), max_size=4)
SCALARS = st.sampled_from(
    [
        "1",
        "true",
        "1.5e3",
        "1979-05-27T07:32:00",
        '"a # b"',
        "'it]s'",
        '"q\\"\\\\"',
        '"""x\n= "y" #\\\n\n""""',
        "'''\n[k]\n'''",
    ]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.tuples(st.just("list"), st.lists(inner, max_size=3)),
        st.tuples(st.just("table"), st.dictionaries(NAMES, inner, max_size=3)),
    ),
    max_leaves=4,
)
FILLING = st.sampled_from(["", "\n", "# a = 1 [b]\n", "  \n\n", "\t# '''\n"])


class Written:
    """A document as it is written piece by piece, with the line of every key."""

    def __init__(self, draw: Any) -> None:
        self.text, self.draw = "", draw
        self.lines: dict[tuple[str | int, ...], int] = {}

    def add(self, text: str) -> None:
        self.text += text

    def mark(self, path: tuple[str | int, ...]) -> None:
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def name(self, name: str) -> str:
        if name and all(c in "ab-_1" for c in name) and self.draw(st.booleans()):
            return name
        if "'" not in name and self.draw(st.booleans()):
            return f"'{name}'"
        return quoted(name)

    def value(self, value: Any, path: tuple[str | int, ...]) -> None:
        if isinstance(value, str):
            self.add(value)
            return
        kind, inner = value
        if kind == "list":
            self.add("[")
            for place, item in enumerate(inner):
                self.add(self.draw(FILLING))
                self.value(item, (*path, place))
                self.add(self.draw(FILLING) + ",")
            self.add(self.draw(FILLING) + "]")
        else:
            self.add("{")
            for place, (name, item) in enumerate(inner.items()):
                self.add(", " if place else " ")
                self.pair(name, item, path)
            self.add("}")

    def pair(self, name: str, value: Any, path: tuple[str | int, ...]) -> None:
        self.mark((*path, name))
        self.add(f"{self.name(name)} = ")
        self.value(value, (*path, name))


def keys_of(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    for place, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(value, dict):
            yield (*path, place)
        if isinstance(inner, dict | list):
            yield from keys_of(inner, (*path, place))


@given(st.data())
def test_every_key_of_a_random_document_is_found_on_its_line(data: st.DataObject) -> None:
    made = Written(data.draw)
    pairs = st.dictionaries(NAMES, VALUES, max_size=3)

    def body(path: tuple[str | int, ...]) -> None:
        for name, value in data.draw(pairs).items():
            made.add(data.draw(FILLING) + data.draw(st.sampled_from(["", "  "])))
            made.pair(name, value, path)
            made.add(data.draw(st.sampled_from(["\n", " # x\n", "\r\n"])))

    body(())
    for number, name in enumerate(data.draw(st.lists(NAMES, max_size=3, unique=True))):
        # A name that no pair at the top has, and a table below it, or two in a list.
        outer = f"t{number}"
        many = data.draw(st.booleans())
        for place in range(2 if many else 1):
            made.add(data.draw(FILLING))
            path: tuple[str | int, ...] = (outer, name, place) if many else (outer, name)
            made.mark((outer,))
            made.mark((outer, name))
            made.add(("[[{} . {}]]\n" if many else "[{}.{}]\n").format(outer, made.name(name)))
            body(path)
    lines = lines_of(made.text)
    for path in keys_of(tomllib.loads(made.text)):
        assert lines.line(*path) == made.lines[path], (path, made.text)


@given(st.text(st.sampled_from("ab.=[]{},\"'\\#\n \té\r0")))
def test_whatever_stands_there_it_raises_nothing(text: str) -> None:
    lines_of(text).line("a", "b")


def test_a_document_nested_without_end_is_given_up() -> None:
    assert lines_of("a = 1\nb = " + "[" * 100_000).line("a") == 1
