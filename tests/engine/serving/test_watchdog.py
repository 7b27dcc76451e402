"""The watchdog tells each way of standing still once, by name, and when it ends; and it is quiet while work gets done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from engine.config import EngineConfig
from engine.requests.request import RequestState
from engine.serving.server import Server
from engine.serving.telemetry import Telemetry
from engine.serving.watchdog import Facts, Limits, Notice, Trouble, Watchdog, facts_of
from kvtop.protocol import AnyCommand, IterationFrame, Keyframe, Pause, Resume
from kvtop.publish import Publisher
from tests.engine.fake_model import Clock, make_engine, request

LIMITS = Limits(stall=10.0, paused=60.0, head=30.0)
BUSY = Facts(
    now=0.0,
    iteration=0,
    waiting=3,
    running=2,
    paused=False,
    sampled=0,
    computed=0,
    ended=0,
    total=100,
    available=4,
    moving=0,
    pinned=0,
    head="r-0007",
    code="needs_blocks",
    detail="r-0007 needs 9 more blocks and can have 4",
    need=9,
)


class Watched:
    """A watchdog and the facts of an engine that changes only as told, one turn a second."""

    def __init__(self, facts: Facts = BUSY, limits: Limits = LIMITS) -> None:
        self.dog, self.facts = Watchdog(limits), facts
        self.told: list[Notice] = []

    def turns(self, seconds: int, each: Callable[[Facts], Facts] = lambda facts: facts, **changes: Any) -> list[Notice]:
        """What was told within ``seconds`` of turns; ``each`` changes the facts from turn to turn."""
        self.facts = replace(self.facts, **changes)
        told = []
        for _ in range(seconds):
            self.facts = each(replace(self.facts, now=self.facts.now + 1.0))
            told += self.dog.look(self.facts)
        self.told += told
        return told


def working(facts: Facts) -> Facts:
    return replace(facts, iteration=facts.iteration + 1, sampled=facts.sampled + 2)


def thrashing(facts: Facts) -> Facts:
    return replace(facts, iteration=facts.iteration + 1)


def test_an_engine_that_gets_on_is_left_alone() -> None:
    watched = Watched(replace(BUSY, head=None, code=None, need=None))
    assert watched.turns(1000, working) == []


def test_long_prefills_are_progress() -> None:
    watched = Watched(replace(BUSY, head=None, code=None))
    assert watched.turns(1000, lambda f: replace(thrashing(f), computed=f.computed + 1)) == []


def test_an_idle_engine_is_left_alone_and_new_work_has_its_time() -> None:
    watched = Watched(replace(BUSY, waiting=0, running=0, head=None, code=None))
    assert watched.turns(1000) == []
    assert watched.turns(9, waiting=1) == []
    assert [n.alarm.trouble for n in watched.turns(2)] == [Trouble.NOTHING_RUNS]


def test_iterations_without_a_token_are_told_once_and_when_they_end() -> None:
    watched = Watched(replace(BUSY, head=None, code=None))
    (began,) = watched.turns(50, thrashing)
    assert (began.alarm.trouble, began.alarm.severity, began.over) == (Trouble.NO_TOKENS, "error", False)
    assert "nobody gets a token" in began.alarm.text
    assert began.seconds == 10.0
    (ended,) = watched.turns(50, working)
    assert ended.over
    assert ended.alarm == began.alarm
    assert ended.seconds == 50.0
    assert watched.dog.alarm is None


def test_tokens_computed_again_are_no_progress() -> None:
    """Preempted and recomputed in turn: the tokens computed for the first time never exceed what they were."""
    swing = iter([0, -8, -4] * 40)
    watched = Watched(replace(BUSY, head=None, code=None, computed=100))
    told = watched.turns(60, lambda f: replace(thrashing(f), computed=100 + next(swing)))
    assert [n.alarm.trouble for n in told] == [Trouble.NO_TOKENS]


def test_blocks_held_by_copies_and_pins_are_named_with_their_numbers() -> None:
    held = replace(BUSY, running=0, moving=90, pinned=6, available=4)
    (told,) = Watched(held).turns(20)
    assert told.alarm.trouble is Trouble.BLOCKS_HELD
    assert "of 100 blocks 90 in copies and 6 pinned, 4 available" in told.alarm.text


def test_requests_that_only_wait_for_their_kv_do_not_pass_for_work() -> None:
    stuck = replace(BUSY, running=2, loading=2, waiting=0, moving=12, available=60, head=None, code=None, need=None)
    (told,) = Watched(stuck).turns(20)
    assert told.alarm.trouble is Trouble.BLOCKS_HELD
    assert told.alarm.text.startswith("0 requests waiting, 2 loading and none can start: of 100 blocks 12 in copies")


def test_copies_that_hold_nobody_up_are_not_blamed() -> None:
    spare = replace(BUSY, running=0, moving=10, available=80, head=None, code=None, need=None)
    (told,) = Watched(spare).turns(20)
    assert told.alarm.trouble is Trouble.NOTHING_RUNS


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"code": "never_fits", "detail": "its prompt needs 300 blocks"}, "r-0007 can never run: its prompt needs 300"),
        ({"pinned": 95}, "needs 9 blocks and 95 of 100 are pinned"),
    ],
)
def test_a_head_that_can_never_fit_is_told_though_others_get_on(changes: dict[str, Any], says: str) -> None:
    (told,) = Watched(replace(BUSY, **changes)).turns(25, working)
    assert told.alarm.trouble is Trouble.NEVER_FITS
    assert told.alarm.severity == "error"
    assert says in told.alarm.text


def test_a_head_refused_for_the_same_reason_is_told_and_its_admission_ends_it() -> None:
    watched = Watched()
    (told,) = watched.turns(100, working)
    assert (told.alarm.trouble, told.alarm.severity) == (Trouble.HEAD_REFUSED, "warn")
    assert told.alarm.text.endswith("r-0007 needs 9 more blocks and can have 4")
    (ended,) = watched.turns(20, working, head="r-0008")
    assert ended.over
    (next_one,) = watched.turns(20, working)
    assert next_one.alarm.head == "r-0008"


def test_refusals_of_one_iteration_interrupt_nothing_and_another_reason_does() -> None:
    codes = ["needs_blocks", "after_preemption", "token_budget"]
    watched = Watched()
    told = watched.turns(40, lambda f: replace(working(f), code=codes[f.iteration % 3]))
    assert [n.alarm.trouble for n in told] == [Trouble.HEAD_REFUSED]
    codes = ["needs_blocks", "max_running"]
    assert Watched().turns(200, lambda f: replace(working(f), code=codes[f.iteration // 20 % 2])) == []


def test_a_pause_is_told_when_it_was_forgotten_and_not_blamed_on_anything_else() -> None:
    watched = Watched()
    told = watched.turns(90, paused=True, code="paused")
    assert [n.alarm.trouble for n in told] == [Trouble.PAUSED]
    assert told[0].alarm.text == "paused with 5 requests left to serve; resume to go on"
    (ended,) = watched.turns(9, thrashing, paused=False, code=None, head=None)
    assert ended.over, "and the time of the pause is no standstill"


def test_a_pause_without_work_is_no_trouble() -> None:
    assert Watched(replace(BUSY, waiting=0, running=0, head=None)).turns(500, paused=True) == []


def test_limits_of_zero_are_off_and_nonsense_is_refused() -> None:
    off = Limits(0.0, 0.0, 0.0)
    assert Watched(limits=off).turns(500, thrashing) == []
    assert Watched(limits=off).turns(500, paused=True) == []
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="watchdog limit head"):
            Limits(head=wrong)


# In the serving loop: a clock that goes on with every look at it, and a publisher that keeps what it is given.


class Pending:
    uid, pid = 1000, 42

    def __init__(self, command: AnyCommand) -> None:
        self.command, self.ok = command, False

    def reply(self, ok: bool, **_: Any) -> None:
        self.ok = ok


class Kept:
    """The publisher's part of the serving loop, without sockets."""

    watched = True
    recorded = False
    flight = None

    def __init__(self) -> None:
        self.hello = Mock()
        self.frames: list[IterationFrame] = []
        self.pending: list[Pending] = []

    def commands(self) -> list[Pending]:
        now, self.pending = self.pending, []
        return now

    def publish(self, frame: IterationFrame) -> None:
        self.frames.append(frame)

    def keyframe_coming(self, seq: int) -> None: ...

    def publish_keyframe(self, _: Keyframe) -> None: ...

    def keyframe_due(self) -> bool:
        return False

    def wait(self, _: float) -> None: ...

    def nudge(self) -> None: ...

    def ask(self, command: AnyCommand) -> None:
        self.pending.append(Pending(command))

    def warnings(self) -> list[str | None]:
        return [frame.status.warning for frame in self.frames if frame.status is not None]

    def told(self) -> list[tuple[str, str | None]]:
        return [(e.severity, e.cause) for frame in self.frames for e in frame.events if e.kind == "watchdog"]


class TickingClock(Clock):
    def __call__(self) -> float:
        self.now += 0.01
        return self.now


def serving(limits: Limits, **policies: Any) -> tuple[Server, Kept]:
    engine, telemetry = make_engine(blocks=16, clock=TickingClock(), **policies)
    kept: Any = Kept()
    publisher: Publisher = kept
    return Server(engine, telemetry, publisher, ledger_every=4, watchdog=limits), kept


def test_a_forgotten_pause_is_in_the_status_and_in_the_events_until_it_is_resumed() -> None:
    server, kept = serving(Limits(stall=1.0, paused=2.0))
    server.submit([1] * 20, 40)
    server.run(0.2)
    kept.ask(Pause(id="1"))
    server.run(6.0)
    assert kept.told() == [("warn", "paused")]
    assert kept.warnings()[-1] == "paused with 1 request left to serve; resume to go on"
    kept.ask(Resume(id="2"))
    server.run(6.0)
    assert kept.told() == [("warn", "paused"), ("info", "paused")]
    assert kept.warnings()[-1] is None


def test_a_running_request_that_gets_no_tokens_is_noticed() -> None:
    server, kept = serving(Limits(stall=1.0))
    stuck = server.submit([1] * 20, 40).request
    server.run(0.2)
    stuck.state = RequestState.WAITING  # a fault: in the running list, but never planned again
    server.run(4.0)
    assert kept.told() == [("error", "nothing_runs")]


def test_the_cost_of_the_ledger_check_is_published_with_the_iteration_that_did_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("engine.serving.server.AUDIT_S", 60.0)  # all of a round at once
    server, kept = serving(Limits())
    server.submit([1] * 20, 20)
    server.run(3.0)
    checked = [frame.iteration for frame in kept.frames if frame.durations.ledger > 0]
    assert checked
    assert all(number % 4 == 0 for number in checked)


def test_the_facts_are_those_of_the_engine() -> None:
    engine, _ = make_engine(blocks=16)
    engine.scheduler.add(request(0, [1] * 20), 100.0)
    engine.scheduler.add(request(1, [2] * 60, 2), 100.0)
    engine.step()
    facts = facts_of(engine, 101.0)
    assert (facts.waiting, facts.running, facts.sampled, facts.computed) == (1, 1, 1, 20)
    assert (facts.head, facts.code, facts.total) == ("r-0001", "needs_blocks", 16)
    assert facts.available == 16 - 5
    assert facts.need == 16


def test_a_configuration_carries_the_limits() -> None:
    assert EngineConfig(watchdog=Limits(stall=3.0)).watchdog.stall == 3.0


def test_telemetry_cuts_what_is_too_long_for_a_frame() -> None:
    engine, telemetry = make_engine()
    assert isinstance(telemetry, Telemetry)
    dog = Watchdog(Limits(stall=1.0))
    facts = replace(BUSY, running=0, head="x" * 600, detail="y" * 900, code="never_fits")
    (told,) = [*dog.look(facts), *dog.look(replace(facts, now=5.0))]
    telemetry.log.watchdog(told)
    telemetry.alarm = told.alarm
    frame = IterationFrame.model_validate(telemetry.frame(None).model_dump())
    assert frame.status is not None
    assert frame.status.warning is not None
    assert len(frame.status.warning) == 500
    assert engine.iteration == 0
