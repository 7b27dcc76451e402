"""Keys, pastes and the terminal's own answers told apart, whatever a paste holds.

Textual's parser looks for escape sequences inside a bracketed paste too. What follows an escape character there is
taken out of the paste and, where it is no known sequence, typed as keys: a pasted ``ESC q`` would leave the program.
An answer about the paper's colour is no sequence it knows either.
"""

import re
from collections.abc import Generator, Iterable
from typing import Final

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from kvtop.term.paper import ANSWER, Paper, answered

LONGEST_PASTE: Final = 1 << 20
"""Characters kept of one paste; the rest of it is dropped."""

_END_TAIL: Final = len(BRACKETED_PASTE_END) - 1

ANSWER_TICKS: Final = 100
"""Looks (see `KeyParser.tick`) for which an answer is waited for, and `PIECE_TICKS` for the rest of one that has begun."""

PIECE_TICKS: Final = 10

_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1(?:;[^\x07\x1b]{0,64}\x1b?)?)?)?)?\Z")


class PaperTold(Message):
    """The terminal has said what paper it has."""

    def __init__(self, paper: Paper) -> None:
        super().__init__()
        self.paper = paper


class KeyParser(XTermParser):
    """Textual's parser, which gets to see the two marks of a paste and nothing of what is between them.

    Args:
        debug: As for Textual's.
        asked: Whether the terminal was asked for its paper: its answer becomes a `PaperTold`, and no keys.
    """

    def __init__(self, debug: bool = False, asked: bool = False) -> None:
        super().__init__(debug)
        self._answer_due = ANSWER_TICKS if asked else 0
        self._begun = ""
        """The last characters typed: they may be the beginning of the answer."""
        self._begun_due = 0
        self._seen = ""
        """The last characters outside a paste: they may be the beginning of its mark."""
        self._pasted: list[str] | None = None
        self._size = 0
        self._open = ""
        """The last characters of the paste: they may be the beginning of the mark that ends it."""

    def feed(self, data: str) -> Iterable[Message]:
        if not data:
            yield from super().feed(data)  # the end of the input
        while data:
            if self._pasted is None:
                data = yield from self._type(data)
            else:
                data = yield from self._paste(data)

    def tick(self) -> Iterable[Message]:
        self._answer_due = max(0, self._answer_due - 1)
        if self._begun:
            self._begun_due -= 1
            if self._begun_due <= 0:
                begun, self._begun = self._begun, ""
                yield from super().feed(begun)
        for token in super().tick():
            # What was begun is given up: it has been the escape key, and what comes next is typed.
            self._seen = ""
            yield token

    def _type(self, data: str) -> Generator[Message, None, str]:
        """Hands keys on up to the beginning of a paste; returns what comes after it."""
        seen = self._seen + data
        at = seen.find(BRACKETED_PASTE_START)
        if at < 0:
            self._seen = seen[1 - len(BRACKETED_PASTE_START) :]
            yield from self._keys(data)
            return ""
        after = at + len(BRACKETED_PASTE_START) - len(self._seen)
        self._seen, self._pasted, self._size, self._open = "", [], 0, ""
        yield from self._keys(data[:after])
        return data[after:]

    def _keys(self, data: str) -> Iterable[Message]:
        """Hands on what is typed, without the terminal's answer in it."""
        data, self._begun = self._begun + data, ""
        if self._answer_due and (match := ANSWER.search(data)):
            self._answer_due = 0
            if before := data[: match.start()]:
                yield from super().feed(before)
            if (paper := answered(match[1])) is not None:
                yield PaperTold(paper)
            data = data[match.end() :]
        elif self._answer_due and (match := _BEGUN.search(data)):
            self._begun, data = match[0], data[: match.start()]
            # The key Escape, or Alt and a bracket, is not to be kept waiting.
            self._begun_due = PIECE_TICKS if len(self._begun) > 2 else 1
        if data:
            yield from super().feed(data)

    def _paste(self, data: str) -> Generator[Message, None, str]:
        """Takes what is pasted, up to its end; returns what comes after it."""
        assert self._pasted is not None
        data = self._open + data
        end = data.find(BRACKETED_PASTE_END)
        piece = data[:end] if end >= 0 else data[:-_END_TAIL]
        piece = piece[: LONGEST_PASTE - self._size]
        self._size += len(piece)
        self._pasted.append(piece)
        if end < 0:
            self._open = data[-_END_TAIL:]
            return ""
        text = "".join(self._pasted).replace("\0", "")
        self._pasted = None
        for token in super().feed(BRACKETED_PASTE_END):
            if not isinstance(token, events.Paste):
                yield token
        yield events.Paste(text)
        return data[end + len(BRACKETED_PASTE_END) :]
