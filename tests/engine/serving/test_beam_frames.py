"""What users and viewers get of a beam search: the submission, tables that are replaced, scores, and how it ended."""

import math
import random
from unittest.mock import Mock

import pytest
import torch

from engine.model.load import random_model
from engine.model.ranking import likeliest
from engine.requests.batch import BatchItem, StepOutput
from engine.requests.request import FinishReason
from engine.scheduling.beam_steps import add_beams
from engine.serving.server import Server
from kvtop.protocol import decode_frame, encode
from kvtop.publish import Publisher
from kvtop.state import EngineState
from tests.engine import served
from tests.engine.driving import Drive, make_request
from tests.engine.fake_model import make_engine, request
from tests.engine.serving.test_telemetry import _seen, _turn


def test_the_server_takes_a_beam_width() -> None:
    engine, telemetry = make_engine(blocks=64)
    server = Server(engine, telemetry, Mock(spec=Publisher, hello=Mock()))
    first = server.submit([1, 2, 3, 4, 5], 6, beam=4, length_penalty=0.5).request
    alone = server.submit([6, 7], 6).request
    server.take_up()
    beam = first.beam
    assert beam is not None
    assert [member.num for member in beam.members] == [0, 1, 2, 3]
    assert (alone.num, alone.beam, beam.search.length_penalty) == (4, None, 0.5)
    while engine.scheduler.requests:
        engine.step()
    assert [member.output_tokens for member in beam.members] == [6] * 4
    assert all(member.finish_reason is FinishReason.LENGTH for member in beam.members)
    scores = [member.score or 0.0 for member in beam.members]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(member.token_ids) for member in beam.members}) == 4


@pytest.mark.parametrize(("beam", "n"), [(1, 1), (17, 1), (0, 1), (4, 2)])
def test_the_server_refuses_other_widths_and_samples_of_beams(beam: int, n: int) -> None:
    engine, telemetry = make_engine()
    server = Server(engine, telemetry, Mock(spec=Publisher, hello=Mock()))
    with pytest.raises(
        ValueError, match=r"^beam: \d+ beams of a search is not in 2…16|^n: a beam search draws no samples"
    ):
        server.submit([1], 1, n=n, beam=beam)
    assert not engine.scheduler.requests


def test_the_end_of_a_group_names_the_best_score_once() -> None:
    engine, telemetry = make_engine(blocks=64)
    first = request(3, list(range(6)), 5)
    add_beams(first, [4, 5])
    engine.scheduler.add(first, engine.clock())
    events = []
    while engine.scheduler.requests:
        frame = _turn(engine, telemetry)
        assert frame is not None
        events += frame.events
    assert first.score is not None
    (end,) = [event for event in events if event.kind == "beam"]
    assert (end.request, end.tokens, end.cause) == (3, 5, "length")
    assert end.detail == f"outputs of 3 of 3 beams; the best scores {first.score / 5:.4f}"
    assert sorted(event.request or 0 for event in events if event.kind == "finish") == [3, 4, 5]
    assert len(events) < 20


@pytest.mark.parametrize("seed", range(4))
def test_frames_add_up_while_beams_take_over_tables_and_are_preempted(seed: int) -> None:
    rng = random.Random(seed)
    engine, telemetry = make_engine(blocks=40, max_running=8, token_budget=16)
    follower = EngineState()
    follower.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
    preempted = taken_over = scored = 0
    for turn in range(120):
        if rng.random() < 0.15:
            new = request(10 * turn, [rng.randrange(1000) for _ in range(rng.randrange(1, 20))], rng.randrange(1, 16))
            add_beams(new, [10 * turn + place for place in range(1, rng.choice([2, 3, 4]))])
            engine.scheduler.add(new, engine.clock())
            telemetry.touch(new)
        if rng.random() < 0.1 and engine.scheduler.running:
            victim = rng.choice(engine.scheduler.running)
            telemetry.log.preempted(engine.scheduler.preempt(victim, engine.clock(), "test"))
            preempted += 1
        if (frame := _turn(engine, telemetry)) is not None:
            follower.apply(frame, 0.0)
            scored += sum(change.score is not None for change in frame.requests)
        taken_over += sum(live.takeovers for live in engine.scheduler.running)
        fresh = EngineState()
        fresh.apply(decode_frame(encode(telemetry.keyframe())), 0.0)
        assert _seen(fresh) == _seen(follower)
        for live in engine.scheduler.requests.values():
            assert list(follower.requests[live.num].table) == live.block_table
    assert preempted > 3
    assert taken_over > 20
    assert scored > 50


def test_the_likeliest_tokens_of_each_row() -> None:
    logits = torch.tensor(
        [
            [0.0, 2.0, 1.0, 2.0, -1.0],
            [3.0, 3.0, 3.0, 3.0, 3.0],
            [0.0, 9.0, 0.0, 0.0, 0.0],
            [0.0, math.nan, 1.0, 0.0, 0.0],
        ]
    )
    first, equal, short, broken = likeliest(logits, [3, 2, 9, 1])
    assert first is not None
    assert short is not None
    assert [token for token, _ in first] == [1, 3, 2]
    normalizer = math.log(sum(math.exp(value) for value in (0.0, 2.0, 1.0, 2.0, -1.0)))
    assert [value for _, value in first] == pytest.approx([2 - normalizer, 2 - normalizer, 1 - normalizer])
    assert equal == [(0, pytest.approx(-math.log(5))), (1, pytest.approx(-math.log(5)))]
    assert [token for token, _ in short] == [1, 0, 2, 3, 4]
    assert broken is None


def test_the_runner_hands_out_candidates_beside_tokens() -> None:
    runner = served.make_runner(random_model(seed=3), blocks=8)
    plain = served.make_request(0, [5, 9, 2], 4, table=[0])
    beam = served.make_request(1, [5, 9, 2], 4, table=[1])
    output = runner.run([BatchItem(plain, 0, 3, True), BatchItem(beam, 0, 3, True, candidates=4)])
    (token,), (candidates,) = output.tokens, output.candidates
    assert len(candidates) == 4
    assert candidates[0][0] == token
    assert [value for _, value in candidates] == sorted((value for _, value in candidates), reverse=True)


def test_a_wrong_number_of_candidates_is_refused() -> None:
    drive = Drive()
    first = make_request(1)
    add_beams(first, [2])
    drive.scheduler.add(first, drive.now)
    plan = drive.scheduler.schedule(drive.now)
    with pytest.raises(ValueError, match="the batch asks for candidates of 1 beams, those of 0 came back"):
        drive.scheduler.commit(plan, StepOutput([]), drive.now)
