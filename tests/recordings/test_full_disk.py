"""A disk that is full ends nothing: it is said once, the file stays whole, and a gap with the events marks what is missing."""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtop.protocol import Gap, IterationFrame, Keyframe
from kvtop.record import FileSink, Recording, Writer
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, Told, feed, told


class Disk:
    """Fails half-way through a write while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._pwrite = os.pwrite
        monkeypatch.setattr("os.pwrite", self.write)

    def write(self, file: int, data: bytes, at: int) -> int:
        if not self.full:
            return self._pwrite(file, data, at)
        if len(data) > 64:
            return self._pwrite(file, data[: len(data) // 2], at)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system itself refuses to write more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def asked(writer: Writer, clock: HandClock, said: tuple[Told, ...]) -> None:
    """As `feed`, where keyframes come only when the writer asks for one, as from an engine."""
    wants = True
    for line, frame in said:
        wants = wants or writer.wants_keyframe()
        if isinstance(frame, Keyframe):
            if not wants:
                continue
            wants = False
        feed(writer, clock, [(line, frame)])


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock, said, notes = Disk(monkeypatch), HandClock(), told(400), []
    writer = Writer(FileSink(tmp_path / "a.kvtop"), tell=notes.append, clock=clock)
    asked(writer, clock, said[:100])
    disk.full = True
    asked(writer, clock, said[100:250])
    assert len(notes) == 1
    assert "No space left on device" in notes[0]
    assert writer.trouble is not None
    meanwhile = Recording(tmp_path / "a.kvtop")
    assert meanwhile.torn is None
    assert moment(meanwhile, meanwhile.end).trouble == ""
    disk.full = False
    asked(writer, clock, said[250:])
    writer.close()
    assert len(notes) == 2
    assert writer.trouble is None

    tape = Recording(tmp_path / "a.kvtop")
    assert tape.damage == []
    assert tape.torn is None
    frames = list(tape.frames(tape.chunks[0]))
    gaps = [frame for frame in frames if isinstance(frame, Gap)]
    assert len(gaps) == 1
    assert "No space left" in gaps[0].reason
    first, second = tape.spans()
    assert (gaps[0].first, gaps[0].last) == (first.last.seq + 1, second.first.seq)
    everything = [event.id for _, frame in said if isinstance(frame, IterationFrame) for event in frame.events]
    kept = [event.id for frame in frames if isinstance(frame, IterationFrame | Gap) for event in frame.events]
    assert kept == everything
    assert tape.end.seq == said[-1][1].seq
    assert moment(tape, tape.end).trouble == ""


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    clock, notes, path = HandClock(), [], tmp_path / "a.kvtop"
    writer = Writer(FileSink(path), tell=notes.append, clock=clock)
    with files_of_at_most(20_000):
        feed(writer, clock, told())
        writer.flush()
    assert len(notes) == 1
    assert "File too large" in notes[0]
    tape = Recording(path)
    assert tape.torn is None
    assert tape.size == path.stat().st_size <= 20_000
    assert moment(tape, tape.end).trouble == ""


def test_a_disk_that_is_full_from_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock, said = Disk(monkeypatch), HandClock(), told(400)
    disk.full = True
    writer = Writer(FileSink(tmp_path / "a.kvtop"), clock=clock)
    asked(writer, clock, said[:50])
    assert (tmp_path / "a.kvtop").stat().st_size == 0
    disk.full = False
    asked(writer, clock, said[50:])
    writer.close()
    tape = Recording(tmp_path / "a.kvtop")
    assert tape.end.seq == said[-1][1].seq
    assert moment(tape, tape.start).trouble == ""


def test_an_engine_that_is_restarted_while_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, clock = Disk(monkeypatch), HandClock()
    one, other = told(), told(400, seed=99, run="run-2")
    writer = Writer(FileSink(tmp_path / "a.kvtop"), clock=clock)
    asked(writer, clock, one[:60])
    disk.full = True
    asked(writer, clock, one[60:])
    asked(writer, clock, other[:100])
    disk.full = False
    asked(writer, clock, other[100:])
    writer.close()
    tape = Recording(tmp_path / "a.kvtop")
    gap = next(frame for frame in tape.frames(tape.chunks[0]) if isinstance(frame, Gap))
    last = one[-1][1].seq
    assert gap.last == last
    assert [event.id for event in gap.events] == sorted(event.id for event in gap.events)
    assert [span.hole for span in tape.spans()] == ["", "the engine was restarted"]
    assert moment(tape, tape.end).state.run == "run-2"
