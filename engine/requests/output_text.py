"""The text of a growing output: as far as it is certain, up to the first stop string."""

import codecs
from collections.abc import Callable, Iterable, Sequence

TokenBytes = Callable[[int], bytes]
"""UTF-8 bytes of one token, possibly part of a character; a special token's are empty."""


class StopString:
    """Finds one string in bytes that come one by one, after Knuth, Morris and Pratt (1977): each byte costs a few steps,
    whatever the string. Shared by all outputs that look for it; where each of them is, they keep themselves."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bytes = text.encode()
        self._back = [0] * len(self.bytes)
        for place in range(1, len(self.bytes)):
            self._back[place] = self.advance(self._back[place - 1], self.bytes[place])

    def __len__(self) -> int:
        return len(self.bytes)

    def advance(self, matched: int, byte: int) -> int:
        """How many bytes of it the output ends with after ``byte``, when it ended with ``matched``, all but complete."""
        while matched and self.bytes[matched] != byte:
            matched = self._back[matched - 1]
        return matched + (self.bytes[matched] == byte)


class OutputText:
    """Grows by tokens. ``text`` never changes what it said: a character that is not complete and what may be the beginning
    of a stop string are held back. UTF-8 finds its own characters, so matching bytes is matching text.

    ``matched``: the stop string that ended it; of several, the one complete first, of these the longest. In the text of the
    first ``min_tokens`` tokens none is looked for.
    """

    __slots__ = (
        "_decoder",
        "_held",
        "_min_tokens",
        "_progress",
        "_spared",
        "_stops",
        "_token_bytes",
        "matched",
        "text",
    )

    def __init__(self, token_bytes: TokenBytes, stops: Sequence[StopString] = (), min_tokens: int = 0) -> None:
        self._token_bytes = token_bytes
        self._stops = tuple(stops)
        self._min_tokens = self._spared = min_tokens
        self._progress = [0] * len(self._stops)
        self._held = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.text = ""
        self.matched: str | None = None

    def fresh(self) -> "OutputText":
        """One with nothing in it that looks for the same."""
        return OutputText(self._token_bytes, self._stops, self._min_tokens)

    def copy(self) -> "OutputText":
        """One that goes on from here by itself."""
        other = self.fresh()
        other._progress, other._held, other.text = list(self._progress), self._held, self.text
        other._decoder.setstate(self._decoder.getstate())
        other.matched, other._spared = self.matched, self._spared
        return other

    def of(self, tokens: Iterable[int]) -> "OutputText":
        """One of these tokens, complete."""
        other = self.fresh()
        for token in tokens:
            other.add(token)
        other.finish()
        return other

    def add(self, token: int) -> None:
        """One token more; nothing after ``matched``. Raises what the tokenizer raises."""
        if self.matched is not None:
            return
        data = self._token_bytes(token)
        if not self._stops or self._spared:
            self.text += self._decoder.decode(data)
            self._spared = max(0, self._spared - 1)
            return
        end, found = self._walk(data, self._progress)
        data = self._held + data[:end]
        if found is not None:
            self.matched, self._held = found.text, b""
            self.text += self._decoder.decode(data[: len(data) - len(found)], final=True)
            return
        certain = len(data) - max(self._progress)
        self.text += self._decoder.decode(data[:certain])
        self._held = data[certain:]

    def would_stop(self, token: int) -> bool:
        """Whether a stop string would be complete with ``token``."""
        return (
            bool(self._stops)
            and not self._spared
            and self._walk(self._token_bytes(token), list(self._progress))[1] is not None
        )

    def finish(self) -> None:
        """Nothing more comes: what was held back is text after all, an incomplete character U+FFFD. Safe to repeat."""
        if self.matched is None:
            self.text += self._decoder.decode(self._held, final=True)
            self._held, self._progress = b"", [0] * len(self._stops)

    def _walk(self, data: bytes, progress: list[int]) -> tuple[int, StopString | None]:
        """Moves ``progress`` on through ``data``, up to the first match: the bytes it took, and the match."""
        for place, byte in enumerate(data, start=1):
            for number, stop in enumerate(self._stops):
                progress[number] = stop.advance(progress[number], byte)
            complete = [s for s, matched in zip(self._stops, progress, strict=True) if matched == len(s)]
            if complete:
                return place, max(complete, key=len)
        return len(data), None
