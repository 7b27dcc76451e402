"""``kvtop replay FILE``: what can be typed, and what is said of files and moments that cannot be."""

import os
from datetime import datetime
from pathlib import Path

import pytest

from kvtop.cli import build_parser, run
from kvtop.commands.replay import opened
from kvtop.commands.replay import place_at as place_of
from kvtop.errors import UserError
from kvtop.protocol import IterationFrame
from kvtop.record import Place
from tests.recordings.kit import recording, told


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recording(tmp_path / "a.kvtop", told())


def frame_at(place: Place | None) -> IterationFrame:
    return next(f for _, f in told() if isinstance(f, IterationFrame) and place is not None and f.seq == place.seq)


@pytest.mark.parametrize("form", ["%H:%M:%S", "%Y-%m-%dT%H:%M:%S"])
def test_a_moment_by_the_clock(path: Path, form: str) -> None:
    tape = opened(path)
    wanted = int(told()[60][1].wall)
    found = frame_at(place_of(datetime.fromtimestamp(wanted).strftime(form), tape))
    assert wanted - 0.05 < found.wall <= wanted


def test_a_moment_from_the_start_and_from_the_end(path: Path) -> None:
    tape = opened(path)
    first, last = tape.spans()[0].wall_first, tape.spans()[0].wall_last
    assert frame_at(place_of("+2", tape)).wall == pytest.approx(first + 2, abs=0.051)
    assert frame_at(place_of("-2", tape)).wall == pytest.approx(last - 2, abs=0.051)
    assert place_of("+0", tape) == tape.start
    assert place_of("-0", tape) == tape.end


def test_a_moment_by_iteration(path: Path) -> None:
    assert frame_at(place_of("it:170", opened(path))).iteration == 170


@pytest.mark.parametrize("when", ["", "noon", "25:00", "it:x", "+", "-inf", "+nan", "14", "2026-13-01T00:00:00"])
def test_what_is_no_moment_is_refused(path: Path, when: str) -> None:
    with pytest.raises(UserError, match="no moment") as refused:
        place_of(when, opened(path))
    assert refused.value.code == 2


def test_a_moment_before_the_recording_is_refused_with_its_start(path: Path) -> None:
    with pytest.raises(UserError, match="begins only at"):
        place_of("2001-01-01T00:00:00", opened(path))


def test_files_that_cannot_be_shown_are_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"something else")
    for name, said in (("none", "No such file"), ("x", "no recording"), (".", "Is a directory")):
        with pytest.raises(UserError, match=said) as refused:
            run(["replay", str(tmp_path / name)])
        assert str(tmp_path) in refused.value.message


@pytest.mark.parametrize("speed", ["0", "0.05", "101", "fast", "nan", "-1"])
def test_a_speed_that_cannot_be_is_refused(path: Path, speed: str) -> None:
    with pytest.raises(UserError, match="speed") as refused:
        run(["replay", str(path), "--speed", speed])
    assert refused.value.code == 2


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match="is empty"):
        opened(tmp_path / "fifo")


@pytest.mark.parametrize("when", ["-5m", "-90", "-1.5h", "-.5s"])
def test_a_time_before_the_end_is_a_value_and_no_option(path: Path, when: str) -> None:
    assert build_parser().parse_args(["replay", str(path), "--at", when]).at == when
    with pytest.raises(UserError):
        build_parser().parse_args(["replay", str(path), "--at", "-x"])
