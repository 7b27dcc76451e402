"""What a newer engine, or a mistaken one, writes: a viewer keeps what it can and says what it could not."""

import contextlib
import copy
import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import (
    Counters,
    Event,
    Gauges,
    Hello,
    IterationFrame,
    Keyframe,
    ProtocolError,
    RequestChange,
    Status,
    TierLevel,
    Verdict,
)
from kvtop.protocol.base import PROTOCOL_VERSION, VersionError
from kvtop.protocol.codec import AnyFrame, decode_frame, encode
from kvtop.protocol.reading import MAX_MENDS, read_frame
from kvtop.state import EngineState
from kvtop.views.block_states import state_of
from kvtop.views.capacity import capacity_rows
from kvtop.views.clusters import spell
from kvtop.views.events import event_rows
from kvtop.views.header import header_rows
from kvtop.views.requests import RequestsView, request_rows
from kvtop.views.tiers import tier_rows
from kvtop.views.verdict import verdict_sentence
from tests.views.scene import LATER, MONO, NOW, WALL, hello, iteration, keyframe

VERDICT = Verdict(request=4, code="needs_blocks", rule="capacity=max_utilization")
TIERS = [TierLevel(tier="device", blocks_total=64), TierLevel(tier="host", blocks_total=8, blocks_free=8)]
FRAMES: tuple[AnyFrame, ...] = (
    hello(),
    keyframe(tiers=TIERS),
    iteration(
        11,
        MONO + 1,
        status=Status(state="running", detail="well"),
        requests=[RequestChange(num=1, state="decode", tier="device", finish_reason="stop", cache_dtype="float32")],
        verdict=VERDICT,
        events=[Event(id=7, kind="preempt", iteration=3, wall=WALL, cause="memory", detail="x", severity="warn")],
        tiers=TIERS,
        gauges=Gauges(running=3),
        counters=Counters(iterations=9),
    ),
)


def raw(frame: AnyFrame) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(encode(frame))
    return found


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value but the type of the line."""
    if isinstance(value, dict):
        return [way for key, part in value.items() for way in leaves(part, (*path, key)) if way != ("type",)]
    if isinstance(value, list):
        return [way for place, part in enumerate(value) for way in leaves(part, (*path, place))] or [path]
    return [path]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    value = copy.deepcopy(value)
    holder = value
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = new
    return value


@pytest.mark.parametrize("frame", FRAMES, ids=[frame.type for frame in FRAMES])
def test_what_strict_models_read_is_read_alike(frame: AnyFrame) -> None:
    reading = read_frame(encode(frame))
    assert reading.frame == decode_frame(encode(frame)) == frame
    assert (reading.mended, reading.note) == (0, "")


STRANGE = st.one_of(
    st.text(max_size=2000),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=2),
)


NO_TEXT = ("Cc", "Cs", "Co", "Zl", "Zp")
"""Of characters that a terminal obeys or cannot show, private stand-ins for wide ones among them."""


@settings(max_examples=150)
@given(st.data())
def test_one_strange_value_costs_the_smallest_thing_around_it_and_never_the_link(data: st.DataObject) -> None:
    frame = data.draw(st.sampled_from(FRAMES))
    path = data.draw(st.sampled_from(leaves(raw(frame))))
    new = data.draw(STRANGE)
    state = EngineState()
    state.apply(hello(), NOW)
    state.apply(keyframe(), NOW)
    sent = line(changed(raw(frame), path, new))
    if len(path) == 1 or path[0] in ("engine", "model", "status"):
        # What the whole line stands on may cost it, and nothing more: the source passes over it.
        with contextlib.suppress(ProtocolError):
            read_frame(sent)
        return
    reading = read_frame(sent)
    assert reading.frame is not None
    assert bool(reading.mended) == bool(reading.note)
    state.apply(reading.frame, NOW)
    for rows in (header_rows(state, LATER, 120), capacity_rows(state, 120), event_rows(state, 120, 5)):
        assert not [char for row in rows for char in spell(row.text) if unicodedata.category(char) in NO_TEXT]
    if reading.frame.type == "iteration" and path[0] not in ("events", "requests"):
        assert isinstance(reading.frame, IterationFrame)
        assert [event.id for event in reading.frame.events] == [7]
        assert [change.num for change in reading.frame.requests] == [1]


NAMES = [
    ("iteration", ("requests", 0, "state"), "thinking"),
    ("iteration", ("requests", 0, "tier"), "remote"),
    ("iteration", ("requests", 0, "finish_reason"), "tool_call"),
    ("iteration", ("requests", 0, "cache_dtype"), "fp4"),
    ("iteration", ("events", 0, "kind"), "migrate"),
    ("iteration", ("events", 0, "severity"), "critical"),
    ("iteration", ("verdict", "code"), "quota"),
    ("iteration", ("status", "state"), "compiling"),
    ("iteration", ("tiers", 1, "tier"), "cxl"),
    ("hello", ("block_states", 2), "of_tomorrow"),
    ("hello", ("axes", 0, "kind"), "duration"),
    ("hello", ("engine", "kind"), "newengine"),
]


@pytest.mark.parametrize(("kind", "path", "name"), NAMES, ids=[name for *_, name in NAMES])
def test_a_name_that_is_new_is_no_mistake(kind: str, path: tuple[Any, ...], name: str) -> None:
    frame = next(frame for frame in (with_axis(), *FRAMES[1:]) if frame.type == kind)
    reading = read_frame(line(changed(raw(frame), path, name)))
    assert reading.mended == 0
    value: Any = raw(reading.frame) if reading.frame is not None else None
    for part in path:
        value = value[part]
    assert value == name


def with_axis() -> Hello:
    axis = {"name": "capacity", "kind": "choice", "help": "who is promised what", "choices": {"a": "b"}}
    return Hello.model_validate(raw(hello()) | {"axes": [axis]})


def test_new_names_are_on_the_screen_as_they_are() -> None:
    state = EngineState()
    greeting = raw(hello())
    greeting["block_states"] = [*hello().block_states[:2], "of_tomorrow", *hello().block_states[3:]]
    frame = raw(FRAMES[2])
    for kind, path, name in NAMES:
        if kind == "iteration":
            frame = changed(frame, path, name)
    for sent in (greeting, raw(keyframe()), frame):
        reading = read_frame(line(sent))
        assert reading.frame is not None
        state.apply(reading.frame, NOW)
    assert "live, compiling" in header_rows(state, NOW, 120)[0].text
    assert state_of("of_tomorrow").name == "unknown"
    assert "of_tomorrow" in capacity_rows(state, 160)[1].text
    assert any("critical! migrate: x" in row.text for row in event_rows(state, 120, 5))
    assert any("thinking" in row.text for row in request_rows(state, RequestsView(), 120, 8, NOW))
    assert any("tool_" in row.text for row in request_rows(state, RequestsView(), 300, 8, NOW))
    assert any("cxl" in row.text for row in tier_rows(state, 120, 4, NOW))
    assert "quota" in verdict_sentence(state)
    assert state.bad_facts == 0


def test_a_text_that_is_too_long_is_cut_and_said() -> None:
    reading = read_frame(line(changed(raw(FRAMES[2]), ("events", 0, "cause"), "c" * 5000)))
    assert isinstance(reading.frame, IterationFrame)
    assert reading.frame.events[0].cause == "c" * 500
    assert reading.mended == 1
    assert reading.note == "iteration.events.0.cause: String should have at most 500 characters"


def test_a_number_that_cannot_be_is_not_told_and_the_rest_stays() -> None:
    reading = read_frame(line(changed(raw(FRAMES[2]), ("requests", 0, "blocks"), -4)))
    assert isinstance(reading.frame, IterationFrame)
    assert (reading.frame.requests[0].blocks, reading.frame.requests[0].state) == (None, "decode")
    assert "iteration.requests.0.blocks" in reading.note


def test_a_run_with_one_more_place_keeps_those_that_are_known_and_a_bad_one_goes_alone() -> None:
    runs: list[Any] = [[0, 1, 2, 0, 1, 4, 0, 0, 99], ["x", 1, 2, 0, 1, 4, 0, 0], [2, 1, 0, -1, 0, 0, 0, 0]]
    reading = read_frame(line(raw(FRAMES[2]) | {"blocks": runs}))
    assert isinstance(reading.frame, IterationFrame)
    assert reading.frame.blocks == [(0, 1, 2, 0, 1, 4, 0, 0), (2, 1, 0, -1, 0, 0, 0, 0)]
    assert reading.mended == 2


@pytest.mark.parametrize("short", [[], [0], [0, 1, 2, 0, 1, 4, 0]])
def test_a_run_with_fewer_places_goes_alone(short: list[int]) -> None:
    """It ended the thread that reads from the engine with an IndexError."""
    reading = read_frame(line(raw(FRAMES[2]) | {"blocks": [short, [2, 1, 0, -1, 0, 0, 0, 0]]}))
    assert isinstance(reading.frame, IterationFrame)
    assert reading.frame.blocks == [(2, 1, 0, -1, 0, 0, 0, 0)]
    assert "iteration.blocks.0" in reading.note


def test_an_item_that_lacks_what_it_is_known_by_goes_alone() -> None:
    two = raw(keyframe())
    del two["events"][0]["kind"]
    two["requests"][1]["num"] = "three"
    reading = read_frame(line(two))
    assert isinstance(reading.frame, Keyframe)
    assert len(reading.frame.events) == len(keyframe().events) - 1
    assert len(reading.frame.requests or []) == len(keyframe().requests or []) - 1


def test_what_is_new_in_each_of_ten_thousand_requests_is_mended_in_each() -> None:
    many = [{"num": num, "label": "l" * 100, "blocks": -1} for num in range(10_000)]
    reading = read_frame(line(raw(FRAMES[2]) | {"requests": many}))
    assert isinstance(reading.frame, IterationFrame)
    assert {(change.label, change.blocks) for change in reading.frame.requests} == {("l" * 64, None)}
    assert (len(reading.frame.requests), reading.mended) == (10_000, 20_000)


def test_a_line_with_too_many_mistakes_is_of_no_use() -> None:
    bad = [{"id": place, "kind": 5, "iteration": 0, "wall": 0} for place in range(MAX_MENDS + 1)]
    with pytest.raises(ProtocolError, match=rf"{MAX_MENDS + 1} mistakes, iteration\.events\.0\.kind"):
        read_frame(line(raw(FRAMES[2]) | {"events": bad}))


@pytest.mark.parametrize("version", ["2.0", "0.9"])
def test_another_major_version_is_refused_naming_both_whatever_else_the_line_says(version: str) -> None:
    with pytest.raises(VersionError, match=rf"speaks protocol {version}, this side speaks {PROTOCOL_VERSION}"):
        read_frame(line({"type": "hello", "protocol": version, "engine": "another shape"}))


def test_a_newer_minor_version_is_not() -> None:
    assert isinstance(read_frame(line(raw(hello()) | {"protocol": "1.99"})).frame, Hello)
