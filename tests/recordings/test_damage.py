"""Whatever is cut off or changed in a file: what it does not touch is read, and no line is read that was not written."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.record import Recording, RecordingError
from tests.recordings.kit import recording, told


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@functools.cache
def sound(folder: Path) -> tuple[bytes, dict[int, list[bytes]], list[int]]:
    """A recording's bytes, the lines of each chunk by its place, and where each ends."""
    path = recording(folder / "sound.kvtop", told(60)[:45])
    with opened(path) as tape:
        lines = {chunk.at: tape.read(chunk) for chunk in tape.chunks}
    data = path.read_bytes()
    return data, lines, [*list(lines)[1:], len(data)]


@contextmanager
def opened(path: Path) -> Iterator[Recording]:
    tape = Recording(path)
    try:
        yield tape
    finally:
        tape.close()


def read(path: Path, data: bytes) -> tuple[dict[int, list[bytes]], list[int]]:
    """The lines of each chunk of ``data`` that has some, and where it is damaged."""
    path.write_bytes(data)
    try:
        with opened(path) as tape:
            lines = {chunk.at: found for chunk in tape.chunks if (found := tape.read(chunk))}
            return lines, [damage.at for damage in tape.damage] + ([tape.torn.at] if tape.torn else [])
    except RecordingError:
        return {}, [0]


@given(share=st.floats(0, 1))
def test_a_file_that_is_cut_off_has_all_chunks_before_the_cut(folder: Path, share: float) -> None:
    data, lines, ends = sound(folder)
    cut = round(share * len(data))
    whole = {at: lines[at] for at, end in zip(lines, ends, strict=True) if end <= cut}
    found, damaged = read(folder / "cut.kvtop", data[:cut])
    assert found == whole
    assert damaged == ([] if whole and cut in ends else [max(end for end in (0, *ends) if end <= cut)])


@given(
    share=st.floats(0, 1, exclude_max=True), bits=st.integers(1, 255), header=st.booleans(), which=st.integers(0, 99)
)
def test_a_changed_byte_costs_the_chunk_it_is_in(
    folder: Path, share: float, bits: int, header: bool, which: int
) -> None:
    data, lines, _ = sound(folder)
    at = int(share * len(data))
    if header:  # where most of what can go wrong is
        at = list(lines)[which % len(lines)] + int(share * 40)
    touched = max(start for start in lines if start <= at)
    changed = bytearray(data)
    changed[at] ^= bits
    found, damaged = read(folder / "changed.kvtop", bytes(changed))
    assert found == {start: those for start, those in lines.items() if start != touched}
    assert damaged == [touched]


@given(start=st.floats(0, 1), length=st.integers(1, 3000), filler=st.sampled_from([b"\0", b"KVTR", b"\xff"]))
def test_a_stretch_written_over_costs_the_chunks_it_touches(
    folder: Path, start: float, length: int, filler: bytes
) -> None:
    data, lines, ends = sound(folder)
    at = round(start * (len(data) - length))
    changed = data[:at] + (filler * length)[:length] + data[at + length :]
    untouched = {
        place: lines[place]
        for place, end in zip(lines, ends, strict=True)
        if end <= at or at + length <= place or data[place:end] == changed[place:end]
    }
    found, damaged = read(folder / "over.kvtop", changed)
    assert found == untouched
    assert bool(damaged) == (untouched != lines)


@given(junk=st.binary(max_size=200), where=st.integers(0, 99))
def test_bytes_that_came_between_cost_nothing(folder: Path, junk: bytes, where: int) -> None:
    data, lines, _ = sound(folder)
    at = list(lines)[where % len(lines)]
    found, _damaged = read(folder / "between.kvtop", data[:at] + junk + data[at:])
    assert list(found.values()) == list(lines.values())
