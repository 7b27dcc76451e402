"""A recording played: the same frames, at the speed asked for, from any place; never more than was recorded."""

from pathlib import Path

import pytest

from kvtop.app.feed import Feed
from kvtop.protocol import IterationFrame
from kvtop.record import FileSink, Place, Recording, Writer
from kvtop.record.playback import UNBOUNDED
from kvtop.sources.replay import ReplaySource
from kvtop.state import EngineState
from kvtop.views.header import header_rows
from tests.recordings.kit import HandClock, feed, recording, told


class Player:
    """A replay and the state it makes, on a clock set by hand."""

    def __init__(self, path: Path, **kwargs) -> None:
        self.clock = HandClock()
        self.tape = Recording(path)
        self.source = ReplaySource(self.tape, "a file", clock=self.clock, **kwargs)
        self.feed = Feed(self.source)
        self.source.start()
        self.tick(0.0)

    def tick(self, seconds: float) -> None:
        self.clock.now += seconds
        self.feed.drain(self.clock.now)

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 10)):
            self.tick(0.1)

    @property
    def state(self) -> EngineState:
        return self.feed.live

    @property
    def header(self) -> str:
        return header_rows(self.state, self.feed.time(self.clock.now), 120)[0].text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return recording(tmp_path / "a.kvtop", told())


def live_after(seq: int) -> EngineState:
    state = EngineState()
    for _, frame in told():
        if isinstance(frame, IterationFrame) and frame.seq > seq:
            break
        state.apply(frame, 0.0)
    return state


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0])
def test_frames_come_at_the_speed_asked_for(path: Path, speed: float) -> None:
    player = Player(path, speed=speed)
    began = player.state.mono
    player.run(1.0)
    assert player.state.mono == pytest.approx(began + speed, abs=0.06)
    assert player.state.counts() == live_after(player.state.seq).counts()


def test_as_fast_as_it_goes_is_all_of_it_at_once(path: Path) -> None:
    player = Player(path, speed=UNBOUNDED)
    player.tick(0.001)
    player.tick(0.001)
    assert player.state.seq == told()[-1][1].seq
    assert player.source.playback.ended
    assert player.header.rstrip().endswith("end")


def test_a_replay_never_says_that_it_is_live(path: Path) -> None:
    player = Player(path)
    for _ in range(80):
        player.tick(0.5)
        assert "REPLAY of" in player.header
        assert "live" not in player.header
        assert "stale" not in player.header
    assert player.state.seq == told()[-1][1].seq


def test_stopped_time_stands_still(path: Path) -> None:
    player = Player(path)
    player.run(1.0)
    player.source.pause()
    player.tick(0.1)
    seq, mono = player.state.seq, player.state.mono_now(player.feed.time(player.clock.now))
    player.tick(3600.0)
    assert player.state.seq == seq
    assert player.state.mono_now(player.feed.time(player.clock.now)) == mono
    assert player.header.rstrip().endswith("stopped")
    player.source.go_on()
    player.run(0.5)
    assert player.state.seq > seq


def test_a_viewer_that_was_stopped_does_not_run_through_what_it_slept(path: Path) -> None:
    player = Player(path)
    mono = player.state.mono
    player.tick(3600.0)
    assert player.state.mono <= mono + 0.6


def test_going_to_a_place_makes_its_state_whatever_was_seen_before(path: Path) -> None:
    player = Player(path, at=Place(0, 190))
    assert player.state.seq == 190
    for seq in (215, 140, 139, 219, 190):
        player.source.seek(Place(0, seq))
        player.tick(0.1)
        live = live_after(seq)
        assert player.state.seq == seq
        assert player.state.counts() == live.counts()
        assert player.state.gauges == live.gauges
        assert player.state.bad_facts == 0
        assert player.state.age(player.feed.time(player.clock.now)) == 0.0


def test_places_beyond_the_recording_are_its_ends(path: Path) -> None:
    player = Player(path)
    player.source.seek(Place(7, 10**9))
    player.tick(0.1)
    assert player.state.seq == told()[-1][1].seq
    player.source.seek(Place(0, 0))
    player.tick(0.1)
    assert player.source.place == player.tape.start


def test_a_recording_that_is_being_written_goes_on(tmp_path: Path) -> None:
    clock, said = HandClock(), told()
    writer = Writer(FileSink(tmp_path / "a.kvtop"), clock=clock)
    feed(writer, clock, said[:60])
    writer.flush()
    player = Player(tmp_path / "a.kvtop", speed=100.0)
    player.run(1.0)
    assert player.source.playback.ended
    feed(writer, clock, said[60:])
    writer.close()
    player.run(1.0)
    assert player.state.seq == said[-1][1].seq


def test_a_damaged_part_is_told_and_playing_goes_on_behind_it(path: Path) -> None:
    tape = Recording(path)
    plain = next(chunk for chunk in tape.chunks[2:] if not chunk.summary.entry)
    data = bytearray(path.read_bytes())
    data[tape.chunks[plain.number + 1].at - 1] ^= 1
    path.write_bytes(data)
    player = Player(path, speed=UNBOUNDED)
    player.tick(0.1)
    player.tick(0.1)
    assert player.state.seq == told()[-1][1].seq
    assert player.state.bad_facts == 1
    assert f"at byte {plain.at}" in player.state.bad_note
    assert any("missing in the recording" in getattr(entry, "text", "") for entry in player.state.events)


@pytest.mark.parametrize("speed", [0.0, -1.0, 101.0, float("nan")])
def test_a_speed_that_cannot_be_is_refused(path: Path, speed: float) -> None:
    with pytest.raises(ValueError, match="speed"):
        ReplaySource(Recording(path), "a file", speed=speed)


def test_it_begins_where_it_was_told_to_though_a_screen_asked_before_it_was_started(path: Path) -> None:
    tape = Recording(path)
    assert tape.end is not None
    source = ReplaySource(tape, "a file", at=tape.end, clock=HandClock())
    assert source.poll() == []
    source.start()
    assert source.poll()
    assert source.place == tape.end
