"""On which lines of a TOML document its keys stand, which the standard library's reader does not tell.

Nothing but lines is ever taken from here: values and their names are the reader's. So whatever this makes of a document, at
worst a complaint names the wrong line.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

DEEPEST = 32
"""Names with dots between. A document with more of them is looked at no further: what reads it takes gigabytes for a long row."""

Path = tuple[str | int, ...]
"""Names of tables and of the key; in lists, places."""


@dataclass(frozen=True, slots=True)
class Lines:
    """``of``: the line, from 1, of each key and table, where it is named first; ``entries``: all of them, in order;
    ``too_deep``: the line of a key of more than `DEEPEST` names."""

    of: Mapping[Path, int]
    entries: tuple[tuple[int, Path], ...]
    too_deep: int | None = None

    def line(self, *path: str | int) -> int | None:
        """The line of a key, or of the table it is in."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.of:
                return self.of[path[:length]]
        return None

    def last_before(self, line: int) -> tuple[int, Path] | None:
        """What is named last on that line, or before it, and on which."""
        return next((entry for entry in reversed(self.entries) if entry[0] <= line), None)


def lines_of(text: str) -> Lines:
    """Scans a document, which may be broken: what stands before the break is found."""
    scanner = _Scanner(text)
    with suppress(IndexError, ValueError, RecursionError):  # It is no TOML, or nested without end: the reader says so.
        scanner.document()
    first: dict[Path, int] = {}
    for line, path in scanner.entries:
        for length in range(1, len(path) + 1):
            first.setdefault(path[:length], line)
    return Lines(first, tuple(scanner.entries), scanner.too_deep)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n") + "\n"
        self.at, self.line = 0, 1
        self.entries: list[tuple[int, Path]] = []
        self.too_deep: int | None = None
        self._lists: dict[Path, int] = {}

    @property
    def next(self) -> str:
        return self.text[self.at]

    def step(self, count: int = 1) -> None:
        self.line += self.text.count("\n", self.at, self.at + count)
        self.at += count

    def expect(self, mark: str) -> None:
        if not self.text.startswith(mark, self.at):
            raise ValueError
        self.step(len(mark))

    def blanks(self, also: str = "") -> None:
        """Skips blanks, and where ``also`` has a line's end, comments too."""
        while self.at < len(self.text) and (self.next in " \t" or self.next in also or (also and self.next == "#")):
            if self.next == "#":
                self.step(self.text.index("\n", self.at) - self.at)
            else:
                self.step()

    def document(self) -> None:
        table: Path = ()
        while True:
            self.blanks("\n")
            if self.at >= len(self.text):
                return
            if self.next == "[":
                table = self.header()
            else:
                self.pair(table)
            self.blanks()
            if self.next == "#":
                self.blanks("\n")
            else:
                self.expect("\n")

    def header(self) -> Path:
        line = self.line
        many = self.text.startswith("[[", self.at)
        self.step(2 if many else 1)
        path = self.resolved(self.key())
        self.expect("]]" if many else "]")
        if many:
            self._lists[path] = self._lists.get(path, -1) + 1
            path = (*path, self._lists[path])
        self.entries.append((line, path))
        return path

    def resolved(self, key: tuple[str, ...]) -> Path:
        """In a list of tables, a name means the last of them."""
        path: Path = ()
        for place, part in enumerate(key):
            path = (*path, part)
            if place < len(key) - 1 and path in self._lists:
                path = (*path, self._lists[path])
        return path

    def pair(self, table: Path) -> None:
        line = self.line
        path = (*table, *self.key())
        self.entries.append((line, path))
        self.expect("=")
        self.blanks()
        self.value(path)

    def key(self) -> tuple[str, ...]:
        parts = []
        while True:
            self.blanks()
            parts.append(self.string() if self.next in "\"'" else self.bare())
            self.blanks()
            if self.next != ".":
                return tuple(parts)
            if len(parts) >= DEEPEST:
                self.too_deep = self.line
                raise ValueError
            self.step()

    def bare(self) -> str:
        start = self.at
        while self.next.isalnum() or self.next in "-_":
            self.step()
        if start == self.at:
            raise ValueError
        return self.text[start : self.at]

    def value(self, path: Path) -> None:
        if self.next in "\"'":
            self.string()
        elif self.next == "[":
            self.items(path, "]", lambda place: self.value((*path, place)))
        elif self.next == "{":
            self.items(path, "}", lambda _: self.pair(path))
        else:
            while self.next not in ",]}#\n":
                self.step()

    def items(self, path: Path, end: str, item: Callable[[int], None]) -> None:
        self.step()
        place = 0
        while True:
            self.blanks("\n")
            if self.next == end:
                self.step()
                return
            item(place)
            place += 1
            self.blanks("\n")
            if self.next == ",":
                self.step()
            elif self.next != end:
                raise ValueError

    def string(self) -> str:
        quote = self.next
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.step(len(mark))
        start = self.at
        while not self.text.startswith(mark, self.at):
            if self.next == "\n" and len(mark) == 1:
                raise ValueError
            self.step(2 if self.next == "\\" and quote == '"' else 1)
        text = self.text[start : self.at]
        self.step(len(mark))
        if len(mark) == 3:
            while self.at < len(self.text) and self.next == quote:  # up to two quotes may stand before the mark
                self.step()
        return _unescaped(text) if quote == '"' else text


_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}


def _unescaped(text: str) -> str:
    """What a quoted key says."""
    parts = text.split("\\")
    out, skip = [parts[0]], False
    for place, part in enumerate(parts[1:], 1):
        if skip:
            out.append(part)
            skip = False
        elif not part:
            out.append("\\")
            skip = place < len(parts) - 1
        elif part[0] in "uU":
            digits = 4 if part[0] == "u" else 8
            out.append(chr(int(part[1 : 1 + digits], 16)) + part[1 + digits :])
        else:
            out.append(_SHORT.get(part[0], part[0]) + part[1:])
    return "".join(out)
