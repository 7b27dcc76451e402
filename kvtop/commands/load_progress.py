"""How a load stands, on one line of a terminal that rewrites itself; elsewhere nothing."""

import sys
from collections import Counter
from typing import TextIO

from kvtop.commands.rewritten import RewrittenLine
from kvtop.load.driver import Tally
from kvtop.load.sample import Sample


class LoadProgress:
    """``what`` stands before it, where loads follow upon each other."""

    def __init__(self, stream: TextIO | None = None, what: str = "") -> None:
        self._line = RewrittenLine(sys.stderr if stream is None else stream)
        self._what = what
        self._looked = 0
        self._ended: Counter[str] = Counter()
        self._pending: list[Sample] = []

    def __call__(self, tally: Tally) -> None:
        """Looks at what is new since the last call, and at what was open then: long loads have many samples."""
        if not self._line.terminal:
            return
        self._pending += tally.samples[self._looked :]
        self._looked = len(tally.samples)
        still = []
        for sample in self._pending:
            if sample.done is None and sample.failure is None:
                still.append(sample)
            else:
                self._ended["answered" if sample.failure is None else sample.failure.value] += 1
        self._pending = still
        self._line.show(line(tally, self._ended, self._what))

    def close(self) -> None:
        self._line.clear()


def line(tally: Tally, ended: Counter[str], before: str = "") -> str:
    """The most important first: what there is no room for is cut off."""
    if before:
        return f"{before}: {ended['answered']} answered in {tally.elapsed:.0f} s"
    what = "sending" if tally.issuing else "waiting for the last"
    failed = ", ".join(f"{kind} {count}" for kind, count in ended.items() if kind != "answered" and count)
    text = f"{tally.elapsed:.0f} of {tally.limits.seconds:g} s, {what}: {len(tally.samples)} sent, {tally.open_now} open, {ended['answered']} answered"
    return f"{text}, {failed}" if failed else text
