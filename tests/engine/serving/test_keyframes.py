"""Keyframes gathered beside the work: what they say is what one made at once says, whatever happens meanwhile."""

import random
from itertools import count

import numpy as np
import pytest

from engine.core import Engine
from engine.memory import column_copy
from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from engine.scheduling.scheduler import Scheduler
from engine.serving import keyframes
from engine.serving.request_facts import KEPT_FINISHED
from engine.serving.telemetry import Telemetry
from engine.tiers.books import TierBooks
from engine.tiers.tiers import Tiers
from kvtop.protocol import MAX_FRAME_BYTES, AnyFrame, Geometry, Keyframe, PoolFacts, decode_frame, encode
from kvtop.state import EngineState
from kvtop.state.ledger import check
from tests.engine.fake_model import Clock, FakeRunner, make_engine, request
from tests.engine.serving.test_telemetry import _seen
from tests.engine.tiers.late import LateMover, Trouble
from tests.views.scene import hello


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_copy, "PIECE", 20)
    monkeypatch.setattr(keyframes, "REQUESTS_AT_ONCE", 1)


class Crowd:
    """More requests than fit, with samples, beams, aborts and preemptions."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.engine, self.telemetry = make_engine(blocks=40, max_running=8, token_budget=16, compaction="continuous")
        self._nums = count(0, 10)
        self._prefix = [self.random.randrange(1000) for _ in range(8)]

    def turn(self) -> None:
        draw, engine = self.random, self.engine
        if draw.random() < 0.3:
            num = next(self._nums)
            tail = [draw.randrange(1000) for _ in range(draw.randrange(1, 14))]
            new = request(num, [*self._prefix[: draw.choice([0, 8])], *tail], draw.randrange(1, 16))
            kind = draw.randrange(3)
            if kind == 1:
                add_samples(new, [num + 1, num + 2])
            elif kind == 2:
                add_beams(new, [num + 1, num + 2])
            engine.scheduler.add(new, engine.clock())
            self.telemetry.touch(new)
        if draw.random() < 0.15 and engine.scheduler.running:
            victim = draw.choice(engine.scheduler.running)
            self.telemetry.log.preempted(engine.scheduler.preempt(victim, engine.clock(), "test"))
        assert isinstance(engine.clock, Clock)
        engine.clock.now += 0.05


def through_the_wire(frame: AnyFrame) -> AnyFrame:
    decoded = decode_frame(encode(frame))
    assert decoded is not None
    return decoded


def viewer(first: AnyFrame) -> EngineState:
    state = EngineState()
    state.apply(first, 0.0)
    return state


def everything(state: EngineState) -> dict[str, object]:
    assert state.blocks is not None
    return {
        **_seen(state),
        "hashes": [state.blocks.hash_of(block) for block in range(state.blocks.total)],
        "bad": state.bad_facts,
    }


def gather(crowd: Crowd, follower: EngineState | None = None) -> Keyframe:
    """Over as many turns as it takes, with a frame in each, which the ``follower`` gets."""
    for turns in count(1):
        crowd.turn()
        step = crowd.engine.step()
        if crowd.telemetry.passed_over:
            crowd.telemetry.pass_over(step)
        else:
            frame = crowd.telemetry.frame(step)
            if follower is not None:
                follower.apply(through_the_wire(frame), 0.0)
        if turns == 1:
            crowd.telemetry.begin_keyframe()
        if (snapshot := crowd.telemetry.work_on_keyframe(0.0)) is not None:
            assert turns >= 8, "it must take several turns to mean something"
            decoded = decode_frame(snapshot.encode().line)
            assert isinstance(decoded, Keyframe)
            return decoded
    raise AssertionError


@pytest.mark.parametrize("seed", range(6))
def test_gathered_over_many_turns_it_says_what_one_made_at_once_says(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(6):
        gathered = gather(crowd)
        at_once = through_the_wire(crowd.telemetry.keyframe())
        assert isinstance(at_once, Keyframe)
        assert everything(viewer(gathered)) == everything(viewer(at_once))
        assert gathered.seq == at_once.seq
        ages = [
            [(b, age) for start, n, age in key.ages for b in range(start, start + n)] for key in (gathered, at_once)
        ]
        assert ages[0] == ages[1]


@pytest.mark.parametrize("seed", range(6))
def test_a_keyframe_for_one_viewer_takes_nothing_from_another(seed: int) -> None:
    crowd = Crowd(seed)
    follower = viewer(through_the_wire(crowd.telemetry.keyframe()))
    for _ in range(8):
        gather(crowd, follower)
        assert everything(follower) == everything(viewer(through_the_wire(crowd.telemetry.keyframe())))


@pytest.mark.parametrize("seed", range(6))
def test_who_comes_after_a_time_without_viewers_sees_what_is_true_and_goes_on_from_there(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(4):
        state = viewer(gather(crowd))
        for turn in range(30):
            crowd.turn()
            state.apply(through_the_wire(crowd.telemetry.frame(crowd.engine.step())), 0.0)
            if turn % 5 == 0:
                assert everything(state) == everything(viewer(through_the_wire(crowd.telemetry.keyframe())))
        for _ in range(crowd.random.randrange(1, 30)):
            crowd.turn()
            crowd.telemetry.pass_over(crowd.engine.step())


def test_while_nobody_watches_only_events_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd(1)
    kinds: set[str] = set()
    ids: list[int] = []
    monkeypatch.setattr(Telemetry, "frame", None)
    for _ in range(100):
        crowd.turn()
        events = crowd.telemetry.pass_over(crowd.engine.step())
        kinds |= {event.kind for event in events}
        ids += [event.id for event in events]
    assert kinds >= {"admit", "finish", "preempt"}
    assert ids == list(range(len(ids)))
    crowd.telemetry.pass_over(None)
    assert not crowd.telemetry.has_news


def test_an_engine_nobody_watches_remembers_no_more_the_longer_it_serves() -> None:
    crowd = Crowd(2)
    sizes = []
    for turn in range(1200):
        crowd.turn()
        crowd.telemetry.pass_over(crowd.engine.step())
        if turn in (400, 1199):
            facts = crowd.telemetry._requests
            sizes.append(sum(len(part) for part in (facts._told, facts._table_sent, facts._touched)))
    assert sizes[1] <= sizes[0] + 3 * KEPT_FINISHED


def test_a_keyframe_of_a_million_blocks_none_like_its_neighbour_is_a_line_that_viewers_accept() -> None:
    _, telemetry = make_engine()
    blocks, draw = 2_000, np.random.default_rng(1)
    state, refs = draw.integers(1, 8, blocks).astype(np.uint8), draw.integers(1, 100, blocks).astype(np.int32)
    owner = draw.integers(1_000_000, 10_000_000, blocks).astype(np.int32)
    run = (state, owner, refs, refs, np.zeros_like(state), np.zeros_like(state))
    hashes, last_use = draw.integers(1, 2**63, blocks).astype(np.uint64), -draw.random(blocks) * 86_400.0
    part = keyframes.BlockPart(1_000_000 - blocks, run, hashes, last_use)
    line = keyframes.KeyframeSnapshot(telemetry._head(), [], [part]).encode().line
    assert len(line) * (1_000_000 / blocks) < MAX_FRAME_BYTES


def test_the_engine_of_the_crowd_keeps_its_books() -> None:
    crowd = Crowd(3)
    engine: Engine = crowd.engine
    for _ in range(60):
        crowd.turn()
        engine.step()
    assert engine.scheduler.ledger_violations() == []
    assert engine.scheduler.totals.preemptions > 0


def test_blocks_that_go_into_copies_while_nothing_runs_are_told_and_add_up() -> None:
    """An idle engine stores cached blocks ahead of their eviction, and the copies take their time."""
    pool, clock = BlockPool(16, 4), Clock()
    tiers = Tiers(pool, [TierBooks(1, "host", 16)], LateMover([[0] * 4] * 16, trouble=Trouble(late=1.0)))
    policies = PolicySet.of({"offload": "on_evict"})
    engine = Engine(Scheduler(pool, policies, max_model_len=64, tiers=tiers), FakeRunner(), clock)
    telemetry = Telemetry(engine, bytes_per_token=8, attention_mode="none")
    state = EngineState()
    pools = [PoolFacts(tier="device", blocks=16), PoolFacts(tier="host", blocks=16)]
    for first in (hello(geometry=Geometry(block_size=4, pools=pools)), telemetry.keyframe()):
        state.apply(through_the_wire(first), 0.0)
    engine.scheduler.add(request(0, list(range(60)), max_tokens=2), clock())
    while (step := engine.step()) is not None:
        state.apply(through_the_wire(telemetry.frame(step)), 0.0)
    assert pool.transfer_blocks
    telemetry.begin_keyframe()
    snapshot = telemetry.work_on_keyframe(1.0)
    while telemetry.has_news:
        frame = through_the_wire(telemetry.frame(None))
        state.apply(frame, 0.0)
        telemetry.begin_keyframe()
        snapshot = telemetry.work_on_keyframe(1.0)
    assert snapshot is not None
    assert check(state) == []
    told = everything(state)
    gathered = decode_frame(snapshot.encode().line)
    assert isinstance(gathered, Keyframe)
    state.apply(gathered, 0.0)
    assert check(state) == []
    assert everything(state) == told
