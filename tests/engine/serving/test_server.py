"""The serving loop on real sockets, without a model: commands take effect between two iterations and are on record."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.workload.arrivals import Arrival
from kvtop.protocol import (
    Abort,
    AnyCommand,
    Compact,
    Event,
    IterationFrame,
    Keyframe,
    Pause,
    Pin,
    Preempt,
    Reply,
    RequestKeyframe,
    ResetPrefixCache,
    Resume,
    SetPolicy,
    Unpin,
    encode,
)
from kvtop.state import EngineState
from kvtop.state.ledger import check as check_ledger
from tests.engine.running import RunningEngine
from tests.publish.kit import Peer


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningEngine]:
    it = RunningEngine(tmp_path / "s")
    it.until(lambda: it.engine.iteration > 5)
    yield it
    it.close()


def test_a_capacity_switch_holds_from_the_named_iteration_and_is_on_record(running: RunningEngine) -> None:
    running.until(lambda: running.engine.scheduler.totals.preemptions > 0)
    reply = running.ask(SetPolicy(id="1", changes={"capacity": "guaranteed_no_evict"}, transition="preempt"))
    assert reply.ok, reply.message
    assert reply.iteration is not None
    event = running.events("policy")[-1]
    assert (event.axis, event.old, event.new) == ("capacity", "max_utilization", "guaranteed_no_evict")
    assert (event.uid, event.pid) == (os.getuid(), os.getpid())
    assert event.iteration == reply.iteration - 1
    assert event.detail == f"in effect from iteration {reply.iteration}"
    running.until(lambda: running.engine.iteration > reply.iteration + 60)
    late = [e for e in running.events("preempt") if e.iteration >= reply.iteration]
    assert late == [], "under guaranteed_no_evict nobody is preempted"


def test_a_dry_run_says_what_would_happen_and_changes_nothing(running: RunningEngine) -> None:
    before = running.engine.scheduler.policies
    reply = running.ask(SetPolicy(id="1", changes={"capacity": "static_batch"}, dry_run=True))
    assert reply.ok
    assert reply.effects
    assert running.engine.scheduler.policies is before
    assert running.events("policy") == []


def test_nonsense_is_refused_in_a_sentence_that_names_axis_and_choices(running: RunningEngine) -> None:
    reply = running.ask(SetPolicy(id="1", changes={"capacity": "magic"}))
    assert not reply.ok
    for word in ("capacity", "magic", "max_utilization", "static_batch"):
        assert word in reply.message
    reply = running.ask(SetPolicy(id="2", changes={"colour": "red"}))
    assert not reply.ok
    assert "colour" in reply.message
    assert "refused" in (running.events("command")[-1].detail or "")


def test_pause_stops_iterations_and_resume_goes_on(running: RunningEngine) -> None:
    assert running.ask(Pause(id="1")).ok
    stopped = running.engine.iteration
    running.ask(RequestKeyframe())
    assert running.engine.iteration == stopped
    assert running.engine.scheduler.verdict is not None
    assert running.engine.scheduler.verdict.code == "paused"
    assert running.ask(Resume(id="2")).ok
    running.until(lambda: running.engine.iteration > stopped)
    assert [e.kind for e in running.telemetry.log.recent() if e.kind in ("pause", "resume")] == ["pause", "resume"]


def test_abort_and_preempt_reach_the_named_request(running: RunningEngine) -> None:
    victim = running.engine.scheduler.running[-1]
    reply = running.ask(Preempt(id="1", request=victim.id))
    if reply.ok:
        assert running.events("preempt")
        assert victim.preemptions >= 1
    ids = [r.id for r in running.engine.scheduler.requests.values()]
    reply = running.ask(Abort(id="2", request=ids[-1]))
    assert reply.ok
    assert any(e.request_id == ids[-1] for e in running.events("abort"))
    reply = running.ask(Abort(id="3", request="nobody"))
    assert not reply.ok
    assert "nobody" in reply.message


def test_a_command_for_a_run_that_is_over_reaches_nobody_and_is_on_record(running: RunningEngine) -> None:
    running.until(lambda: running.engine.scheduler.running)
    running.ask(Pause(id="0"))
    scheduler, run = running.engine.scheduler, running.publisher.hello.engine.run
    victim, before = scheduler.running[0], (scheduler.policies, len(scheduler.requests))
    meant: list[AnyCommand] = [
        Abort(id="1", run="0ld-run-of-before", request=victim.num),
        Preempt(id="2", run="0ld-run-of-before", request=victim.num),
        Pin(id="3", run="0ld-run-of-before", request=victim.num),
        Unpin(id="4", run="0ld-run-of-before", request=victim.num),
        SetPolicy(id="5", run="0ld-run-of-before", changes={"max_running": 1}),
        SetPolicy(id="6", run="0ld-run-of-before", changes={"max_running": 1}, dry_run=True),
        Resume(id="7", run="0ld-run-of-before"),
        ResetPrefixCache(id="8", run="0ld-run-of-before"),
        Compact(id="9", run="0ld-run-of-before"),
    ]
    for command in meant:
        line = encode(command)
        reply = _say(running.publisher.places[1], line)
        assert (reply["id"], reply["ok"]) == (command.id, False)
        assert reply["message"] == (
            f"this was meant for run 0ld-run- of the engine, which is over; what goes on now is run {run[:8]}"
        )
    assert scheduler.paused
    assert victim in scheduler.running
    assert (scheduler.policies, len(scheduler.requests)) == before
    assert scheduler.pool.pinned_total == 0
    assert (running.events("command")[-1].detail or "").startswith("compact refused: this was meant for run 0ld-run-")
    # The run that goes on, named or not.
    assert running.ask(Preempt(id="10", run=run, request=victim.num)).ok
    assert running.ask(Resume(id="11")).ok


def _say(place: Path, line: bytes) -> dict[str, object]:
    """The reply to a line that is sent as it is, without a client that looks at it first."""
    with socket.socket(socket.AF_UNIX) as peer, peer.makefile("rb") as lines:
        peer.settimeout(20)
        peer.connect(str(place))
        peer.sendall(line)
        while True:
            said: dict[str, object] = json.loads(lines.readline())
            if said["type"] == "reply":
                return said


def _pin_a_finished_one(running: RunningEngine) -> tuple[Event, Reply]:
    """The engine is paused behind it. Of those that finished, some have no block left in so small a pool."""
    for attempt in range(20):
        running.until(lambda so_far=3 + attempt: running.engine.scheduler.totals.finished > so_far)
        running.ask(Pause(id="0"))
        for event in reversed(running.events("finish")):
            assert event.request is not None
            reply = running.ask(Pin(id="1", request=event.request))
            if reply.ok:
                return event, reply
        running.ask(Resume(id="0"))
    raise AssertionError(reply.message)


def test_a_request_is_pinned_and_unpinned_by_its_number_or_its_id(running: RunningEngine) -> None:
    finished, reply = _pin_a_finished_one(running)
    pool = running.engine.scheduler.pool
    assert f"blocks of {finished.request_id} pinned" in reply.message or "1 block of" in reply.message
    assert pool.pinned_total > 0
    assert running.events("pin")[-1].request_id == finished.request_id
    assert running.telemetry.keyframe().gauges.kv_blocks_pinned == pool.pinned_blocks
    assert running.ask(Unpin(id="2", request=finished.request_id or "")).ok
    assert pool.pinned_total == 0
    reply = running.ask(Unpin(id="3", request="nobody"))
    assert not reply.ok
    assert reply.message == "nobody is not pinned"


def test_blocks_are_moved_together_on_command(running: RunningEngine) -> None:
    running.until(lambda: running.engine.scheduler.totals.finished > 3)
    total = running.engine.scheduler.pool.total
    reply = running.ask(Compact(id="1", first=0, end=total // 2))
    assert reply.ok, reply.message
    if "to be moved out of 0 to" in reply.message:
        running.until(lambda: bool(running.events("compact")))
        assert "moved out of 0 to" in (running.events("compact")[-1].detail or "")
    reply = running.ask(Compact(id="2", first=0, end=total + 1))
    assert not reply.ok
    assert reply.message == f"blocks 0 to {total + 1} are no range of the pool's blocks 0 to {total}"
    assert running.ask(Compact(id="3")).ok


def test_the_prefix_cache_can_be_emptied(running: RunningEngine) -> None:
    running.until(
        lambda: running.engine.scheduler.pool.cached_blocks > 0 or running.engine.scheduler.totals.finished > 3
    )
    running.ask(Pause(id="0"))
    assert running.ask(ResetPrefixCache(id="1")).ok
    assert running.engine.scheduler.pool.cached_blocks == 0
    assert running.events("prefix_reset")


def test_the_ledger_is_checked_while_serving(running: RunningEngine) -> None:
    running.until(lambda: running.telemetry.ledger_checks > 2)
    assert running.telemetry.ledger_violations == 0


def test_a_full_queue_holds_arrivals_back(running: RunningEngine) -> None:
    running.until(lambda: running.engine.iteration > 30)
    assert len(running.engine.scheduler.waiting) <= 6 + 8


def test_what_an_arrival_asks_for_reaches_its_request(running: RunningEngine) -> None:
    kept, drawn = (Retention(0, 4, 80, 9.0),), Sampling(temperature=0.5, seed=3)
    running.server.stop()
    running.thread.join(10)
    running.server._next = Arrival(0.0, "X", [5] * 9, 20, 2, retention=kept, n=3, sampling=drawn, salt="tenant 1")
    running.server._queue_limit = 100
    running.server._feed()
    first = next(r for r in running.engine.scheduler.requests.values() if r.label == "X")
    assert first.sampling == drawn
    assert len({r.sampling.seed for r in (first, *first.samples)}) == first.siblings == 3
    for request in (first, *first.samples):
        assert (request.priority, request.retention, request.cache_salt) == (2, kept, "tenant 1")
    running.server._next = Arrival(0.0, "Y", [6] * 9, 20, 2, beam=4)
    running.server._queue_limit = 200
    running.server._feed()
    first = next(r for r in running.engine.scheduler.requests.values() if r.label == "Y")
    assert first.beam is not None
    assert first.beam.width == first.siblings == 4


def test_frames_are_made_only_while_somebody_watches_and_who_comes_again_sees_what_is_true(
    running: RunningEngine,
) -> None:
    for _ in range(3):
        before = running.engine.iteration
        running.until(lambda at=before: running.engine.iteration > at + 30)  # type: ignore[misc]
        made = running.telemetry.frame_ms
        running.until(lambda at=running.engine.iteration: running.engine.iteration > at + 30)  # type: ignore[misc]
        assert running.telemetry.frame_ms == made, "a frame was made for nobody"
        state = EngineState()
        with Peer(running.publisher.places[0]) as peer:
            for message in peer.until(lambda message: isinstance(message, Keyframe)):
                state.apply(message, 0.0)
            for _ in range(20):
                state.apply(peer.of(IterationFrame), 0.0)
            assert not state.resync
            assert state.bad_facts == 0, state.bad_note
            assert check_ledger(state) == []
        running.until(lambda: not running.publisher.watched)
