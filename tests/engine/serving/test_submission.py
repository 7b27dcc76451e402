"""What cannot be served is refused at once, in one sentence that names the field; the rest can always be told to viewers."""

import math
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.serving.server import Server
from engine.serving.submission import Vocabulary
from kvtop.protocol import IterationFrame, Keyframe
from kvtop.protocol.codec import decode_frame, encode
from kvtop.publish import Publisher
from tests.engine.fake_model import make_engine

VOCABULARY = Vocabulary(1000, frozenset({7}), lambda token: b"x")


def make_server(blocks: int = 32, vocabulary: Vocabulary = VOCABULARY, **policies: Any) -> Server:
    engine, telemetry = make_engine(blocks, **policies)
    return Server(engine, telemetry, Mock(spec=Publisher, hello=Mock()), vocabulary=vocabulary)


def refused(server: Server, **given: Any) -> str:
    asked = {"token_ids": [1, 2, 3], "max_tokens": 4} | given
    with pytest.raises(ValueError, match=r"\A[^\n]{10,300}\Z") as refusal:
        server.submit(asked.pop("token_ids"), asked.pop("max_tokens"), **asked)
    server.take_up()
    assert not server.engine.scheduler.requests
    assert not server.telemetry.has_news or server.telemetry.frame(None).requests == []
    return str(refusal.value)


LONE = "a\ud800b"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("token_ids", [1, 1000]),
        ("token_ids", [-1, 2]),
        ("token_ids", [1, 2.0]),
        ("token_ids", [1, True]),
        ("token_ids", [1, None]),
        ("token_ids", [1, "2"]),
        ("token_ids", [1 << 70]),
        ("token_ids", np.array([1.5, 2.0])),
        ("token_ids", []),
        ("token_ids", "hello"),
        ("token_ids", b"hello"),
        ("token_ids", 5),
        ("token_ids", None),
        ("token_ids", {1: 2}),
        ("token_ids", {1, 2}),
        ("token_ids", frozenset({1})),
        ("token_ids", bytearray(b"hello")),
        ("max_tokens", 0),
        ("max_tokens", -3),
        ("max_tokens", 2.5),
        ("max_tokens", math.nan),
        ("max_tokens", True),
        ("max_tokens", "4"),
        ("max_tokens", None),
        pytest.param("max_tokens", 10**5000, id="huge"),
        ("label", "x" * 300),
        ("label", "x" * 65),
        ("label", LONE),
        ("label", "a\nb"),
        ("label", "a\x1b[31mb"),
        ("label", "a\u2028b"),
        ("label", 7),
        ("label", b"a"),
        ("cache_salt", "x" * 300),
        ("cache_salt", LONE),
        ("cache_salt", "\x00"),
        ("cache_salt", None),
        ("cache_salt", 5),
        ("priority", 1.5),
        ("priority", True),
        ("priority", 1 << 40),
        ("priority", math.inf),
        ("priority", None),
        ("sampling", {"temperature": 1.0}),
        ("stop", {"strings": ["a"]}),
        ("stop", "a"),
        ("stop", StopRules(frozenset({1000}))),
        ("retention", [(0, 4, 80)]),
        ("retention", Retention(0, 4, 80)),
        ("retention", [Retention(0, 4, 80)] * 65),
        ("retention", 5),
        ("n", 0),
        ("n", 65),
        ("n", 2.0),
        ("n", True),
        ("n", None),
        ("beam", 1),
        ("beam", 17),
        ("beam", 4.0),
        ("beam", True),
        ("arrival", -1.0),
        ("arrival", -1e300),
        ("arrival", math.nan),
        ("length_penalty", math.nan),
        ("length_penalty", math.inf),
        ("length_penalty", 11),
        ("length_penalty", "1"),
        ("length_penalty", True),
        ("length_penalty", 10**400),
        ("length_penalty", None),
    ],
)
def test_what_can_never_be_served_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    server = make_server()
    more = {"beam": 2} if field == "length_penalty" else {}
    assert refused(server, **more, **{field: value}).startswith(field)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", -0.1),
        ("temperature", "1"),
        ("temperature", True),
        ("temperature", None),
        ("temperature", 10**400),
        ("top_p", math.nan),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", [1.0]),
        ("top_k", -1),
        ("top_k", 1.0),
        ("top_k", True),
        ("top_k", 1 << 40),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("min_p", math.nan),
        ("presence_penalty", 2.1),
        ("presence_penalty", math.nan),
        ("frequency_penalty", -2.1),
        ("frequency_penalty", "1"),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1.0),
        ("repetition_penalty", math.inf),
        ("logit_bias", 5),
        ("logit_bias", "1"),
        ("logit_bias", [1]),
        ("logit_bias", [(1, 2, 3)]),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {True: 1.0}),
        ("logit_bias", {"1": 1.0}),
        ("logit_bias", dict.fromkeys(range(1025), 1.0)),
        ("logprobs", -1),
        ("logprobs", 21),
        ("logprobs", True),
        ("logprobs", 1.5),
        ("min_tokens", -1),
        ("min_tokens", 1.5),
        ("min_tokens", True),
        ("seed", 1.0),
        ("seed", math.nan),
        ("seed", 1 << 64),
        ("seed", -(1 << 63) - 1),
        ("seed", True),
        ("seed", "1"),
    ],
)
def test_sampling_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"\A{field}: [^\n]*\Z"):
        Sampling(**{field: value})


@pytest.mark.parametrize("bias", [math.nan, 101, -100.5, "1", None, True])
def test_a_bias_is_refused_by_its_token(bias: Any) -> None:
    with pytest.raises(ValueError, match=r"\Alogit_bias\[7\]: [^\n]*\Z"):
        Sampling(logit_bias={3: 1.0, 7: bias})


def test_biases_are_kept_by_token_whatever_they_come_in() -> None:
    pairs = ((3, -1.0), (7, 100.0))
    assert Sampling(logit_bias={7: 100, 3: -1}).logit_bias == pairs == Sampling(logit_bias=iter(pairs[::-1])).logit_bias
    with pytest.raises(ValueError, match=r"logit_bias\[3\]: is given twice"):
        Sampling(logit_bias=[(3, 1), (3, 2)])


@pytest.mark.parametrize(
    ("sampling", "more", "sentence"),
    [
        (Sampling(min_tokens=9), {"max_tokens": 8}, "min_tokens: 9 is above max_tokens, 8"),
        (Sampling(logit_bias={5000: 1.0}), {}, "logit_bias: 5000 is not in the model's vocabulary, 0 to 999"),
        (
            Sampling(min_tokens=1),
            {"vocabulary": Vocabulary(4, frozenset({0})), "stop": StopRules(token_ids=range(1, 4))},
            "min_tokens: every token of the model's vocabulary ends this output",
        ),
        *(
            (Sampling(**{field: value}), {"beam": 2}, f"{field}: a beam search goes by the model alone")
            for field, value in [
                ("presence_penalty", 0.5),
                ("frequency_penalty", -0.5),
                ("repetition_penalty", 1.2),
                ("logit_bias", {3: 1.0}),
                ("min_tokens", 1),
            ]
        ),
    ],
    ids=lambda value: "",
)
def test_sampling_that_cannot_go_with_the_rest_is_refused(
    sampling: Sampling, more: dict[str, Any], sentence: str
) -> None:
    server = make_server(vocabulary=more.pop("vocabulary", Vocabulary(1000)))
    assert refused(server, sampling=sampling, **more).startswith(sentence)


@pytest.mark.parametrize(
    "wrong",
    [
        {"token_ids": {1.5}},
        {"token_ids": {True}},
        {"token_ids": 5},
        {"token_ids": {-1}},
        {"token_ids": range(65)},
        {"strings": [""]},
        {"strings": ["x" * 257]},
        {"strings": [LONE]},
        {"strings": [b"a"]},
        {"strings": ["x" * (i + 1) for i in range(17)]},
        {"strings": 5},
        {"ignore_eos": 1},
    ],
    ids=lambda value: f"{value!a:.30}",
)
def test_stop_rules_that_can_never_match_or_cost_too_much_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\A(stop|stop_token_ids|ignore_eos): [^\n]*\Z"):
        StopRules(**wrong)


def test_stop_strings_need_a_tokenizer() -> None:
    server = make_server(vocabulary=Vocabulary(1000))
    assert refused(server, stop=StopRules(strings=("a",))).startswith("stop: strings need a tokenizer")


def test_a_prompt_larger_than_the_pool_is_refused_where_it_is_submitted() -> None:
    assert "exceeds the context of 128 tokens" in refused(make_server(), token_ids=[1] * 500)


def test_a_refusal_is_short_whatever_was_given() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert refused(make_server(), label=Loud()) == "label: a Loud is not a text"
    assert len(refused(make_server(), label=["x" * 10_000])) < 100


def test_numbers_of_other_libraries_are_taken_as_the_numbers_they_are() -> None:
    server = make_server()
    sampling = Sampling(temperature=np.float32(0.5), top_p=np.float64(0.9), seed=np.int64(3))
    prompt = np.array([1, 2, 3], dtype=np.int32)
    handle = server.submit(prompt, np.int64(4), priority=np.int8(-2), n=np.int16(2), sampling=sampling)
    prompt[:] = 9
    server.take_up()
    (request,) = server.engine.scheduler.requests.values()
    assert request is handle.request
    assert request.token_ids == [1, 2, 3]
    for value in (*request.token_ids, request.max_tokens, request.priority, request.sampling.seed):
        assert type(value) is int
    assert type(request.sampling.temperature) is float
    assert len(request.samples) == 1


def test_the_list_of_the_client_stays_its_own() -> None:
    server, prompt = make_server(), [1, 2, 3]
    server.submit(prompt, 4)
    server.take_up()
    server.engine.step()
    assert prompt == [1, 2, 3]


def test_a_label_in_any_script_is_taken() -> None:
    server = make_server()
    for label in ("要求", "طلب", "👩‍🚀 request", "x" * 64):
        assert server.submit([1], 1, label=label).id.startswith(label)


WORDS = st.text(max_size=70) | st.text(st.characters(codec=None), max_size=8)
NUMBERS = st.integers() | st.floats() | st.booleans() | st.none() | WORDS


@settings(max_examples=150, deadline=None)
@given(
    label=WORDS | st.none(),
    cache_salt=WORDS,
    priority=st.integers(-(1 << 33), 1 << 33) | NUMBERS,
    max_tokens=st.integers(-2, 200) | NUMBERS,
    tokens=st.lists(st.integers(-2, 1002) | NUMBERS, max_size=5),
    n=st.integers(-1, 5) | NUMBERS,
    beam=st.none() | st.integers(0, 5) | NUMBERS,
    length_penalty=st.floats(-12, 12) | NUMBERS,
)
def test_whatever_passes_can_be_served_and_told(tokens: list[Any], max_tokens: Any, **given: Any) -> None:
    server = make_server(64)
    try:
        server.submit(tokens, max_tokens, **given)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        named = refusal.partition(":")[0].partition("[")[0]
        assert named in ("token_ids", "max_tokens", *given) or "exceeds" in refusal
        return
    server.take_up()
    for _ in range(400):
        step = server.engine.step()
        if step is None:
            break
        line = encode(server.telemetry.frame(step))
        assert isinstance(decode_frame(line), IterationFrame)
        assert isinstance(decode_frame(encode(server.telemetry.keyframe())), Keyframe)
    assert not server.engine.scheduler.requests
    assert server.engine.scheduler.ledger_violations() == []
