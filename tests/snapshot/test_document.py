"""The document itself: names, values, what is unknown, what must never be in it."""

import json
import math
import time
from typing import Any

import numpy as np
import pytest

from kvtop.protocol import EngineIdentity, Event, Gauges, Hello, Keyframe, ModelFacts, Status
from kvtop.snapshot.document import BlockRuns, dumps, pieces, snapshot_document
from kvtop.state import EngineState
from tests.cli.fakes import SECRET, fake_hello, fake_iteration, fake_keyframe
from tests.perf.big_engine import BigEngine

HEADLINE = {
    "kv_capacity_bytes": 12 * 16 * 1024,
    "kv_bytes_used": 4 * 16 * 1024,
    "kv_blocks_total": 12,
    "kv_blocks_free": 6,
    "live_cached_tokens": 53,
    "active_sequences": 2,
    "waiting_sequences": 1,
    "admissions": 3,
    "preemptions": 1,
    "evictions": 4,
    "prefix_cache_hits": 32,
    "host_offload_bytes": None,
    "host_promotions": None,
}


def state_of(*frames: Any) -> EngineState:
    state = EngineState()
    for frame in frames:
        state.apply(frame, time.monotonic())
    return state


def document_of(*frames: Any) -> dict[str, Any]:
    return snapshot_document(state_of(*frames), time.time(), time.monotonic())


def test_the_headline_fields_by_their_names() -> None:
    document = document_of(fake_hello(), fake_keyframe())
    assert {name: document[name] for name in HEADLINE} == HEADLINE
    assert next(iter(document)) == "schema"
    assert document["schema"] == "kvtop.snapshot/1"


def test_a_request_with_its_running_phase() -> None:
    one, two, three = document_of(fake_hello(), fake_keyframe())["requests"]
    assert one["input_tokens"] == 40
    assert one["cached_tokens"] == 0
    assert one["allocated_blocks"] == 3
    assert one["block_table"] == [0, 1, 2]
    assert (one["attention_mode"], one["cache_dtype"]) == ("torch", "float16")
    assert (one["queue_time"], one["prefill_time"], one["preemptions"]) == (0.5, 1.5, 1)
    assert 2.0 <= one["decode_time"] < 60.0
    assert two["preemptions"] is None
    assert two["ttft"] is None
    assert 4.0 <= three["queue_time"] < 60.0


def test_what_a_comparison_needs() -> None:
    document = document_of(fake_hello(), fake_keyframe())
    assert (document["model"]["name"], document["model"]["revision"]) == ("toy", "abc123")
    assert document["precisions"] == {"weights": "float32", "kv_cache": "float16"}
    assert (document["device"], document["attention_backend"]) == ("cpu", "torch")
    assert document["limits"] == {"max_model_len": 2048, "seed": 0}
    assert document["policies"] == {"capacity": "max_utilization", "prefix_cache": True, "max_running": 8}
    assert document["verdict"]["rule"] == "capacity=max_utilization"
    assert document["queue"]["order"] == [3]


def test_batches_continue_the_keyframes_history() -> None:
    document = document_of(fake_hello(), fake_keyframe(10), fake_iteration(11), fake_iteration(12))
    assert document["batch_size_by_iteration"] == [1, 2, 2, 2, 2]
    assert document["iteration_ms"]["iterations"] == 2
    assert document["iteration_ms"]["forward_ms"] == 20.0
    assert document["iteration_ms"]["prepare_ms"] is None, "this engine does not tell it apart"


def test_no_text_is_in_it_even_when_it_is_exposed() -> None:
    state = state_of(fake_hello(), fake_keyframe())
    assert state.requests is not None
    assert state.requests[1].prompt_text == SECRET
    assert SECRET not in dumps(snapshot_document(state, time.time(), time.monotonic()))


def test_the_block_map_is_whole_and_survives_a_round_trip() -> None:
    state = state_of(fake_hello(), fake_keyframe())
    blocks = snapshot_document(state, time.time(), time.monotonic())["blocks"]
    assert blocks["by_state"]["shared"] == 1
    assert [tuple(run) for run in blocks["runs"]] == fake_keyframe().blocks
    assert sum(run[1] for run in blocks["runs"]) == blocks["total"] == 12
    assert state.blocks is not None
    state.blocks.fill[np.array([7, 11])] = 3
    assert [run[:2] for run in BlockRuns(state.blocks)[-4:]] == [[6, 1], [7, 1], [8, 3], [11, 1]]


def test_an_engine_that_knows_only_gauges() -> None:
    hello = Hello(engine=EngineIdentity(name="g", kind="vllm", version="1", run="r"), model=ModelFacts(name="m"))
    keyframe = Keyframe(
        seq=1, iteration=1, wall=1.0, mono=1.0, status=Status(state="running"), gauges=Gauges(kv_usage=0.5, running=3)
    )
    document = document_of(hello, keyframe)
    assert (document["blocks"], document["requests"], document["queue"], document["kv_capacity_bytes"]) == (None,) * 4
    assert document["kv_bytes_used"] is None
    assert document["active_sequences"] == 3
    assert document["waiting_sequences"] is None
    json.loads(dumps(document))


def test_a_flood_of_routine_events_does_not_hide_what_matters() -> None:
    kinds = ["policy"] + ["admit", "evict", "finish"] * 200
    events = [Event(id=i, kind=kind, iteration=i, wall=float(i)) for i, kind in enumerate(kinds)]
    keyframe = fake_keyframe().model_copy(update={"events": events})
    found = document_of(fake_hello(), keyframe)["events"]
    assert [event["id"] for event in found] == [0, *range(401, 601)]
    assert (found[0]["kind"], found[0]["iteration"]) == ("policy", 0)
    assert "cause" not in found[0]


def test_no_piece_of_a_large_document_keeps_other_threads_waiting() -> None:
    big = BigEngine(100_000, 2_000)
    document = document_of(big.hello(), big.keyframe())
    found = list(pieces(document))
    assert max(map(len, found)) < 100_000
    text = "".join(found)
    assert text == dumps(document)
    assert len(text) > 2_000_000
    assert sum(count for _, count, *_ in json.loads(text)["blocks"]["runs"]) == 100_000


def test_no_nan_gets_out() -> None:
    state = state_of(fake_hello(), fake_keyframe())
    state.gauges["kv_tokens"] = math.nan
    document = snapshot_document(state, time.time(), time.monotonic())
    assert document["live_cached_tokens"] is None

    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(dumps(document), parse_constant=refuse)


def test_an_engine_never_heard_is_no_snapshot() -> None:
    with pytest.raises(ValueError, match="no engine"):
        snapshot_document(EngineState(), time.time(), time.monotonic())
