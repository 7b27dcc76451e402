"""The line that says how a load stands."""

import io
from collections import Counter

from kvtop.commands.load_progress import LoadProgress, line
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


def test_it_never_wraps() -> None:
    tally = Tally(0.0, Limits(99_999.0), [sample(0)] * 99, open_now=999, elapsed=88_888.0)
    assert len(line(tally, Counter({failure.value: 9999 for failure in Failure}))) <= 79
    assert (
        len(line(tally, Counter(), "http://a.very.long.name.of.a.server:80000, 2 threads: 16 streams, 512/64 tokens"))
        <= 79
    )


def test_without_a_terminal_it_is_quiet() -> None:
    stream = io.StringIO()
    progress = LoadProgress(stream)
    progress(Tally(0.0, Limits(1.0), [sample(0)]))
    progress.close()
    assert stream.getvalue() == ""
