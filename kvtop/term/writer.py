"""Where the screen's bytes go: a terminal that may be slow, may be set not to block, and may be gone."""

import os
import select
from collections.abc import Callable
from typing import Final

from kvtop.term.charset import NEAREST

PATIENCE: Final = 1.0
"""Seconds between two looks at a terminal that takes nothing for now."""


class TerminalWriter:
    """A file to write text to, for Textual's writer thread.

    Args:
        number: File descriptor.
        encoding: Of the terminal; what it lacks is written as ASCII of the same width.
        on_gone: Called once, in the writing thread, when the terminal takes nothing any more. Text is dropped from then on.
    """

    def __init__(self, number: int, encoding: str, on_gone: Callable[[], None]) -> None:
        self._number, self._encoding, self._on_gone = number, encoding, on_gone
        self._gone = False

    def write(self, text: str) -> int:
        """Takes all of ``text``; blocks while the terminal does."""
        data = memoryview(b"" if self._gone else text.encode(self._encoding, NEAREST))
        while data:
            try:
                data = data[os.write(self._number, data) :]
            except BlockingIOError:
                # Another program that shares the terminal has set it so, and for all who share it.
                select.select([], [self._number], [], PATIENCE)
            except OSError:
                self._gone = True
                self._on_gone()
                break
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def fileno(self) -> int:
        return self._number
