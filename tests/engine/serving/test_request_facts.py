"""What is told of requests follows a shortcut for those in decode: it must tell what the plain definition tells."""

import contextlib
import random

import pytest

from engine.core import Engine
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from engine.serving.exposed_text import ExposedText
from engine.serving.submission import Vocabulary
from engine.serving.telemetry import Telemetry
from kvtop.protocol import RequestChange
from kvtop.state import EngineState
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


def half_characters(token: int) -> bytes:
    """Each token from 3 on is half a character."""
    return b"" if token < 3 else "é".encode()[token % 2 : token % 2 + 1]


def test_of_text_that_travels_each_frame_carries_what_is_new() -> None:
    """Each carried all of the output so far: of long outputs, megabytes a second."""
    read: list[int] = []

    def bytes_of(token: int) -> bytes:
        read.append(token)
        return f"<{token}>".encode()

    it = Served(vocabulary=Vocabulary(100, frozenset(), bytes_of), token_bytes=bytes_of, expose_text=True)
    handle = it.submit([1, 2, 3], 60)
    state, changes = EngineState(), 0
    state.apply(it.telemetry.keyframe(), 0.0)
    while not handle.ended:
        it.turn()
        state.apply(it.kept.frames[-1], 0.0)
        told = [change for change in it.kept.frames[-1].requests if change.output_more]
        assert all(len(change.output_more or "") <= 5 and change.output_text is None for change in told)
        changes += len(told)
        row, text = state.request(handle.request.num), handle.request.text
        assert row is not None
        assert text is not None
        assert row.prompt_text == "<1><2><3>"
        assert (row.output_text or "") == text.text
    assert changes >= 60
    assert len(read) <= 3 + 2 * 60, "each token is read at most twice, whatever number of frames tells of it"


def test_blocks_are_told_how_far_into_the_text_they_reach() -> None:
    def spelled(token: int) -> bytes:
        return f"<{token}>".encode()

    it = Served(vocabulary=Vocabulary(100, frozenset(), spelled), token_bytes=spelled, expose_text=True)
    size = it.engine.scheduler.pool.block_size
    handle = it.submit(list(range(1, size + 3)), 3 * size)
    state = EngineState()
    state.apply(it.telemetry.keyframe(), 0.0)
    for _ in range(2 * size):
        it.turn()
        state.apply(it.kept.frames[-1], 0.0)
    late = EngineState()
    late.apply(it.telemetry.keyframe(), 0.0)
    ids = handle.request.token_ids
    for known in (state, late):
        row = known.request(handle.request.num)
        assert row is not None
        for logical in range(len(ids) // size):
            block = ids[logical * size : (logical + 1) * size]
            assert row.text_of(logical) == "".join(f"<{token}>" for token in block)
        assert row.text_of(len(ids) // size) == "".join(f"<{token}>" for token in ids[len(ids) // size * size :])
        assert row.text_of(len(ids) // size + 1) is None


def test_a_character_over_the_edge_of_a_block_is_of_the_later_one() -> None:
    it = Served(vocabulary=Vocabulary(100, frozenset(), half_characters), token_bytes=half_characters, expose_text=True)
    size = it.engine.scheduler.pool.block_size
    prompt = [3, *[4, 3] * size][: 2 * size + 1]
    handle = it.submit([1, *prompt], 1)
    it.turn()
    text = ExposedText(handle.request, half_characters, size)
    assert text.prompt is not None
    assert text.prompt.count("é") + text.prompt.count("\ufffd") == len(text.prompt)
    assert text.ends == sorted(text.ends)
    assert text.ends[-1] <= len(text.prompt)


def test_a_beam_that_takes_over_anothers_output_has_its_text() -> None:
    it = Served(token_bytes=lambda token: f"<{token}>".encode(), expose_text=True)
    handle = it.submit([1, 2, 3], 12)
    it.turn(3)
    request = handle.request
    text = ExposedText(request, lambda token: f"<{token}>".encode(), 4)
    text.follow(request)
    request.token_ids[3:] = [9] * len(request.token_ids[3:])
    request.takeovers += 1
    text.follow(request)
    assert text.ends == [len("<1><2><3><9>"), len("<1><2><3><9>") + 12][: len(request.token_ids) // 4]


def test_a_prompt_that_cannot_be_read_is_told_as_not_known() -> None:
    def fails(_: int) -> bytes:
        raise LookupError("no")

    it = Served(expose_text=True, token_bytes=fails)
    handle = it.submit([1, 2, 3], 4)
    it.run_out()
    assert handle.result(0.0)[0].finish_reason == "length"
    told = [change for frame in it.kept.frames for change in frame.requests]
    assert {change.prompt_text for change in told} == {None}
    assert any(change.output_more for change in told)
