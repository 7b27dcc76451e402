"""The screen on a recording: the same panels, a header that says what it is, Space that stops it, commands refused."""

from pathlib import Path

from kvtop.record import Recording
from kvtop.sources.replay import ReplaySource
from tests.app.harness import Bench, agreeing, in_loop
from tests.recordings.kit import HandClock, recording, told


def replayed(folder: Path) -> tuple[Bench, ReplaySource, HandClock]:
    clock = HandClock()
    source = ReplaySource(Recording(recording(folder / "a.kvtop", told())), "a.kvtop", clock=clock)
    return Bench(source, folder, agreeing, control_path=None), source, clock  # type: ignore[arg-type]


def test_space_stops_the_replay_and_lets_it_go_on(tmp_path: Path) -> None:
    @in_loop
    async def go() -> None:
        b, _, clock = replayed(tmp_path)
        async with b.app.run_test(size=(120, 40)) as b.pilot:
            await b.tick()
            clock.now += 0.4
            await b.tick()
            assert "REPLAY of" in b.text()
            assert ", 1x" in b.text()
            await b.press("space")
            seq = b.screen.feed.live.seq
            clock.now += 0.4
            await b.tick()
            assert b.screen.feed.live.seq == seq
            assert ", stopped" in b.text()
            assert not b.screen.feed.held
            await b.press("space")
            clock.now += 0.4
            await b.tick()
            assert b.screen.feed.live.seq > seq

    go()


def test_commands_are_refused_with_a_sentence(tmp_path: Path) -> None:
    @in_loop
    async def go() -> None:
        b, *_ = replayed(tmp_path)
        async with b.app.run_test(size=(120, 40)) as b.pilot:
            await b.tick()
            await b.press("E")
            assert b.control.sent == []
            assert any(note.startswith("read-only") for note in b.notes())

    go()
