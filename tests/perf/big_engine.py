"""An engine's frames at any size, made up: so many blocks, so many requests, the same change in each iteration."""

import random
from typing import Final

from kvtop.protocol import (
    Batch,
    BlockRun,
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
    PoolFacts,
    Queue,
    RequestChange,
    Status,
    Verdict,
)

CHANGES: Final = 64
"""Blocks, and requests, that change in an iteration."""

STEP_S: Final = 0.05
FREE, CACHED, ACTIVE, SHARED = range(4)


class BigEngine:
    """One request in five runs and holds blocks, one in ten is done, the others wait. Nothing depends on the clock."""

    def __init__(self, blocks: int, requests: int, *, seed: int = 5, run: str = "big-1") -> None:
        self.blocks, self.run = blocks, run
        self._random = random.Random(seed)
        self.seq = self.iteration = 0
        self.mono, self.wall = 1000.0, 1_790_000_000.0
        self.status = "running"
        self._events = 0
        self._output = dict.fromkeys(range(requests), 5)
        self._running = [num for num in self._output if num % 5 == 0]
        self._waiting = [num for num in self._output if num % 5 and num % 10 != 9]
        self._share = max(1, blocks * 4 // 5 // max(1, len(self._running)))

    def hello(self) -> Hello:
        return Hello(
            engine=EngineIdentity(name="big", kind="kvtop", version="0", run=self.run, pid=1),
            model=ModelFacts(name="made-up", weight_dtype="bfloat16"),
            geometry=Geometry(
                block_size=16,
                cache_dtype="bfloat16",
                bytes_per_token=131072,
                pools=[PoolFacts(tier="device", blocks=self.blocks)],
            ),
            device="none",
            attention="none",
            capabilities=["blocks", "requests", "queue", "events"],
            commands=["abort", "preempt", "pause", "resume", "pin", "unpin", "compact", "reset_prefix_cache"],
        )

    def keyframe(self) -> Keyframe:
        return Keyframe(
            seq=self.seq,
            iteration=self.iteration,
            wall=self.wall,
            mono=self.mono,
            status=Status(state=self.status, since=1000.0),
            blocks=[self._block(block) for block in range(self.blocks)],
            ages=[(0, self.blocks, 12.5)],
            requests=[self._whole(num) for num in self._output],
            queue=self._queue(),
            verdict=self._verdict(),
            gauges=self._gauges(),
            counters=self._counters(),
        )

    def frame(self, *, events: int = 2, changes: int = CHANGES, requests: int | None = None) -> IterationFrame:
        """The next iteration: ``changes`` blocks and as many ``requests`` (those that run at most) differ, ``events``
        things happened."""
        self.seq += 1
        self.iteration += 1
        self.mono += STEP_S
        self.wall += STEP_S
        blocks = sorted(self._random.sample(range(self.blocks), min(changes, self.blocks)))
        return IterationFrame(
            seq=self.seq,
            iteration=self.iteration,
            wall=self.wall,
            mono=self.mono,
            durations=Durations(schedule=0.3, forward=44.0, sample=1.2),
            batch=Batch(decode_tokens=len(self._running), decode_requests=len(self._running)),
            queue=self._queue(),
            verdict=self._verdict(),
            blocks=[self._block(block, 1 + self._random.randrange(3)) for block in blocks],
            requests=self._requests(changes if requests is None else requests),
            events=[self._event() for _ in range(events)],
            gauges=self._gauges(),
            counters=self._counters(),
        )

    def _requests(self, changes: int) -> list[RequestChange]:
        found = []
        for num in sorted(self._random.sample(self._running, min(changes, len(self._running)))):
            self._output[num] += 1
            found.append(RequestChange(num=num, output_tokens=self._output[num], computed_tokens=self._output[num]))
        return found

    def _block(self, block: int, state: int | None = None) -> BlockRun:
        owner = block // self._share
        held = owner < len(self._running)
        if state is None:
            state = (SHARED if block % 50 == 0 else ACTIVE) if held else (CACHED if block % 2 else FREE)
        refs = {ACTIVE: 1, SHARED: 2}.get(state, 0)
        return (block, 1, state, self._running[owner] if held and refs else -1, refs, 16 if state else 0, 0, 0)

    def _whole(self, num: int) -> RequestChange:
        state = "decode" if num % 5 == 0 else "finished" if num % 10 == 9 else "waiting"
        table = []
        if state == "decode":
            place = num // 5
            table = list(range(place * self._share, min(self.blocks, (place + 1) * self._share)))
        return RequestChange(
            num=num,
            id=f"{'ABCD'[num % 4]}-{num:05d}",
            label="chat" if num % 3 else "long",
            state=state,
            priority=num % 3,
            prompt_tokens=100 + num % 900,
            max_tokens=256,
            cached_tokens=16 * (num % 4),
            computed_tokens=100,
            output_tokens=self._output[num],
            blocks=len(table),
            table_at=0,
            table=table,
            phase_since=self.mono - num % 977 / 10,
            queue_s=num % 31 / 10,
            prefill_s=0.2,
            decode_s=1.5,
            preemptions=num % 2,
            ttft_s=0.3,
        )

    def _event(self) -> Event:
        self._events += 1
        kind = ("admit", "finish", "evict", "preempt")[self._events % 4]
        return Event(
            id=self._events,
            kind=kind,
            iteration=self.iteration,
            wall=self.wall,
            request=self._events % max(1, len(self._output)),
            blocks=3,
            tokens=40,
            seconds=1.0,
            cause="made up" if kind == "evict" else None,
        )

    def _queue(self) -> Queue:
        return Queue(order=self._waiting[:64], total=len(self._waiting))

    def _verdict(self) -> Verdict | None:
        if not self._waiting:
            return None
        return Verdict(
            request=self._waiting[0], code="needs_blocks", rule="capacity=x", need_blocks=9, available_blocks=2
        )

    def _gauges(self) -> Gauges:
        return Gauges(
            kv_blocks_total=self.blocks,
            running=len(self._running),
            waiting=len(self._waiting),
            kv_tokens=self.iteration,
        )

    def _counters(self) -> Counters:
        tokens = self.iteration * len(self._running)
        return Counters(iterations=self.iteration, decode_tokens=tokens, preemptions=self._events // 4)
