import threading

import pytest

from kvtop.protocol import Pause, Reply
from kvtop.publish.dispatch import MAX_OPEN, CommandQueue


class Queue:
    def __init__(self) -> None:
        self.attention = threading.Event()
        self.woken = 0
        self.queue = CommandQueue(self.attention, self._wake)

    def _wake(self) -> None:
        self.woken += 1


def test_a_command_goes_to_the_engine_and_its_answer_to_the_asker() -> None:
    q = Queue()
    q.queue.put("asker", Pause(id="7"), 1000, 33)
    assert q.attention.is_set()
    (pending,) = q.queue.drain()
    assert q.queue.drain() == []
    assert (pending.command, pending.uid, pending.pid) == (Pause(id="7"), 1000, 33)
    pending.reply(True, iteration=9, message="paused", effects=["nobody runs"])
    assert q.woken == 1
    assert q.queue.answers() == [
        ("asker", Reply(id="7", ok=True, iteration=9, message="paused", effects=["nobody runs"]))
    ]
    assert q.queue.answers() == []


def test_a_second_answer_is_an_error() -> None:
    q = Queue()
    q.queue.put("asker", Pause(id="7"), None, None)
    (pending,) = q.queue.drain()
    pending.reply(True)
    with pytest.raises(RuntimeError, match="'7' was answered twice"):
        pending.reply(False)
    assert len(q.queue.answers()) == 1


def test_a_long_message_is_cut_not_refused() -> None:
    q = Queue()
    q.queue.put("asker", Pause(id="7"), None, None)
    q.queue.drain()[0].reply(False, message="x" * 5000)
    assert len(q.queue.answers()[0][1].message) == 1000


def test_closing_refuses_what_is_open_and_what_still_comes() -> None:
    q = Queue()
    q.queue.put("a", Pause(id="1"), None, None)
    q.queue.put("b", Pause(id="2"), None, None)
    first, second = q.queue.drain()
    first.reply(True)
    q.queue.close("not done: engine stopped")
    q.queue.put("c", Pause(id="3"), None, None)
    assert q.queue.drain() == []
    assert [(asker, r.id, r.ok) for asker, r in q.queue.answers()] == [
        ("a", "1", True),
        ("b", "2", False),
        ("c", "3", False),
    ]
    second.reply(True)  # the engine may still answer: the refusal stands
    assert q.queue.answers() == []


def test_the_number_of_open_commands_is_bounded() -> None:
    q = Queue()
    for number in range(MAX_OPEN + 1):
        q.queue.put("asker", Pause(id=str(number)), None, None)
    assert len(q.queue.drain()) == MAX_OPEN
    ((_, refusal),) = q.queue.answers()
    assert refusal.id == str(MAX_OPEN)
    assert not refusal.ok
    assert "try again" in refusal.message
