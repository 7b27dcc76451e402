"""Looking back with the keys of time: what is shown is a moment gone by, says so, and the engine goes on meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from kvtop.record import Recording
from kvtop.sources.replay import ReplaySource
from panels.dialogs.preempted_screen import PreemptedScreen
from tests.app.harness import Bench, agreeing, in_loop
from tests.app.live_engine import LiveEngine
from tests.app.sources import HandFedSource
from tests.recordings.kit import HandClock, recording, told


class TimedBench(Bench):
    """With a recording of what came, in which an entry can be read every 25 iterations."""

    def __init__(self, folder: Path, **options: Any) -> None:
        engine = LiveEngine(seed=5, arrivals=0.3)
        for _ in range(150):
            engine.step()
        source = HandFedSource(engine)
        source.record(lambda: self.time)
        super().__init__(source, folder, agreeing, **options)

    async def go_on(self, iterations: int) -> None:
        for number in range(iterations):
            if number % 25 == 0:
                self.source.put(self.engine.keyframe())
            await self.iterate(1, 0.05)

    @property
    def shown(self) -> int:
        iteration = self.screen.feed.shown.iteration
        assert iteration is not None
        return iteration


@in_loop
async def test_one_goes_back_by_frames_while_the_engine_goes_on(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(120, 40)) as b.pilot:
        await b.go_on(60)
        latest = b.shown
        await b.press("left_square_bracket", "left_square_bracket", "left_square_bracket")
        assert b.shown == latest - 3
        assert "PAST" in b.text()
        assert " ago" in b.text()
        await b.iterate(5)
        assert b.shown == latest - 3
        assert b.screen.feed.live.iteration == latest + 5
        await b.press("right_square_bracket")
        assert b.shown == latest - 2
        await b.press("n")
        assert b.shown == latest + 5
        assert "PAST" not in b.text()
        await b.press("n")
        assert any("present already" in note for note in b.notes())


@in_loop
async def test_parentheses_go_by_ten_seconds_of_the_engines_clock(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(260)
        latest = b.screen.feed.live.mono
        assert latest is not None
        await b.press("left_parenthesis")
        assert b.screen.feed.shown.mono == pytest.approx(latest - 10.0, abs=0.06)
        await b.press("left_square_bracket", "right_parenthesis")
        assert b.screen.feed.shown.mono == pytest.approx(latest - 0.05, abs=0.06)


@in_loop
async def test_the_end_of_what_is_recorded_is_said_and_nothing_moves(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(10)
        await b.press("right_square_bracket")
        assert any("latest frame" in note for note in b.notes())
        await b.press(*["left_square_bracket"] * 12)
        first = b.shown
        await b.press("left_square_bracket")
        assert b.shown == first
        assert any("first frame" in note for note in b.notes())


@in_loop
async def test_braces_go_from_event_to_event_and_say_which(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(120, 40)) as b.pilot:
        await b.go_on(120)
        b.notes().clear()
        await b.press("K", "left_curly_bracket")
        preempted = b.shown
        event = next(event for event in b.screen.feed.shown.events.latest(routine=False) if event.kind == "preempt")
        assert event.iteration == preempted
        assert any("preempt" in note for note in b.notes()[-1:])
        await b.press("left_curly_bracket")
        assert b.shown < preempted
        await b.press("right_curly_bracket")
        assert b.shown == preempted


@in_loop
async def test_at_takes_a_moment_in_words_and_names_what_is_none(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(60)
        latest = b.shown
        await b.press("at", *"soon", "enter")
        assert "'soon' is no moment" in b.text()
        await b.press(*["backspace"] * 4, *"it:", *str(latest - 40), "enter")
        assert b.shown == latest - 40
        assert "PAST" in b.text()


@in_loop
async def test_two_moments_are_compared(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(120, 40)) as b.pilot:
        await b.go_on(60)
        await b.press("equals_sign")
        assert any("no moment is marked" in note for note in b.notes())
        await b.press("m")
        await b.press(*["left_square_bracket"] * 20, "equals_sign")
        assert "20 iterations" in b.text()
        assert "changed hands" in b.text()
        await b.press("q")
        await b.press("apostrophe")
        assert "PAST" in b.text()
        await b.press("n")


@in_loop
async def test_a_request_of_the_past_is_not_aborted(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(120, 40)) as b.pilot:
        await b.go_on(40)
        await b.press("2", "j", "left_square_bracket", "x")
        assert b.control.sent == []
        assert any("a moment gone by" in note for note in b.notes())


@in_loop
async def test_the_most_preempted_request_is_one_key_away_and_its_first_time_another(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(160)
        found, _ = b.screen.travel.preempted()
        most = found[0]
        await b.press("V")
        assert f"{most.name} " in b.text()
        assert f"{most.tokens} tokens" in b.text()
        await b.press("enter")
        assert b.screen.feed.shown.seq == most.first.seq
        assert b.screen.requests.view.selected == most.num
        assert f"preempt {most.name}" in b.text("footer")
        await b.press("left_square_bracket")
        row = b.screen.feed.shown.request(most.num)
        assert row is not None
        assert row.preemptions in (0, None)


@in_loop
async def test_the_list_of_victims_is_gone_through_and_closed(tmp_path: Path) -> None:
    b = TimedBench(tmp_path)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.go_on(160)
        found, _ = b.screen.travel.preempted()
        names = [request.name for request in found]
        assert len(names) > 2

        def chosen() -> int:
            screen = b.app.screen
            assert isinstance(screen, PreemptedScreen)
            return screen._chosen

        last = len(names) - 1
        for keys, place in (("j", 1), ("j", 2), ("k", 1), ("G", last), ("j", last), ("g", 0), ("k", 0)):
            if not isinstance(b.app.screen, PreemptedScreen):
                await b.press("V")
            await b.press(keys)
            assert chosen() == place
        await b.press("pagedown")
        assert chosen() == min(last, 20)
        await b.press("pageup")
        assert chosen() == 0
        for close in ("q", "escape", "V"):
            await b.press(close)
            assert not isinstance(b.app.screen, PreemptedScreen)
            await b.press("V")


@in_loop
async def test_without_a_recording_the_keys_say_so(tmp_path: Path) -> None:
    b = Bench(HandFedSource(LiveEngine(seed=5)), tmp_path, agreeing)
    async with b.app.run_test(size=(80, 24)) as b.pilot:
        await b.iterate(3)
        for key in ("left_square_bracket", "left_parenthesis", "left_curly_bracket", "at", "m", "equals_sign", "V"):
            b.notes().clear()
            await b.press(key)
            assert any("nothing is recorded" in note for note in b.notes()), key


@in_loop
async def test_a_replay_is_gone_about_in_by_the_same_keys(tmp_path: Path) -> None:
    clock = HandClock()
    source = ReplaySource(Recording(recording(tmp_path / "a.kvtop", told())), "a.kvtop", clock=clock)
    b = Bench(source, tmp_path, agreeing, control_path=None)  # type: ignore[arg-type]
    async with b.app.run_test(size=(120, 40)) as b.pilot:
        await b.tick()
        clock.now += 0.4
        await b.tick()
        await b.press("n")
        last = b.screen.feed.shown.iteration
        assert last is not None
        await b.press("left_square_bracket")
        assert b.screen.feed.shown.iteration == last - 1
        assert ", stopped" in b.text()
        await b.press("left_parenthesis")
        assert b.screen.feed.shown.iteration < last - 1
        await b.press("m", "n", "equals_sign")
        assert "iterations" in b.text()
