import threading

from kvtop.publish.schedule import SPACING, KeyframeSchedule


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_due_at_the_start_and_then_every_so_often() -> None:
    clock = Clock()
    schedule = KeyframeSchedule(5.0, threading.Event(), clock)
    assert schedule.due()
    schedule.done()
    assert not schedule.due()
    clock.now += 4.9
    assert not schedule.due()
    clock.now += 0.2
    assert schedule.due()


def test_a_wish_makes_it_due_and_wakes_the_engine() -> None:
    clock, attention = Clock(), threading.Event()
    schedule = KeyframeSchedule(5.0, attention, clock)
    schedule.done()
    clock.now += 1.0
    schedule.want()
    assert attention.is_set()
    assert schedule.due()
    schedule.done()
    assert not schedule.due()


def test_wishes_in_a_loop_do_not_make_the_engine_build_one_after_another() -> None:
    clock = Clock()
    schedule = KeyframeSchedule(5.0, threading.Event(), clock)
    schedule.done()
    schedule.want()
    assert not schedule.due()
    assert schedule.seconds_left() == SPACING
    clock.now += SPACING + 0.01
    assert schedule.due()
