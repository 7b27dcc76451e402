"""The line that says how a load stands."""

import io
import os

import pytest

from kvtop.commands.child import Progress
from kvtop.commands.load_progress import LoadProgress
from kvtop.commands.progress import ProgressLine
from kvtop.load.driver import Limits, Tally
from kvtop.load.sample import Failure, Sample


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def sample(index: int, **more: object) -> Sample:
    found = Sample(index, "", index, 0, 0.0, 1, 1, sent=0.0)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def test_it_tells_what_has_come_of_all_that_was_sent_whenever_it_is_asked() -> None:
    tally = Tally(0.0, Limits(30.0), [sample(0), sample(1)], open_now=2, elapsed=1.2)
    terminal = Terminal()
    progress = LoadProgress(terminal)
    progress(tally)
    assert terminal.getvalue().endswith("1 of 30 s, sending: 2 sent, 2 open, 0 answered")
    tally.samples[1].done = 1.5
    tally.samples.append(sample(2, failure=Failure.TOO_MANY))
    tally.open_now = 1
    progress(tally)
    assert terminal.getvalue().endswith("3 sent, 1 open, 1 answered, http_429 1")
    tally.samples[0].done = 1.7
    progress(tally)
    assert terminal.getvalue().endswith("3 sent, 1 open, 2 answered, http_429 1")
    progress.close()
    assert terminal.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize("columns", [20, 80, None])
def test_it_never_wraps(monkeypatch: pytest.MonkeyPatch, columns: int | None) -> None:
    """``columns``: of the terminal; None: it does not say."""
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((columns or 0, 24)))
    monkeypatch.setattr(Terminal, "fileno", lambda _: 2, raising=False)
    samples = [sample(number, failure=failure) for number, failure in enumerate([*Failure] * 9)]
    tally = Tally(0.0, Limits(99_999.0), samples, open_now=999, elapsed=88_888.0)
    long = "http://a.very.long.name.of.a.server:80000, 2 threads: 16 streams, 512/64 tokens"
    for what in ("", long):
        terminal = Terminal()
        LoadProgress(terminal, what)(tally)
        assert len(terminal.getvalue().removeprefix("\r\x1b[K")) == (columns or 80) - 1
    terminal = Terminal()
    ProgressLine(terminal)(Progress(f"fetching {long}", 3_000_000, 9_000_000))
    assert len(terminal.getvalue().removeprefix("\r\x1b[K")) == (columns or 80) - 1


def test_without_a_terminal_it_is_quiet() -> None:
    stream = io.StringIO()
    progress = LoadProgress(stream)
    progress(Tally(0.0, Limits(1.0), [sample(0)]))
    progress.close()
    assert stream.getvalue() == ""
