"""A ring holds the latest minutes and no more, can always be read from its start, and goes to a file as a whole."""

from pathlib import Path

import pytest

from kvtop.record import Place, Recording, Ring, RingTape, TemporaryFiles, Writer
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, feed, told


def filled(max_bytes: int = 1 << 30, max_s: float = 1e9, **kwargs) -> tuple[Ring, HandClock]:
    clock = HandClock()
    ring = Ring(max_bytes, max_s, clock=clock, **kwargs)
    writer = Writer(ring, clock=clock)
    feed(writer, clock, told())
    writer.flush()
    return ring, clock


def test_a_ring_reads_as_a_file_does(tmp_path: Path) -> None:
    ring, _ = filled()
    ring.dump(tmp_path / "a.kvtop")
    file, memory = Recording(tmp_path / "a.kvtop"), RingTape(ring)
    assert [chunk.summary for chunk in file.chunks] == [chunk.summary for chunk in memory.chunks]
    assert list(file.lines(file.chunks[0])) == list(memory.lines(memory.chunks[0]))
    assert (file.start, file.end, file.spans()) == (memory.start, memory.end, memory.spans())
    at = Place(0, memory.end.seq - 10)
    assert moment(memory, at).state.gauges == moment(file, at).state.gauges


@pytest.mark.parametrize("bounds", [{"max_bytes": 40_000}, {"max_s": 2.0}, {"max_bytes": 1}])
def test_a_bounded_ring_begins_with_an_entry_and_keeps_the_end(bounds: dict[str, float]) -> None:
    whole, _ = filled()
    ring, clock = filled(**bounds)
    tape = RingTape(ring)
    assert tape.chunks[0].summary.entry
    assert tape.end.seq == told()[-1][1].seq
    assert moment(tape, tape.end).trouble == ""
    entries = [chunk for chunk in tape.chunks if chunk.summary.entry]
    if len(entries) > 1:
        assert ring.bytes <= bounds.get("max_bytes", whole.bytes)
        assert clock.now - entries[1].summary.monos[0] <= bounds.get("max_s", 1e9) + 1.0  # a chunk is open so long
    assert len(tape.chunks) < len(RingTape(whole).chunks)


def test_a_tape_on_a_ring_goes_along_with_it() -> None:
    clock, said = HandClock(), told()
    ring = Ring(40_000, 1e9, clock=clock)
    writer = Writer(ring, clock=clock)
    feed(writer, clock, said[:50])
    tape = RingTape(ring)
    start = tape.start
    feed(writer, clock, said[50:])
    writer.flush()
    assert tape.refresh()
    assert tape.start > start
    assert tape.end.seq == said[-1][1].seq
    assert moment(tape, start) is None
    assert moment(tape, tape.start).state.seq == tape.start.seq


def test_temporary_files_keep_the_same_and_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.record.ring.SEGMENT_BYTES", 1)
    memory, _ = filled()
    ring, _ = filled(keep=TemporaryFiles(tmp_path))
    assert list(tmp_path.iterdir()) == []
    one, other = RingTape(memory), RingTape(ring)
    assert list(one.lines(one.chunks[0])) == list(other.lines(other.chunks[0]))
    files = {id(held.kept.file) for held in ring.held()}
    assert len(files) == len([chunk for chunk in other.chunks if chunk.summary.entry])


def test_a_dump_is_the_owners_whole_and_never_over_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, _ = filled()
    path = tmp_path / "a.kvtop"
    ring.dump(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        ring.dump(path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(OSError, match="No space"):
        ring.dump(tmp_path / "b.kvtop")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.kvtop"]


def test_an_empty_ring_has_nothing_to_dump(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing has been recorded"):
        Ring(1, 1.0).dump(tmp_path / "a.kvtop")
    assert list(tmp_path.iterdir()) == []
