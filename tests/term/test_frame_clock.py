import asyncio

import pytest

from kvtop.term.frame_clock import FrameClock
from kvtop.term.governor import Governor


class Ticks:
    def __init__(self) -> None:
        self.seen: list[tuple[float, bool]] = []

    def __call__(self, now: float, text_due: bool) -> None:
        self.seen.append((now, text_due))


def test_text_is_due_four_times_a_second_of_twenty_frames() -> None:
    ticks = Ticks()
    clock = FrameClock(ticks)
    for frame in range(40):
        clock.step(frame / 20)
    assert [frame for frame, (_, due) in enumerate(ticks.seen) if due] == list(range(0, 40, 5))


def test_at_two_frames_a_second_text_is_due_each_time() -> None:
    ticks = Ticks()
    clock = FrameClock(ticks)
    for frame in range(6):
        clock.step(frame / 2)
    assert all(due for _, due in ticks.seen)


def test_the_slowest_reason_counts_and_zero_pauses() -> None:
    clock = FrameClock(Ticks())
    clock.limit("blurred", 5)
    clock.limit("dialog", 2)
    assert clock.fps == 2
    clock.limit("dialog", None)
    assert clock.fps == 5
    clock.limit("suspended", 0)
    assert clock.paused
    clock.limit("suspended", None)
    clock.limit("blurred", None)
    assert clock.fps == clock.governor.fps == 15


def test_the_governor_hears_of_the_backlog_and_of_the_cost_since_the_last_tick() -> None:
    cpu = iter([0.0, 0.01, 0.02, 0.03, 0.04])
    backlog = iter([0, 0, 0, 5])
    clock = FrameClock(Ticks(), governor=Governor(), backlog=lambda: next(backlog), cpu=lambda: next(cpu))
    for frame in range(4):
        clock.step(frame / 20)
    assert clock.governor.fps == 15
    clock.step(4 / 20)
    assert clock.governor.label == "slow terminal 10 fps"


def test_it_ticks_by_itself_and_stops() -> None:
    async def main() -> tuple[int, int]:
        ticks = Ticks()
        clock = FrameClock(ticks)
        clock.start()
        clock.start()
        while len(ticks.seen) < 3:
            await asyncio.sleep(0.01)
        await clock.stop()
        after_stop = len(ticks.seen)
        await asyncio.sleep(0.15)
        return after_stop, len(ticks.seen)

    before, after = asyncio.run(main())
    assert before == after


def test_while_paused_it_does_not_tick_and_afterwards_it_does() -> None:
    async def main() -> tuple[int, int]:
        ticks = Ticks()
        clock = FrameClock(ticks)
        clock.limit("suspended", 0)
        clock.start()
        await asyncio.sleep(0.12)
        paused = len(ticks.seen)
        clock.limit("suspended", None)
        while not ticks.seen:
            await asyncio.sleep(0.01)
        await clock.stop()
        return paused, len(ticks.seen)

    paused, resumed = asyncio.run(main())
    assert paused == 0
    assert resumed > 0


def test_an_error_of_a_tick_goes_to_its_handler_and_the_clock_goes_on() -> None:
    errors: list[Exception] = []

    def fail(now: float, text_due: bool) -> None:
        raise RuntimeError("tick")

    clock = FrameClock(fail, on_error=errors.append)
    clock.step(0)
    clock.step(1)
    assert [str(error) for error in errors] == ["tick", "tick"]
    with pytest.raises(RuntimeError, match="tick"):
        FrameClock(fail).step(0)
