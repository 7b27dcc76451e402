"""Start-up progress on stderr: one line that rewrites itself on a terminal, a line now and then elsewhere."""

import sys
import time
from typing import TextIO

from kvtop.commands.child import Progress
from kvtop.commands.rewritten import RewrittenLine

_EVERY_TERMINAL = 0.1
_EVERY_LOG = 5.0


class ProgressLine:
    """Call it with each report; `close` before anything else is written to the same stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._line = RewrittenLine(sys.stderr if stream is None else stream)
        self._what = ""
        self._shown = 0.0
        self._began = (0.0, 0)  # when this step began, and how many bytes were there already

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        new = progress.what != self._what
        if new:
            self.close()
            self._what = progress.what
            self._began = (now, progress.done)
        done = progress.total is not None and progress.done >= progress.total
        if new or done or now - self._shown >= (_EVERY_TERMINAL if self._line.terminal else _EVERY_LOG):
            self._shown = now
            self._write(self._text(progress, now))

    def note(self, text: str) -> None:
        """One sentence on a line of its own."""
        self.close()
        self._line.put(f"kvtop: {text}\n")

    def close(self) -> None:
        """Ends the line that is being rewritten."""
        self._line.end()

    def _text(self, progress: Progress, now: float) -> str:
        if progress.total is None and not progress.done:
            return progress.what
        parts = [f"{progress.what}: {progress.done / 1e6:.1f}"]
        if progress.total is not None:
            parts.append(f"of {progress.total / 1e6:.1f} MB, {100 * progress.done // progress.total} %")
        else:
            parts.append("MB")
        seconds, gained = now - self._began[0], progress.done - self._began[1]
        if seconds >= 1.0 and gained > 0:
            parts.append(f"({gained / seconds / 1e6:.1f} MB/s)")
        return " ".join(parts)

    def _write(self, text: str) -> None:
        if self._line.terminal:
            self._line.show(text)
        else:
            self._line.put(f"{text}\n")
