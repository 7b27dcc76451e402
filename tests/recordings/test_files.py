"""Recordings in a folder: a new file when one is full, each readable alone; old ones go, and no others."""

import os
from pathlib import Path

import pytest

from kvtop.record import FileSink, Keeping, Recording, RecordingFiles, Writer
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, feed, record, told


def written(folder: Path, keeping: Keeping, began: float = 1.8e9) -> list[Path]:
    """The files of one recording, in the order in which they were begun."""
    clock, begun = HandClock(), []
    sink = RecordingFiles(folder, "demo", keeping, begun=begun.append, wall=lambda: began + clock.now, forced=False)
    record(sink, told(), clock)
    return begun


def test_each_file_is_a_recording_and_together_they_are_all_of_it(tmp_path: Path) -> None:
    files = written(tmp_path, Keeping(20_000))
    assert len(files) > 2
    lines: list[bytes] = []
    for path in files:
        tape = Recording(path)
        assert path.stat().st_size <= 20_000 + 30_000, "a file ends at the first entry beyond its size"
        assert tape.chunks[0].summary.entry
        assert moment(tape, tape.end).trouble == ""
        lines += [line for line in tape.lines(tape.chunks[0]) if not line.startswith(b'{"type":"hello"')]
    assert lines == [line.rstrip() for line, _ in told()[1:]]


def test_names_say_which_engine_and_when_and_never_clash(tmp_path: Path) -> None:
    (tmp_path / "demo-20270115T080000Z.kvtop").touch()
    sink = RecordingFiles(tmp_path, "demo", Keeping(1 << 30), wall=lambda: 1.8e9)
    record(sink, told())
    assert sink.path.name == "demo-20270115T080000Z-2.kvtop"
    assert (tmp_path / "demo-20270115T080000Z.kvtop").stat().st_size == 0


OTHERS = ("demo-notes.txt", "demo-2-20270115T080000Z.kvtop", "other-20270115T080000Z.kvtop")


def old_files(folder: Path, hours: float) -> list[Path]:
    made = []
    for number in range(3):
        path = folder / f"demo-2027011{number}T000000Z.kvtop"
        path.write_bytes(b"x" * 10_000)
        os.utime(path, (0, 1.8e9 + 1000.0 - 3600.0 * hours + number))
        made.append(path)
    for name in OTHERS:
        (folder / name).write_bytes(b"x" * 10_000)
        os.utime(folder / name, (0, 0))
    return made


def test_too_much_goes_from_the_oldest_on(tmp_path: Path) -> None:
    old = old_files(tmp_path, hours=2.0)
    whole = written(tmp_path / "elsewhere", Keeping(1 << 30))[0].stat().st_size
    written(tmp_path, Keeping(1 << 30, all_bytes=whole + 15_000))
    assert [path.exists() for path in old] == [False, False, True]
    assert all((tmp_path / name).exists() for name in OTHERS)


def test_too_old_goes(tmp_path: Path) -> None:
    old = old_files(tmp_path, hours=2.0)
    os.utime(old[2], (0, 1.8e9 + 1000.0 - 60.0))
    new = written(tmp_path, Keeping(1 << 30, seconds=3600.0))
    assert [path.exists() for path in old] == [False, False, True]
    assert all((tmp_path / name).exists() for name in OTHERS)
    assert new[0].exists()


def test_what_another_recorder_writes_stays(tmp_path: Path) -> None:
    busy = FileSink(tmp_path / "demo-20200101T000000Z.kvtop")
    os.utime(busy.path, (0, 0))
    written(tmp_path, Keeping(1 << 30, all_bytes=1, seconds=1.0))
    assert busy.path.exists()
    busy.close()
    written(tmp_path, Keeping(1 << 30, all_bytes=1, seconds=1.0), began=1.9e9)
    assert not busy.path.exists()


def test_a_folder_that_goes_away_and_comes_again_is_told_and_marked(tmp_path: Path) -> None:
    clock, notes, said = HandClock(), [], told(400)
    folder = tmp_path / "in" / "here"
    sink = RecordingFiles(folder, "demo", Keeping(20_000), wall=lambda: 1.8e9 + clock.now, forced=False)
    writer = Writer(sink, tell=notes.append, clock=clock)
    feed(writer, clock, said[:30])
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    folder.parent.rmdir()
    folder.parent.write_text("in the way")
    feed(writer, clock, said[30:200])
    assert len(notes) == 1
    folder.parent.unlink()
    feed(writer, clock, said[200:])
    writer.close()
    assert len(notes) == 2
    first = Recording(sorted(folder.iterdir())[0])
    assert "gap" in [fact.kind for _, fact in first.notable()]
    last = Recording(sorted(folder.iterdir())[-1])
    assert last.end.seq == said[-1][1].seq


@pytest.mark.parametrize("name", ["demo", "a.b_c-d", "x" * 64])
def test_the_names_of_one_engine_are_not_anothers(tmp_path: Path, name: str) -> None:
    from kvtop.record.files import ENDING, is_of, stamped

    file = stamped(name, 1.8e9) + ENDING
    assert is_of(name, file)
    assert not is_of(name + "-2", file)
    assert not is_of(name[:-1], file)
    assert not is_of(name, file + "x")
