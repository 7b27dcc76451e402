"""Keys and pastes told apart, whatever a paste holds.

Textual's parser looks for escape sequences inside a bracketed paste too. What follows an escape character there is
taken out of the paste and, where it is no known sequence, typed as keys: a pasted ``ESC q`` would leave the program.
"""

from collections.abc import Generator, Iterable
from typing import Final

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

LONGEST_PASTE: Final = 1 << 20
"""Characters kept of one paste; the rest of it is dropped."""

_END_TAIL: Final = len(BRACKETED_PASTE_END) - 1


class KeyParser(XTermParser):
    """Textual's parser, which gets to see the two marks of a paste and nothing of what is between them."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
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
            yield from super().feed(data)
            return ""
        after = at + len(BRACKETED_PASTE_START) - len(self._seen)
        self._seen, self._pasted, self._size, self._open = "", [], 0, ""
        yield from super().feed(data[:after])
        return data[after:]

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
