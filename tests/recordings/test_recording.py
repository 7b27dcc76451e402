"""A recording holds what was said, is found by frame, iteration and time, and folds to the state there was."""

import io
from pathlib import Path

import pytest
import zstandard

from kvtop.protocol import PROTOCOL_VERSION, Bye, Event, Gap, Hello, IterationFrame, Keyframe, encode
from kvtop.record import FileSink, Place, Recording, RecordingError, Writer
from kvtop.state import EngineState
from kvtop.state.moment import moment
from tests.recordings.kit import HandClock, feed, recording, told


@pytest.fixture
def tape(tmp_path: Path) -> Recording:
    return Recording(recording(tmp_path / "a.kvtop", told()))


def without_repeated_hellos(lines: list[bytes]) -> list[bytes]:
    return lines[:1] + [line for line in lines[1:] if not line.startswith(b'{"type":"hello"')]


def test_a_recording_decompressed_is_the_lines_as_they_came(tape: Recording) -> None:
    data = tape.path.read_bytes()
    lines = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True).read().splitlines()
    assert without_repeated_hellos(lines) == [line.rstrip() for line, _ in told()]
    assert list(tape.lines(tape.chunks[0])) == lines
    assert tape.damage == []
    assert tape.torn is None


def test_the_file_is_its_owners_alone(tape: Recording) -> None:
    assert tape.path.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_never_written_over(tape: Recording) -> None:
    with pytest.raises(FileExistsError):
        FileSink(tape.path)


def test_the_state_of_every_moment_is_that_of_the_frames_up_to_it(tape: Recording) -> None:
    live, at = EngineState(), 0
    for _, frame in told():
        live.apply(frame, 0.0)
        if not isinstance(frame, IterationFrame):
            continue
        at += 1
        if at % 7:
            continue
        found = moment(tape, Place(0, frame.seq))
        assert found is not None
        assert (found.state.seq, found.state.iteration, found.trouble) == (live.seq, live.iteration, "")
        assert found.state.counts() == live.counts()
        assert found.state.gauges == live.gauges
        assert {row.num: row.state for row in found.state.requests.values()} == {
            row.num: row.state for row in live.requests.values()
        }


def test_ages_go_by_the_recordings_clock_and_not_by_the_readers(tape: Recording) -> None:
    assert tape.end is not None
    found = moment(tape, tape.end)
    assert found is not None
    assert found.state.age(found.now) == 0.0
    assert found.state.mono_now(found.now) == found.state.mono


def test_places_are_found_by_seq_iteration_and_time(tape: Recording) -> None:
    frames = [frame for _, frame in told() if isinstance(frame, IterationFrame)]
    for frame in frames[:: len(frames) // 9]:
        assert tape.at_seq(Place(0, frame.seq)) == Place(0, frame.seq)
        assert tape.at_iteration(frame.iteration) == Place(0, frame.seq)
        assert tape.at_wall(frame.wall + 0.01) == Place(0, frame.seq)
    assert tape.at_wall(0.0) == tape.start
    assert tape.at_wall(4e9) == tape.end
    assert tape.at_seq(Place(0, 0)) == tape.start
    assert tape.at_iteration(10**9) == tape.end


def test_one_can_step_through_all_frames_and_back(tape: Recording) -> None:
    forth = [tape.start]
    while (following := tape.next_place(forth[-1])) is not None:
        forth.append(following)
    assert [place.seq for place in forth[1:]] == [f.seq for _, f in told() if isinstance(f, IterationFrame)]
    back = [tape.end]
    while (before := tape.previous_place(back[-1])) is not None:
        back.append(before)
    assert back == forth[::-1]


def test_what_is_notable_is_told_once_and_in_order(tape: Recording) -> None:
    events = [event for _, frame in told() if isinstance(frame, IterationFrame) for event in frame.events]
    wanted = [(event.kind, event.request) for event in events if event.kind == "preempt"]
    assert wanted, "the scene has preemptions"
    facts = tape.notable()
    assert [(fact.kind, fact.request) for _, fact in facts if fact.kind == "preempt"] == wanted
    for place, fact in facts:
        frame = next(f for _, f in told() if isinstance(f, IterationFrame) and f.seq == place.seq)
        assert fact.event in [event.id for event in frame.events]
        assert (fact.wall, fact.mono) == (next(e.wall for e in frame.events if e.id == fact.event), frame.mono)


def test_what_is_appended_is_taken_up(tmp_path: Path) -> None:
    clock, said = HandClock(), told()
    writer = Writer(FileSink(tmp_path / "a.kvtop"), clock=clock)
    feed(writer, clock, said[:60])
    tape = Recording(tmp_path / "a.kvtop")
    seen = tape.end
    assert tape.refresh() is False
    feed(writer, clock, said[60:])
    writer.close()
    assert tape.refresh() is True
    assert tape.end > seen
    assert tape.end.seq == said[-1][1].seq


def test_a_restart_is_another_run_in_the_same_file(tmp_path: Path) -> None:
    bye = Bye(reason="shutting down")
    said = [*told(), (encode(bye), bye), *told(seed=99, run="run-2")]
    tape = Recording(recording(tmp_path / "a.kvtop", said))
    assert tape.start.run == 0
    assert tape.end.run == 1
    assert [span.hole for span in tape.spans()] == ["", "the engine was restarted"]
    assert [fact.kind for _, fact in tape.notable() if fact.kind in ("leave", "restart")] == ["leave", "restart"]
    found = moment(tape, tape.end)
    assert found.state.run == "run-2"
    assert not any("restarted" in (entry.text if hasattr(entry, "text") else "") for entry in found.state.events)


def test_a_clock_that_jumps_back_leaves_the_order_and_every_time_has_one_answer(tmp_path: Path) -> None:
    said = []
    for line, frame in told():
        if isinstance(frame, IterationFrame | Keyframe) and frame.seq > 160:
            frame = frame.model_copy(update={"wall": frame.wall - 3.02})
            line = encode(frame)
        said.append((line, frame))
    tape = Recording(recording(tmp_path / "a.kvtop", said))
    frames = [frame for _, frame in said if isinstance(frame, IterationFrame)]
    start = tape.start
    places = [start]
    while (following := tape.next_place(places[-1])) is not None:
        places.append(following)
    assert places == sorted(places)
    keyframe = next(frame for _, frame in said if isinstance(frame, Keyframe))
    dated = [(keyframe.wall, keyframe.seq), *((frame.wall, frame.seq) for frame in frames)]
    for wall in (dated[0][0] + step * 0.173 for step in range(60)):
        best = max((pair for pair in dated if pair[0] <= wall), default=None)
        assert tape.at_wall(wall) == (start if best is None else Place(0, best[1]))


def test_of_several_moments_of_one_date_the_latest_is_found(tmp_path: Path) -> None:
    said = []
    for line, frame in told():
        if isinstance(frame, IterationFrame | Keyframe) and frame.seq >= 160:
            frame = frame.model_copy(update={"wall": 1000.0 if frame.seq < 190 else 900.0})
            line = encode(frame)
        said.append((line, frame))
    tape = Recording(recording(tmp_path / "a.kvtop", said))
    assert tape.at_wall(1000.5).seq == 189
    assert tape.at_wall(950.0) == tape.end


def test_frames_that_are_missing_become_a_gap_with_their_events(tmp_path: Path) -> None:
    clock, said = HandClock(), told()
    writer = Writer(FileSink(tmp_path / "a.kvtop"), clock=clock)
    keys = [at for at, (_, frame) in enumerate(said) if isinstance(frame, Keyframe)]
    feed(writer, clock, said[: keys[1] + 5])
    writer.interrupted("the recorder was too slow")
    feed(writer, clock, said[keys[1] + 8 :])
    writer.close()
    tape = Recording(tmp_path / "a.kvtop")
    gaps = [frame for frame in tape.frames(tape.chunks[0]) if isinstance(frame, Gap)]
    assert [gap.reason for gap in gaps] == ["the recorder was too slow"]
    assert gaps[0].first == said[keys[1] + 4][1].seq + 1
    assert gaps[0].last == said[keys[2]][1].seq
    first, second = tape.spans()
    assert (first.last.seq + 1, second.first.seq) == (gaps[0].first, gaps[0].last)
    assert "missing" in second.hole
    assert moment(tape, tape.end).trouble == ""


def test_unknown_lines_and_fields_of_a_newer_minor_version_stay_in_the_file(tmp_path: Path) -> None:
    strange = b'{"type":"weather","sunny":true}\n'
    said = [*told()[:40], (strange, None), *told()[40:]]
    path = recording(tmp_path / "a.kvtop", said)
    tape = Recording(path)
    assert strange.rstrip() in list(tape.lines(tape.chunks[0]))
    assert moment(tape, tape.end).trouble == ""


def test_a_recording_of_an_older_minor_version_is_read(tmp_path: Path) -> None:
    def older(line: bytes) -> bytes:
        """As a version 1.0 wrote it: fields that came since are absent."""
        return line.replace(f'"protocol":"{PROTOCOL_VERSION}"'.encode(), b'"protocol":"1.0"').replace(
            b'"publish":0.0,', b""
        )

    said = [(older(line), frame) for line, frame in told()]
    tape = Recording(recording(tmp_path / "a.kvtop", said))
    found = moment(tape, tape.end)
    assert found.state.hello.protocol == "1.0"
    assert found.state.seq == told()[-1][1].seq


def test_another_protocol_major_is_refused_with_a_sentence(tmp_path: Path) -> None:
    _line, hello = told()[0]
    assert isinstance(hello, Hello)
    newer = hello.model_copy(update={"protocol": "2.0"})
    path = recording(tmp_path / "a.kvtop", [(encode(newer), newer), *told()[1:]])
    with pytest.raises(RecordingError, match=r"speaks protocol 2\.0"):
        Recording(path)


def test_another_format_major_is_refused_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvtop.record.chunk.FORMAT_MAJOR", 2)
    path = recording(tmp_path / "a.kvtop", told())
    monkeypatch.undo()
    with pytest.raises(RecordingError, match=r"is of format 2\.0.*newer kvtop"):
        Recording(path)


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"{}\n" * 100, "no recording"), (b"(\xb5/\xfd" * 9, "no recording")]
)
def test_a_file_that_is_no_recording_is_refused_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(RecordingError, match=f"x.*{said}"):
        Recording(tmp_path / "x")


def test_a_storm_of_events_does_not_swell_the_index(tmp_path: Path) -> None:
    said = list(told())
    _line, frame = said[3]
    events = [Event(id=10**6 + n, kind="preempt", iteration=1, wall=1.0) for n in range(5000)]
    storm = frame.model_copy(update={"events": events})
    said[3] = (encode(storm), storm)
    tape = Recording(recording(tmp_path / "a.kvtop", said))
    told_of = tape.chunks[0].summary
    assert len(told_of.notable) + told_of.notable_left_out >= 5000
    assert len(told_of.notable) <= 256
