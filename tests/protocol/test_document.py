"""The protocol's documents say what the code does."""

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.protocol import Gap, Hello, Keyframe, Pause, Reply, SetPolicy, encode
from kvtop.protocol import document as doc
from tests.publish.kit import event, hello, keyframe
from tests.publish.stories import Story

EVERY_MODEL = [*doc.ENGINE_LINES, *doc.PEER_LINES, *doc.HELLO_PARTS, *doc.FRAME_PARTS]


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda model: model.__name__)
def test_every_message_and_every_field_is_explained(model: Any) -> None:
    assert model.__doc__
    silent = [name for name, info in model.model_fields.items() if name != "type" and not info.description]
    assert silent == []


def test_every_link_in_the_document_leads_somewhere() -> None:
    text = doc.markdown()
    headings = {line.lstrip("# `").rstrip("`").lower() for line in text.splitlines() if line.startswith("#")}
    targets = {part.split(")")[0] for part in text.split("](#")[1:]}
    assert targets
    assert {target for target in targets if target not in headings} == set()


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(doc.json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "message",
    [
        hello(),
        keyframe(3, blocks=[(0, 4, 2, 1, 1, 16, 0, 0)], hashes=[(1, "ab" * 8)], ages=[(0, 4, 1.5)]),
        Gap(first=1, last=2, events=[event(1)]),
        Reply(id="1", ok=True),
        Pause(id="1"),
        SetPolicy(id="1", changes={"queue": "fcfs", "prefix_cache": True, "watermark": 0.1}),
    ],
    ids=lambda message: message.type,
)
def test_what_is_sent_fits_the_schema(validator: Any, message: Any) -> None:
    validator.validate(json.loads(encode(message)))


@settings(max_examples=10)
@given(st.data())
def test_random_frames_fit_the_schema(data: Any) -> None:
    schema = jsonschema.Draft202012Validator(json.loads(doc.json_schema()))
    story = Story(data.draw)
    for _ in range(3):
        schema.validate(json.loads(encode(story.next())))
    schema.validate(json.loads(encode(story.truth.keyframe())))


@pytest.mark.parametrize(
    "line", [{}, {"type": "iteration"}, {"type": "novelty"}, {"type": "pause"}, {"type": "keyframe", "id": 7}]
)
def test_what_is_wrong_does_not(validator: Any, line: Any) -> None:
    assert not validator.is_valid(line)


def test_the_documents_name_every_line_both_sides_know() -> None:
    from kvtop.protocol.codec import FRAME_TYPES, INPUT_TYPES

    assert {model.model_fields["type"].default for model in doc.ENGINE_LINES} == FRAME_TYPES
    assert {model.model_fields["type"].default for model in doc.PEER_LINES} == INPUT_TYPES
    assert Hello in doc.ENGINE_LINES
    assert Keyframe in doc.ENGINE_LINES
