"""A small engine as its frames describe it, for the views to draw."""

import unicodedata
from typing import Any

from wcwidth import wcswidth

from kvtop.protocol import (
    Batch,
    Counters,
    EngineIdentity,
    Event,
    Gauges,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    PoolFacts,
    Queue,
    RequestChange,
    Status,
    Verdict,
)
from kvtop.state import EngineState
from kvtop.views.clusters import FIRST_UNSTEADY, spell, whole
from kvtop.views.rows import Row

NOW = 100.0
"""The viewer's clock when the keyframe arrives; `MONO` is the engine's."""

MONO = 5000.0
WALL = 1_790_000_000.0
TOTAL = 64

POLICY: dict[str, Any] = {
    "capacity": "max_utilization",
    "order": "fcfs",
    "victim": "latest",
    "prefix_cache": True,
    "max_running": 16,
    "token_budget": 256,
    "watermark": 0.01,
}


def hello(**changes: Any) -> Hello:
    facts: dict[str, Any] = {
        "engine": EngineIdentity(name="demo", kind="kvtop", version="0.1.0", run="r1", pid=7),
        "model": ModelFacts(name="SmolLM2-135M-Instruct", weight_dtype="float32"),
        "geometry": Geometry(
            block_size=16, cache_dtype="float32", bytes_per_token=23040, pools=[PoolFacts(tier="device", blocks=TOTAL)]
        ),
        "device": "cpu",
        "attention": "torch",
        "capabilities": ["blocks", "requests", "queue", "events"],
    }
    return Hello(**(facts | changes))


def requests() -> list[RequestChange]:
    """Two decode and share blocks 0 and 1, one prefills, one waits, one was preempted, one is done."""
    return [
        RequestChange(
            num=1, id="A-0001", label="chat", state="decode", priority=0, prompt_tokens=64, max_tokens=50,
            cached_tokens=0, computed_tokens=90, output_tokens=26, blocks=6, table_at=0, table=[0, 1, 2, 3, 4, 5],
            phase_since=MONO - 2.5, queue_s=0.1, prefill_s=0.85, decode_s=0.0, preemptions=0, ttft_s=0.95,
        ),
        RequestChange(
            num=2, id="A-0002", label="chat", state="decode", priority=0, prompt_tokens=40, max_tokens=50,
            cached_tokens=32, computed_tokens=50, output_tokens=10, blocks=4, reserved_blocks=2, table_at=0,
            table=[0, 1, 6, 7], phase_since=MONO - 1.0, queue_s=0.2, prefill_s=0.1, decode_s=0.0, preemptions=1,
            ttft_s=0.4,
        ),
        RequestChange(
            num=3, id="B-0003", label="long", state="prefill", priority=1, prompt_tokens=12_345, max_tokens=800,
            cached_tokens=0, computed_tokens=48, output_tokens=0, blocks=3, table_at=0, table=[8, 9, 10],
            phase_since=MONO - 0.5, queue_s=3.0, prefill_s=0.0, decode_s=0.0, preemptions=0,
        ),
        RequestChange(
            num=4, id="B-0042", label="long", state="waiting", priority=1, prompt_tokens=640, max_tokens=800,
            computed_tokens=0, output_tokens=0, blocks=0, phase_since=MONO - 12.4, queue_s=0.0, preemptions=0,
        ),
        RequestChange(
            num=5, id="A-0005", label="chat", state="preempted", priority=0, prompt_tokens=200, max_tokens=50,
            computed_tokens=0, output_tokens=7, blocks=0, phase_since=MONO - 1.5, queue_s=0.5, preemptions=2,
        ),
        RequestChange(
            num=6, id="C-0006", label="short", state="finished", priority=0, prompt_tokens=32, max_tokens=50,
            computed_tokens=81, output_tokens=50, blocks=0, phase_since=MONO - 5.0, queue_s=0.1, prefill_s=0.2,
            decode_s=1.5, preemptions=0, ttft_s=0.3, tpot_s=0.03, finish_reason="length",
        ),
    ]  # fmt: skip


def keyframe(**changes: Any) -> Keyframe:
    facts: dict[str, Any] = {
        "seq": 10,
        "iteration": 12_345,
        "wall": WALL,
        "mono": MONO,
        "policy": POLICY,
        "status": Status(state="running"),
        "blocks": [
            (0, 2, 3, 1, 2, 16, 0, 0),
            (2, 3, 2, 1, 1, 16, 0, 0),
            (5, 1, 2, 1, 1, 10, 0, 0),
            (6, 1, 2, 2, 1, 16, 0, 0),
            (7, 1, 2, 2, 1, 2, 0, 0),
            (8, 3, 2, 3, 1, 16, 0, 0),
            (11, 5, 1, -1, 0, 16, 0, 0),
            (16, 48, 0, -1, 0, 0, 0, 0),
        ],
        "hashes": [(0, "00000000deadbeef"), (1, "0123456789abcdef"), (11, "ffffffffffffffff")],
        "ages": [(0, 11, 0.1), (11, 5, 20.0), (16, 48, 300.0)],
        "requests": requests(),
        "queue": Queue(order=[4, 5], total=2),
        "verdict": Verdict(
            request=4, request_id="B-0042", code="needs_blocks", rule="capacity=guaranteed_no_evict", need_blocks=60,
            available_blocks=51, reserved_blocks=2,
        ),
        "events": [
            Event(
                id=0, kind="preempt", iteration=12_300, wall=WALL - 4, request=5, request_id="A-0005", by=3,
                by_id="B-0003", need_blocks=1, free_blocks=0, tokens=212, seconds=2.4, blocks=27,
            ),
            Event(
                id=1, kind="policy", iteration=12_310, wall=WALL - 3, axis="capacity", old="guaranteed_no_evict",
                new="max_utilization", uid=1000, pid=4242,
            ),
        ],
        "gauges": Gauges(
            kv_blocks_total=64, kv_blocks_free=48, kv_blocks_cached=5, kv_blocks_active=9, kv_blocks_shared=2,
            kv_blocks_reserved=2, kv_bytes_used=11 * 16 * 23040, running=3, waiting=2, preempted=1,
        ),
        "counters": Counters(
            iterations=12_345, prefill_tokens=10_000, decode_tokens=5_000, prefix_query_tokens=4_000,
            prefix_hit_tokens=1_000, preemptions=3, evictions=7, admissions=9,
        ),
    }  # fmt: skip
    return Keyframe(**(facts | changes))


def iteration(seq: int, mono: float, **changes: Any) -> IterationFrame:
    facts: dict[str, Any] = {"seq": seq, "iteration": 12_335 + seq, "wall": WALL + mono - MONO, "mono": mono}
    return IterationFrame(**(facts | changes))


def scene(hello_: Hello | None = None, **changes: Any) -> EngineState:
    """The engine after its keyframe and four seconds of iterations, the last of them arriving at `NOW` + 4."""
    state = EngineState()
    state.link_up(NOW)
    state.apply(hello_ or hello(), NOW)
    state.apply(keyframe(**changes), NOW)
    for step in range(1, 5):
        counters = Counters(
            iterations=12_345 + 10 * step, prefill_tokens=10_000 + 50 * step, decode_tokens=5_000 + 20 * step,
            prefix_query_tokens=4_000 + 100 * step, prefix_hit_tokens=1_000 + 30 * step, preemptions=3, evictions=7,
        )  # fmt: skip
        batch = Batch(prefill_tokens=50, decode_tokens=2, prefill_requests=1, decode_requests=2)
        frame = iteration(10 + step, MONO + step, counters=counters, batch=batch, verdict=state.verdict)
        state.apply(frame, NOW + step)
    return state


LATER = NOW + 4.0
"""The viewer's clock at the end of `scene`."""


def gauges_only() -> EngineState:
    """What is known of an engine that has metrics and nothing else."""
    state = EngineState()
    state.link_up(NOW)
    engine = EngineIdentity(name="prod", kind="vllm", version="0.9", run="x")
    state.apply(Hello(engine=engine, model=ModelFacts(name="llama-8b")), NOW)
    gauges = Gauges(kv_usage=0.42, running=3, waiting=5)
    state.apply(Keyframe(seq=1, iteration=1, wall=WALL, mono=MONO, status=Status(state="running"), gauges=gauges), NOW)
    return state


def check_rows(rows: list[Row], width: int, height: int | None = None) -> str:
    """All rows are ``width`` cells wide, and there are ``height``; returns their text."""
    for row in rows:
        assert len(row.text) == len(row.roles) == width, row
        assert cells_drawn(row.text) == width
    assert height is None or len(rows) == height
    return "\n".join(spell(row.text) for row in rows)


def cells_drawn(text: str) -> int:
    """How many cells of a terminal ``text`` takes, by a table that is not ours, once it has been spelled again. It must hold
    nothing that a terminal would interpret."""
    drawn = spell(whole(text))
    assert not {unicodedata.category(char) for char in drawn} & {"Cc", "Cs", "Co", "Zl", "Zp"}, ascii(drawn)
    assert not set(drawn) & set("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"), ascii(
        drawn
    )
    # What terminals do not agree on is held to two cells by cursor movements.
    unsteady = [char for char in whole(text) if ord(char) >= FIRST_UNSTEADY]
    steady = "".join(char for char in whole(text) if ord(char) < FIRST_UNSTEADY)
    return wcswidth(spell(steady)) + 2 * len(unsteady)
