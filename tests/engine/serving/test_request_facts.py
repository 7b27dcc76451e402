"""What is told of requests follows a shortcut for those in decode: it must tell what the plain definition tells."""

import contextlib
import random

import pytest

from engine.core import Engine
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from engine.serving.submission import Vocabulary
from engine.serving.telemetry import Telemetry
from kvtop.protocol import RequestChange
from tests.engine.fake_model import Clock, make_engine, request
from tests.engine.serving.faulty import Served


def _crowd(engine: Engine, telemetry: Telemetry, rng: random.Random, turn: int) -> None:
    new = request(10 * turn, [rng.randrange(1000) for _ in range(rng.randrange(1, 20))], rng.randrange(1, 16))
    match rng.randrange(3):
        case 0:
            add_samples(new, [10 * turn + 1, 10 * turn + 2])
        case 1:
            add_beams(new, [10 * turn + 1, 10 * turn + 2])
    engine.scheduler.add(new, engine.clock())
    telemetry.touch(new)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_told_of_a_request_is_all_that_is_known_of_it(seed: int) -> None:
    rng = random.Random(seed)
    engine, telemetry = make_engine(blocks=40, max_running=8, token_budget=16, pin_limit=0.2)
    told: dict[int, dict[str, object]] = {}
    compared = 0
    for turn in range(120):
        if rng.random() < 0.2:
            _crowd(engine, telemetry, rng, turn)
        if rng.random() < 0.1 and engine.scheduler.running:
            telemetry.log.preempted(
                engine.scheduler.preempt(rng.choice(engine.scheduler.running), engine.clock(), "test")
            )
        if rng.random() < 0.1 and engine.scheduler.running:
            with contextlib.suppress(ValueError):
                pinned = rng.choice(engine.scheduler.running)
                engine.scheduler.pin(pinned)
                telemetry.touch(pinned)
        assert isinstance(engine.clock, Clock)
        engine.clock.now += 0.05
        frame = telemetry.frame(engine.step())
        for change in frame.requests:
            told.setdefault(change.num, {}).update(change.model_dump(exclude_none=True))
        for num in frame.forgotten:
            told.pop(num, None)
        for whole in telemetry.keyframe().requests or []:
            plain = whole.model_dump(exclude_none=True, exclude={"table", "table_at"})
            if whole.num in told:
                assert {name: told[whole.num].get(name) for name in plain} == plain
                compared += 1
    assert compared > 500


def test_a_trusted_message_is_as_one_that_was_checked() -> None:
    fields = {"num": 3, "table_at": 2, "table": [4, 5], "state": "decode"}
    quick, checked = RequestChange.trusted(fields), RequestChange(**fields)  # type: ignore[arg-type]
    assert quick == checked
    assert quick.model_dump_json(exclude_none=True) == checked.model_dump_json(exclude_none=True)
    assert quick.model_copy(update={"num": 4}).num == 4
    assert quick.model_fields_set == checked.model_fields_set


def test_text_that_travels_is_decoded_once_and_said_as_far_as_it_is_certain() -> None:
    decoded: list[int] = []

    def bytes_of(token: int) -> bytes:
        decoded.append(token)
        return b"" if token < 3 else "é".encode()[token % 2 : token % 2 + 1]

    def prompt(ids: list[int]) -> str:
        decoded.extend(ids)
        return f"{len(ids)} tokens"

    it = Served(vocabulary=Vocabulary(100, frozenset(), bytes_of), expose_text=True, decode_text=prompt)
    handle = it.submit([1, 2, 3], 30)
    told: dict[str, object] = {}
    while not handle.ended:
        it.turn()
        for change in it.kept.frames[-1].requests:
            told.update(change.model_dump(exclude_none=True))
        so_far = b"".join(map(bytes_of, handle.request.token_ids[3:])).decode(errors="replace")
        del decoded[len(decoded) - handle.request.output_tokens :]
        assert told["prompt_text"] == "3 tokens"
        assert so_far.startswith(str(told.get("output_text", "")))
    assert told["output_text"] == so_far
    assert len(decoded) == 33, "each token is decoded once, whatever number of frames tells of it"


def test_a_prompt_that_cannot_be_decoded_is_told_as_not_known() -> None:
    def fails(_: list[int]) -> str:
        raise LookupError("no")

    it = Served(expose_text=True, decode_text=fails)
    handle = it.submit([1, 2, 3], 4)
    it.run_out()
    assert handle.result(0.0)[0].finish_reason == "length"
    told = [change for frame in it.kept.frames for change in frame.requests]
    assert {change.prompt_text for change in told} == {None}
    assert any(change.output_text for change in told)
