"""When requests are sent, and what becomes of those that the run's end cuts off; in a time that passes at once."""

import asyncio
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.load.arrivals import Arrivals, Bursts, Closed, Recorded, Renewal
from kvtop.load.driver import Driver, Limits, Said, Tally
from kvtop.load.plan import Plan, Session, Turn, chats, synthetic
from kvtop.load.sample import Failure, Sample
from tests.load.fake_time import FakeTimeLoop, run_fast

SINGLE = synthetic((10, 10), (4, 4), shared=0, groups=1, seed=1)


class Server:
    """Answers after ``seconds``; ``busy`` seconds of it the client itself can do nothing else, nor for ``writing`` seconds
    while it makes a request ready."""

    def __init__(
        self, seconds: float = 0.0, busy: float = 0.0, fails: Failure | None = None, writing: float = 0.0
    ) -> None:
        self.seconds, self.busy, self.fails, self.writing = seconds, busy, fails, writing
        self.heard: list[Said] = []

    def prepare(self, session: Session, turn: Turn, said: Said) -> "Server._Call":
        loop = asyncio.get_running_loop()
        assert isinstance(loop, FakeTimeLoop)
        loop.pass_time(self.writing)
        return self._Call(self, said, turn)

    class _Call:
        def __init__(self, server: "Server", said: Said, turn: Turn) -> None:
            self.server, self.said, self.turn = server, said, turn

        async def send(self, sample: Sample, clock: Callable[[], float]) -> Said:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, FakeTimeLoop)
            self.server.heard.append(self.said)
            loop.pass_time(self.server.busy)
            await asyncio.sleep(self.server.seconds)
            sample.failure = self.server.fails
            sample.done = clock()
            return (*self.said, ("user", f"{self.turn.user[0].tokens}"), ("assistant", "yes"))


def drive(server: Server, arrivals: Arrivals, plan: Plan = SINGLE, seed: int = 0, **limits: float) -> Tally:
    driver = Driver(plan, arrivals, server.prepare, Limits(**{"seconds": 10.0, **limits}), seed)  # type: ignore[arg-type]
    return run_fast(driver.run())


@given(times=st.lists(st.floats(0, 9.9), max_size=30).map(sorted), takes=st.sampled_from((0.0, 3.0, 10_000.0)))
def test_an_open_loop_sends_at_its_times_however_slow_the_server(times: list[float], takes: float) -> None:
    samples = drive(Server(takes), Recorded(times)).samples
    assert [sample.sent for sample in samples] == pytest.approx(times, abs=1e-9)
    assert all(sample.lateness == pytest.approx(0, abs=1e-9) for sample in samples)


def test_a_client_that_is_late_says_by_how_much() -> None:
    samples = drive(Server(busy=0.25), Bursts(4, 20.0)).samples
    assert [sample.lateness for sample in samples] == pytest.approx([0.0, 0.25, 0.5, 0.75])


def test_what_is_due_does_not_wait_for_what_is_made_ready() -> None:
    """But for the one that is being made: hundreds are made ahead, and each takes its time."""
    samples = drive(Server(writing=0.02), Recorded([number / 10 for number in range(400)]), seconds=60.0).samples
    assert len(samples) == 400
    assert max(sample.lateness or 0.0 for sample in samples) < 0.03


@pytest.mark.parametrize(
    ("arrivals", "limits", "due", "late"),
    [
        (Bursts(40, 20.0), {"seconds": 1.0}, 40, True),
        (Bursts(40, 20.0), {"seconds": 1.0, "requests": 30}, 30, True),
        (Bursts(40, 20.0), {"seconds": 1.0, "requests": 3}, 3, False),
        (Recorded([0.0, 0.1, 0.9, 3.0]), {"seconds": 1.0}, 3, False),
    ],
)
def test_what_a_client_was_too_late_to_begin_is_counted(
    arrivals: Arrivals, limits: dict[str, float], due: int, late: bool
) -> None:
    tally = drive(Server(busy=0.25), arrivals, **limits)
    assert (len(tally.samples) + tally.overdue, tally.overdue > 0) == (due, late)


def test_what_the_client_cannot_hold_open_is_not_sent_and_counted() -> None:
    tally = drive(Server(seconds=5.0), Bursts(5, 2.0), open_requests=3, seconds=3.0)
    assert [sample.failure for sample in tally.samples] == [None] * 3 + [Failure.CLIENT_LIMIT] * 7
    assert all(sample.sent is None for sample in tally.samples[3:])
    assert tally.most_open == 3


def test_a_closed_loop_has_as_many_open_as_it_has_streams_and_never_more() -> None:
    tally = drive(Server(seconds=1.0), Closed(3))
    assert tally.most_open == 3
    assert len(tally.samples) == 30
    assert {sample.sent for sample in tally.samples if sample.index < 3} == {0.0}


@pytest.mark.parametrize("arrivals", [Closed(3), Renewal(50.0), Bursts(10, 1.0)])
def test_no_more_are_sent_than_were_asked_for(arrivals: Arrivals) -> None:
    tally = drive(Server(seconds=0.5), arrivals, requests=7, warmup_requests=2)
    assert len(tally.samples) == 9
    assert [sample.warmup for sample in tally.samples] == [True] * 2 + [False] * 7


def test_answers_may_come_after_the_end_and_those_that_do_not_are_told_apart() -> None:
    assert all(s.ok for s in drive(Server(seconds=20.0), Bursts(2, 5.0), patience=30.0).samples)
    cut = drive(Server(seconds=20.0), Bursts(2, 5.0), patience=12.0).samples
    # Begun at 0 and at 5: those of 5 would have come at 25, and the end was at 10 + 12.
    assert [sample.failure for sample in cut] == [None, None, Failure.UNFINISHED, Failure.UNFINISHED]


def test_a_conversation_says_again_what_was_said_and_thinks_before_each_turn() -> None:
    plan = chats((3, 3), (5, 5), (2, 2), shared=0, groups=1, think=1.0, seed=3)
    server = Server(seconds=0.5)
    samples = drive(server, Recorded([0.0]), plan, seconds=1000.0).samples
    assert [len(said) for said in server.heard] == [0, 2, 4]
    assert [sample.turn for sample in samples] == [0, 1, 2]
    thinking = next(plan.sessions()).turns
    for before, after in itertools.pairwise(samples):
        assert before.done is not None
        assert after.due == pytest.approx(before.done + thinking[after.turn].think)
    assert [sample.prompt_asked for sample in samples] == [5, 5 + 2 + 5, 5 + 2 + 5 + 2 + 5]


def test_a_conversation_ends_with_a_turn_that_fails() -> None:
    plan = chats((3, 3), (5, 5), (2, 2), shared=0, groups=1, think=0.0, seed=3)
    samples = drive(Server(fails=Failure.TOO_MANY), Recorded([0.0]), plan).samples
    assert [sample.turn for sample in samples] == [0]


def test_a_user_waits_behind_a_request_that_failed_longer_each_time_and_not_behind_one_that_was_answered() -> None:
    """A server that is dead answers at once, and time passes only while everybody waits."""
    server = Server(fails=Failure.CONNECT)
    samples = drive(server, Closed(2), requests=16).samples
    sent = [sample.sent or 0.0 for sample in samples]
    assert sent[::2] == sent[1::2] == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.75, 1.55, 2.35, 3.15])
    well = drive(Server(seconds=0.5), Closed(1), requests=4).samples
    assert [sample.sent for sample in well] == pytest.approx([0.0, 0.5, 1.0, 1.5])


def test_after_an_answer_the_wait_begins_anew() -> None:
    class Flapping(Server):
        def prepare(self, session: Session, turn: Turn, said: Said) -> Server._Call:
            self.fails = None if next(count) == 3 else Failure.UNAVAILABLE
            return super().prepare(session, turn, said)

    count = itertools.count()
    samples = drive(Flapping(), Closed(1), requests=6).samples
    assert [sample.sent for sample in samples] == pytest.approx([0.0, 0.05, 0.15, 0.35, 0.35, 0.4])


def test_a_turn_of_a_conversation_that_was_answered_begins_the_wait_anew_too() -> None:
    class SecondTurnFails(Server):
        def prepare(self, session: Session, turn: Turn, said: Said) -> Server._Call:
            self.fails = Failure.UNAVAILABLE if said else None
            return super().prepare(session, turn, said)

    plan = chats((2, 2), (5, 5), (2, 2), shared=0, groups=1, think=0.0, seed=3)
    samples = drive(SecondTurnFails(), Closed(1), plan, requests=6).samples
    assert [sample.sent for sample in samples if not sample.turn] == pytest.approx([0.0, 0.05, 0.1])


def test_asked_to_stop_it_returns_what_there_is() -> None:
    server = Server(seconds=3.0)
    driver = Driver(SINGLE, Closed(1), server.prepare, Limits(1000.0), 0)

    async def both() -> Tally:
        running = asyncio.create_task(driver.run())
        await asyncio.sleep(7.0)
        driver.stop()
        return await running

    tally = run_fast(both())
    assert tally.stopped
    assert [sample.failure for sample in tally.samples] == [None, None, Failure.UNFINISHED]


def test_prompts_are_made_before_they_are_due() -> None:
    """Making a body takes half a second here: of requests that come together, none waits for another's."""
    server = Server()

    class Slow(Server):
        def prepare(self, session: Session, turn: Turn, said: Said) -> Server._Call:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, FakeTimeLoop)
            loop.pass_time(0.5)
            return super().prepare(session, turn, said)

    samples = drive(Slow(), Bursts(20, 20.0)).samples
    assert {sample.lateness for sample in samples} == {0.0}
    assert server.heard == []
