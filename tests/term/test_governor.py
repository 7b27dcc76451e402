from kvtop.term.governor import CALM, LADDER, SETTLE, Governor


class Run:
    """Plays frames at the governor's own rate."""

    def __init__(self) -> None:
        self.governor = Governor()
        self.now = 100.0

    def frames(self, seconds: float, *, backlog: int = 0, cost: float = 0.0) -> "Run":
        end = self.now + seconds
        while self.now < end:
            self.governor.observe(self.now, backlog=backlog, cost=cost)
            self.now += 1 / self.governor.fps
        return self


def test_a_terminal_that_keeps_up_gets_the_full_rate() -> None:
    run = Run().frames(10, backlog=2, cost=0.02)
    assert run.governor.fps == LADDER[0]
    assert not run.governor.slowed
    assert run.governor.label == ""


def test_a_terminal_that_is_behind_slows_the_screen_step_by_step_and_is_named() -> None:
    run = Run().frames(0.01, backlog=3)
    assert run.governor.fps == 10
    assert run.governor.label == "slow terminal 10 fps"
    run.frames(SETTLE * 20, backlog=3)
    assert run.governor.fps == LADDER[-1]


def test_one_step_down_is_given_time_to_help() -> None:
    run = Run().frames(SETTLE * 0.9, backlog=9)
    assert run.governor.fps == LADDER[1]


def test_a_single_costly_frame_is_forgiven_and_three_are_not() -> None:
    run = Run().frames(0.05, cost=0.2).frames(1)
    assert run.governor.fps == LADDER[0]
    run.frames(0.2, cost=0.04)
    assert run.governor.fps == LADDER[1]
    assert run.governor.reason == "busy machine"


def test_frames_that_cost_half_of_the_longer_period_are_fine() -> None:
    run = Run().frames(0.2, cost=0.03).frames(60, cost=0.03)
    assert run.governor.fps in LADDER[:2]


def test_recovery_is_slow_and_complete() -> None:
    run = Run().frames(0.01, backlog=3).frames(CALM * 0.9)
    assert run.governor.fps == 10
    run.frames(CALM * 1.5)
    assert run.governor.fps == LADDER[0]
    assert run.governor.reason == ""


def test_a_rate_that_failed_again_is_retried_later() -> None:
    run = Run().frames(0.01, backlog=3).frames(CALM * 1.5)
    assert run.governor.fps == LADDER[0]
    run.frames(0.01, backlog=3)
    assert run.governor.fps == 10
    run.frames(CALM * 1.5)
    assert run.governor.fps == 10
    run.frames(CALM * 1.5)
    assert run.governor.fps == LADDER[0]
