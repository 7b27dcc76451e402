"""An engine that is none: a publisher driven by a few lines, and the frames it sends."""

import threading
import time
from pathlib import Path
from types import TracebackType

from kvtop.protocol import (
    Batch,
    Counters,
    Durations,
    EngineIdentity,
    Event,
    Gauges,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    PolicyAxis,
    PolicyValue,
    PoolFacts,
    Queue,
    RequestChange,
    SetPolicy,
    Status,
    Verdict,
)
from kvtop.publish import PendingCommand, Publisher

SECRET = "the quick brown secret"


def fake_hello(name: str = "fake", run: str = "run-1") -> Hello:
    return Hello(
        engine=EngineIdentity(
            name=name,
            kind="kvtop",
            version="9.9",
            run=run,
            pid=4321,
            started=time.time() - 3700,
            http="http://127.0.0.1:8000",
        ),
        model=ModelFacts(name="toy", revision="abc123", weight_dtype="float32"),
        geometry=Geometry(
            block_size=16, cache_dtype="float16", bytes_per_token=1024, pools=[PoolFacts(tier="device", blocks=12)]
        ),
        device="cpu",
        attention="torch",
        capabilities=["blocks", "requests", "queue", "events", "text"],
        commands=["set_policy", "abort", "preempt", "pause", "resume", "reset_prefix_cache", "keyframe"],
        axes=[
            PolicyAxis(name="capacity", kind="choice", choices={"max_utilization": "a", "guaranteed_no_evict": "b"}),
            PolicyAxis(name="prefix_cache", kind="bool"),
            PolicyAxis(name="max_running", kind="int", minimum=1, maximum=64, unit="requests"),
        ],
        limits={"max_model_len": 2048, "seed": 0},
        workload="none",
    )


def fake_keyframe(seq: int = 10) -> Keyframe:
    """Twelve blocks: 0–2 of request 1, 2 shared with request 2 (which also has 3), 4–5 cached, the rest free."""
    mono = time.monotonic()
    return Keyframe(
        seq=seq,
        iteration=seq + 100,
        wall=time.time(),
        mono=mono,
        policy={"capacity": "max_utilization", "prefix_cache": True, "max_running": 8},
        status=Status(state="running"),
        blocks=[
            (0, 2, 2, 1, 1, 16, 0, 0),
            (2, 1, 3, 1, 2, 16, 0, 0),
            (3, 1, 2, 2, 1, 5, 0, 0),
            (4, 2, 1, -1, 0, 16, 0, 0),
            (6, 6, 0, -1, 0, 0, 0, 0),
        ],
        requests=[
            RequestChange(
                num=1,
                id="chat-1",
                state="decode",
                prompt_tokens=40,
                cached_tokens=0,
                computed_tokens=48,
                output_tokens=8,
                blocks=3,
                table_at=0,
                table=[0, 1, 2],
                phase_since=mono - 2.0,
                queue_s=0.5,
                prefill_s=1.5,
                preemptions=1,
                attention_mode="torch",
                cache_dtype="float16",
                ttft_s=2.0,
                prompt_text=SECRET,
                output_text=SECRET,
            ),
            RequestChange(num=2, id="chat-2", state="prefill", prompt_tokens=60, blocks=2, table_at=0, table=[2, 3]),
            RequestChange(num=3, id="chat-3", state="waiting", prompt_tokens=500, phase_since=mono - 4.0),
        ],
        queue=Queue(order=[3], total=1),
        verdict=Verdict(
            request=3, code="needs_blocks", rule="capacity=max_utilization", need_blocks=32, available_blocks=8
        ),
        events=[
            Event(id=1, kind="preempt", iteration=50, wall=time.time(), request=1, by=2, tokens=32, cause="no blocks")
        ],
        gauges=Gauges(
            kv_blocks_total=12,
            kv_blocks_free=6,
            kv_blocks_cached=2,
            kv_blocks_active=3,
            kv_blocks_shared=1,
            kv_bytes_used=4 * 16 * 1024,
            kv_tokens=53,
            running=2,
            waiting=1,
        ),
        counters=Counters(
            iterations=seq + 100,
            prefill_tokens=100,
            decode_tokens=8,
            prefix_query_tokens=100,
            prefix_hit_tokens=32,
            admissions=3,
            preemptions=1,
            evictions=4,
            ledger_violations=0,
        ),
        recent_batches=[1, 2, 2],
    )


def fake_iteration(seq: int) -> IterationFrame:
    return IterationFrame(
        seq=seq,
        iteration=seq + 100,
        wall=time.time(),
        mono=time.monotonic(),
        durations=Durations(schedule=0.5, forward=20.0),
        batch=Batch(decode_tokens=2, decode_requests=2),
        counters=Counters(iterations=seq + 100, prefill_tokens=100 + seq, decode_tokens=8 + 2 * seq),
    )


class FakeEngine:
    """Serves a folder until the ``with`` ends: ten frames a second, and it obeys what it knows."""

    def __init__(self, folder: Path, name: str = "fake", hello: Hello | None = None) -> None:
        self.name = name
        self.publisher = Publisher(hello or fake_hello(name), folder)
        self.policy: dict[str, PolicyValue] = {}
        self.seen: list[object] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "FakeEngine":
        self.publisher.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(10)
        self.publisher.stop("test over")

    def _serve(self) -> None:
        seq = 10
        self.publisher.publish_keyframe(fake_keyframe(seq))
        while not self._stop.is_set():
            for pending in self.publisher.commands():
                self._obey(pending, seq)
            seq += 1
            self.publisher.publish(fake_iteration(seq))
            if self.publisher.keyframe_due():
                self.publisher.publish_keyframe(fake_keyframe(seq))
            self.publisher.wait(0.1)

    def _obey(self, pending: PendingCommand, seq: int) -> None:
        self.seen.append(pending.command)
        if isinstance(pending.command, SetPolicy) and "nonsense" in pending.command.changes:
            pending.reply(False, message="no policy axis 'nonsense'; there are capacity, prefix_cache, max_running")
            return
        pending.reply(True, iteration=seq + 101, message="as you say", effects=["chat-3 waits longer"])
