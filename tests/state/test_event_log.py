"""The event log keeps what matters when there is much that does not."""

from kvtop.protocol import Event
from kvtop.state.changes import Marker
from kvtop.state.event_log import EventLog


def _event(number: int, kind: str) -> Event:
    return Event(id=number, kind=kind, iteration=number, wall=float(number))


def test_a_flood_of_routine_events_does_not_push_out_a_preemption() -> None:
    log = EventLog(10)
    log.append(_event(0, "preempt"))
    log.append(Marker("gap", 0.0, 0, "warn", "lost"))
    log.extend(_event(i, "admit") for i in range(1, 1000))
    assert [getattr(e, "kind", "") for e in log.latest(routine=False)] == ["gap", "preempt"]
    assert len(log) == 12
    assert [e.id for e in log if isinstance(e, Event)] == [0, *range(990, 1000)]


def test_the_order_is_that_of_arrival_and_a_copy_stands_alone() -> None:
    log = EventLog(10)
    for i, kind in enumerate(("admit", "preempt", "finish", "policy", "evict")):
        log.append(_event(i, kind))
    copy = log.copy()
    log.append(_event(5, "abort"))
    assert [e.id for e in copy if isinstance(e, Event)] == [0, 1, 2, 3, 4]
    assert [e.id for e in log if isinstance(e, Event)] == [0, 1, 2, 3, 4, 5]


def test_back_from_the_newest_is_the_same_read_from_the_other_end() -> None:
    log = EventLog(50)
    log.extend(_event(i, ("admit", "preempt", "evict", "policy")[i * i % 4]) for i in range(300))
    assert list(log.latest())[::-1] == list(log)
