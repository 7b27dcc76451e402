"""The flight recorder takes what viewers are told, keeps it in bounds, and writes files of which few are kept."""

import threading
from pathlib import Path

import pytest

from kvtop.protocol import Hello, IterationFrame, Keyframe, RequestChange, decode_frame, encode
from kvtop.publish import Dumps, FlightLimits, FlightRecorder
from kvtop.publish.dumps import KEPT, SPACING_S, dumps_folder
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.ring import Ring
from kvtop.record import Recording, RingTape, without_text
from tests.publish.kit import event, frame, hello, keyframe
from tests.recordings.kit import HandClock


class Recorded:
    """A ring with frames, and a recorder on it, on a clock set by hand."""

    def __init__(self, limits: FlightLimits | None = None, greeting: Hello | None = None) -> None:
        self.clock, self.ring, self.wanted, self.seq = HandClock(), Ring(64), 0, 0
        self.clock.now = 1.0
        lines = MergedLines()
        self.recorder = FlightRecorder(
            limits or FlightLimits(), greeting or hello(), self.ring, lines, self._want, self.clock
        )
        self.ring.hold(keyframe(0))
        self.recorder.serve(self.clock.now, None)

    def _want(self) -> None:
        self.wanted += 1

    def run(self, frames: int, seconds: float = 0.05, **fields: object) -> None:
        for _ in range(frames):
            self.seq += 1
            self.clock.now += 0.2 * seconds
            self.ring.append(frame(self.seq, event(self.seq), **fields))
            self.recorder.serve(self.clock.now, self.ring.last_seq)
            if self.wanted:
                self.wanted = 0
                self.ring.hold(keyframe(self.seq))
            self.clock.now += 0.8 * seconds
            self.recorder.serve(self.clock.now, self.ring.last_seq)

    def tape(self) -> RingTape:
        return RingTape(self.recorder.memory)


def test_at_twenty_iterations_a_second_every_frame_is_in_it() -> None:
    recorded = Recorded()
    recorded.run(1000)
    tape = recorded.tape()
    frames = [f for f in tape.frames(tape.chunks[0]) if isinstance(f, IterationFrame)]
    assert {f.merged for f in frames} == {1}
    assert [f.seq for f in frames] == list(range(1, frames[-1].seq + 1))
    assert frames[-1].seq > 1000 - 25
    keys = [f.mono for f in tape.frames(tape.chunks[0]) if isinstance(f, Keyframe)]
    assert len(keys) >= 3, "reading can start every 20 seconds"
    assert tape.damage == []


def test_a_fast_engine_is_merged_and_no_event_is_lost() -> None:
    recorded = Recorded()
    recorded.run(3000, seconds=0.001)
    recorded.clock.now += 2.0
    recorded.recorder.serve(recorded.clock.now, None)
    tape = recorded.tape()
    frames = [f for f in tape.frames(tape.chunks[0]) if isinstance(f, IterationFrame)]
    assert len(frames) < 120
    assert [e.id for f in frames for e in f.events] == list(range(1, frames[-1].seq + 1))


def test_it_keeps_so_many_minutes_and_so_much_and_no_more() -> None:
    minutes = Recorded(FlightLimits(minutes=1.0))
    minutes.run(2000)
    tape = minutes.tape()
    spanned = (tape.end.seq - tape.start.seq) * 0.05
    assert 60.0 <= spanned <= 60.0 + 25.0
    small = Recorded(FlightLimits(mib=0.02))
    small.run(1000, requests=[RequestChange(num=n, computed_tokens=n * 7919 % 997) for n in range(20)])
    assert small.recorder.memory.bytes <= 0.02 * 2**20
    assert small.tape().end.seq > 950


def test_prompts_and_generated_text_are_not_in_it(tmp_path: Path) -> None:
    greeting = hello().model_copy(update={"capabilities": ["blocks", "text"]})
    recorded = Recorded(greeting=greeting)
    secret = RequestChange(
        num=1, prompt_text="secret", output_at=0, output_more="secret", text_ends_at=0, text_ends=[6]
    )
    recorded.run(30, requests=[secret])
    recorded.ring.hold(keyframe(recorded.seq, requests=[secret]))
    recorded.recorder._cursor.ask_keyframe()
    recorded.run(30, requests=[secret])
    recorded.recorder.dump(tmp_path / "a.kvtop")
    tape = Recording(tmp_path / "a.kvtop")
    lines = list(tape.lines(tape.chunks[0]))
    assert b"secret" not in b"".join(lines)
    assert not any(b"text" in line for line in lines)
    assert any(isinstance(f, IterationFrame) and f.requests[0].num == 1 for f in tape.frames(tape.chunks[0]))


def test_without_text_changes_no_line_that_has_none() -> None:
    for message in (hello(), keyframe(1), frame(2, event(1), requests=[RequestChange(num=1, id='"prompt_text" ')])):
        line = encode(message)
        assert without_text(line, message) == (line, message)
        assert decode_frame(line) == message


@pytest.mark.parametrize(("minutes", "mib"), [(-1.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1e9, 1.0)])
def test_limits_that_cannot_be_are_refused(minutes: float, mib: float) -> None:
    with pytest.raises(ValueError, match="flight recorder of"):
        FlightLimits(minutes, mib)


# -- files


def dumps(folder: Path) -> tuple[Dumps, HandClock]:
    recorded, clock = Recorded(), HandClock()
    recorded.run(30)
    clock.now = 1000.0
    return Dumps(recorded.recorder, "toy", folder=folder, clock=clock, wall=lambda: 1.8e9 + clock.now), clock


def test_only_so_many_files_of_a_name_are_kept_and_no_others_are_touched(tmp_path: Path) -> None:
    files, clock = dumps(tmp_path)
    others = ["toy-notes.txt", "toys-20261201T120000Z.kvtop", "toy-20261201T120000Z.kvtop.mine"]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(KEPT + 3):
        clock.now += 0.5  # two in each second
        last = files.write("a test")
        assert last.error == ""
    kept = sorted(entry.name for entry in tmp_path.iterdir() if entry.name not in others)
    assert len(kept) == KEPT
    assert last.path.name in kept
    assert all((tmp_path / name).exists() for name in others)


def test_alarms_are_written_once_a_minute_at_most(tmp_path: Path) -> None:
    files, clock = dumps(tmp_path)
    done = threading.Event()
    files._news = done.set
    assert files.alarm("one")
    assert done.wait(20.0)
    files._writing.join()
    assert not files.alarm("two")
    clock.now += SPACING_S + 1
    assert files.alarm("three")
    files._writing.join()
    assert [dumped.why for dumped in files.take()] == ["one", "three"]
    assert files.left_out == 1


def test_a_failure_says_where(tmp_path: Path) -> None:
    (tmp_path / "kvtop").write_text("in the way")
    files, _ = dumps(tmp_path / "kvtop" / "flight")
    dumped = files.write("a test")
    assert str(tmp_path / "kvtop") in dumped.error
    assert "could not be written" in dumped.sentence


def test_the_folder_is_the_users_state(tmp_path: Path) -> None:
    assert dumps_folder({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/kvtop/flight")
    assert dumps_folder({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path("/h/.local/state/kvtop/flight")
