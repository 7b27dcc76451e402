"""A line on a terminal that is written anew again and again."""

from typing import TextIO

from kvtop.commands.table import columns

UNKNOWN_WIDTH = 80
"""Columns of a terminal that does not say."""


class RewrittenLine:
    """Never as wide as the terminal is at that moment: of a line that wraps each version would leave its first part behind."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.terminal = stream.isatty()
        """Whether there is somebody who looks."""
        self._open = False

    def show(self, text: str) -> None:
        self.put(f"\r\x1b[K{text[: max(1, (columns(self._stream) or UNKNOWN_WIDTH) - 1)]}")
        self._open = True

    def clear(self) -> None:
        """Takes it away."""
        self._end("\r\x1b[K")

    def end(self) -> None:
        """Leaves it as it is, and what follows begins on the next."""
        self._end("\n")

    def put(self, text: str) -> None:
        """As it is. Progress is a courtesy: whoever closed the stream does not want it."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self.terminal = False

    def _end(self, text: str) -> None:
        if self._open:
            self.put(text)
            self._open = False
