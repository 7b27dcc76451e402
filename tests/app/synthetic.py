"""A make-believe engine for tests of the screen: a small paged scheduler without a model, and a source fed by hand.

Everything follows from the seed; time advances only by `SyntheticEngine.step`.
"""

import random
from dataclasses import dataclass, field

from kvtop.protocol import (
    AnyFrame,
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
    PoolFacts,
    Queue,
    RequestChange,
    Status,
    Verdict,
)
from kvtop.sources.base import Item, LinkDown, LinkUp
from tests.app.synthetic_tiers import LowerTiers

BLOCK = 16
STEP_S = 0.05
FREE, CACHED, ACTIVE, SHARED = range(4)
AXES = [
    PolicyAxis(
        name="capacity",
        kind="choice",
        help="what a request must find free before it may run",
        choices={
            "guaranteed_no_evict": "running requests reserve to their maximum; nobody is ever preempted",
            "max_utilization": "needs only the next step's blocks; preempts the latest started",
            "static_batch": "admits only when nothing runs",
        },
        transition=True,
        transition_values=["guaranteed_no_evict", "static_batch"],
    ),
    PolicyAxis(
        name="queue_order",
        kind="choice",
        help="who is tried first",
        choices={
            "fcfs": "first come, first served",
            "priority": "most urgent first",
            "shortest_prompt": "least to read first",
        },
        transition=False,
    ),
    PolicyAxis(name="prefix_cache", kind="bool", help="reuse blocks of equal prefixes", transition=False),
    PolicyAxis(
        name="max_running",
        kind="int",
        help="requests in a batch at most",
        minimum=1,
        maximum=64,
        unit="requests",
        transition=True,
    ),
]
POLICY: dict[str, bool | int | float | str] = {
    "capacity": "max_utilization",
    "queue_order": "fcfs",
    "prefix_cache": True,
    "max_running": 12,
}


@dataclass
class Live:
    """One request of the make-believe engine."""

    num: int
    id: str
    label: str
    prompt: int
    output_max: int
    arrival: float
    state: str = "waiting"
    computed: int = 0
    cached: int = 0
    output: int = 0
    table: list[int] = field(default_factory=list)
    phase_since: float = 0.0
    preemptions: int = 0
    tier: str | None = None
    times: dict[str, float] = field(default_factory=lambda: {"queue": 0.0, "prefill": 0.0, "decode": 0.0})


class SyntheticEngine:
    """Admits, grows, preempts and finishes requests on ``blocks`` blocks, and says so in frames."""

    def __init__(
        self,
        blocks: int = 240,
        seed: int = 7,
        name: str = "demo",
        limit: int = 12,
        arrivals: float = 0.05,
        tiers: dict[str, int] | None = None,
    ) -> None:
        self.lower = LowerTiers(blocks, tiers or {}, BLOCK * 46080)
        """``tiers``: slots of lower tiers by name; none by default."""
        self.random = random.Random(seed)
        self.arrivals, self.limit, self.name, self.total = arrivals, limit, name, blocks
        self.mono, self.wall = 1000.0, 1_790_000_000.0
        self.seq = self.iteration = 0
        self.refs = [0] * blocks
        self.owner = [-1] * blocks
        self.fill = [0] * blocks
        self.hash: dict[int, str] = {}
        self.free = list(range(blocks))
        self.cached: list[int] = []
        self.prefix: list[int] = []
        self.requests: dict[int, Live] = {}
        self.waiting: list[Live] = []
        self.running: list[Live] = []
        self.policy = dict(POLICY)
        self.policy_id = 1
        self.status = "running"
        self.counts = dict.fromkeys(Counters.model_fields, 0)
        self._dirty: set[int] = set()
        self._touched: set[int] = set()
        self._events: list[Event] = []
        self._event_log: list[Event] = []
        self._num = self._event_id = 0
        self._batches: list[int] = []

    # --- what it says about itself ---

    def hello(self) -> Hello:
        return Hello(
            engine=EngineIdentity(name=self.name, kind="kvtop", version="0.1.0", run="synthetic-1", pid=4242),
            model=ModelFacts(
                name="SmolLM2-135M-Instruct",
                weight_dtype="float32",
                layers=30,
                kv_heads=3,
                head_size=64,
                context_tokens=8192,
            ),
            geometry=Geometry(
                block_size=BLOCK,
                cache_dtype="float32",
                bytes_per_token=46080,
                pools=[PoolFacts(tier="device", blocks=self.total), *self.lower.pools()],
            ),
            device="cpu, 2 threads",
            attention="torch",
            capabilities=["blocks", "requests", "queue", "events"],
            commands=[
                *("set_policy", "abort", "preempt", "pause", "resume", "reset_prefix_cache", "keyframe"),
                *("pin", "unpin", "compact"),
            ],
            axes=AXES,
            limits={"max_model_len": 4096},
            workload="chat mix A B C D at 1/16",
        )

    def keyframe(self) -> Keyframe:
        return Keyframe(
            seq=self.seq,
            iteration=self.iteration,
            wall=self.wall,
            mono=self.mono,
            policy_id=self.policy_id,
            policy=self.policy,
            status=Status(state=self.status, since=1000.0),
            blocks=[self._run(i) for i in range(self.total)] + self.lower.all_runs(),
            tiers=self.lower.levels(),
            hashes=sorted(self.hash.items()),
            ages=[(0, self.total, 12.5)],
            requests=[self._change(r) for r in self.requests.values()],
            queue=self._queue(),
            verdict=self._verdict(),
            events=self._event_log[-200:],
            gauges=self._gauges(),
            counters=Counters(**self.counts),
            recent_batches=self._batches[-64:],
        )

    def step(self, only_time: bool = False) -> IterationFrame:
        """One iteration; ``only_time``: the clock advances and nothing else changes."""
        self.seq += 1
        self.mono += STEP_S
        self.wall += STEP_S
        prefill = decode = 0
        if not only_time and self.status == "running":
            self.lower.tick()
            self.iteration += 1
            self.counts["iterations"] += 1
            if self.random.random() < self.arrivals:
                self._arrive()
            self._admit()
            prefill, decode = self._compute()
        frame = IterationFrame(
            seq=self.seq,
            iteration=self.iteration,
            wall=self.wall,
            mono=self.mono,
            durations=Durations(schedule=0.3, forward=44.0, sample=1.2),
            batch=Batch(
                prefill_tokens=prefill,
                decode_tokens=decode,
                prefill_requests=sum(r.state == "prefill" for r in self.running),
                decode_requests=sum(r.state == "decode" for r in self.running),
                token_budget=256,
            ),
            status=Status(state=self.status, since=1000.0),
            policy=self.policy,
            policy_id=self.policy_id,
            blocks=[self._run(i) for i in sorted(self._dirty)] + self.lower.changed_runs(),
            tiers=self.lower.levels(),
            hashes=[(i, self.hash.get(i)) for i in sorted(self._dirty)],
            requests=[self._change(self.requests[n]) for n in sorted(self._touched) if n in self.requests],
            queue=self._queue(),
            verdict=self._verdict(),
            events=self._events,
            gauges=self._gauges(),
            counters=Counters(**self.counts),
        )
        self._batches.append(len(self.running))
        self._event_log += self._events
        self._dirty, self._touched, self._events = set(), set(), []
        return frame

    # --- its scheduler ---

    def _arrive(self) -> None:
        label, prompt, output = self.random.choice(
            [("A", 64, 60), ("B", 480, 300), ("C", 128, 60), ("D", 900, 90), ("chat", 240, 160)]
        )
        self._num += 1
        request = Live(
            self._num, f"{label.lower()}-{self._num:04d}", label, prompt, output, self.wall, phase_since=self.mono
        )
        self.requests[request.num] = request
        self.waiting.append(request)
        self._touched.add(request.num)

    def _admit(self) -> None:
        while self.waiting and len(self.running) < self.limit:
            head = self.waiting[0]
            shared = [b for b in self.prefix if self.refs[b] or b in self.cached] if head.label == "chat" else []
            spare = self.total // 5 if head.preemptions else 0
            if -(-(head.prompt + head.output) // BLOCK) + spare - len(shared) > len(self.free) + len(self.cached):
                return
            self.waiting.pop(0)
            for block in shared:
                self._take(block, head)
            head.cached = head.computed = len(shared) * BLOCK
            if head.tier is not None:
                self.lower.swap_in(head.num)
                self._event("swap_in", head, tier=head.tier, blocks=len(shared), seconds=0.4)
                head.tier = None
            self.lower.looked_up(head.prompt)
            self._phase(head, "prefill")
            self.running.append(head)
            self.counts["admissions"] += 1
            self.counts["prefix_query_tokens"] += head.prompt
            self.counts["prefix_hit_tokens"] += head.cached
            self._event("admit", head, blocks=len(shared), tokens=head.cached, seconds=head.times["queue"])

    def _compute(self) -> tuple[int, int]:
        budget, prefill, decode = 256, 0, 0
        for request in sorted(self.running, key=lambda r: r.state == "prefill"):
            if request.state == "preempted":
                continue
            target = request.prompt + request.output
            tokens = min(budget, target - request.computed) if request.computed < target else 1
            if request.computed >= target:
                request.output += 1
            need = -(-(request.computed + tokens) // BLOCK) - len(request.table)
            for _ in range(max(0, need)):
                if not self._grow(request):
                    break
            if request not in self.running:
                continue
            request.computed = min(request.computed + tokens, len(request.table) * BLOCK)
            for place, block in enumerate(request.table):
                fill = max(0, min(BLOCK, request.computed - place * BLOCK))
                if fill != self.fill[block]:
                    self.fill[block] = fill
                    self._dirty.add(block)
                if fill == BLOCK:
                    self.hash.setdefault(block, f"{self.random.getrandbits(64):016x}")
            budget -= tokens
            if request.state == "prefill":
                prefill += tokens
                if request.computed >= request.prompt:
                    self._phase(request, "decode")
                    if request.label == "chat" and not self.prefix:
                        self.prefix = request.table[:8]
            else:
                decode += 1
            self._touched.add(request.num)
            if request.output >= request.output_max:
                self._finish(request)
            if budget <= 0:
                break
        self.counts["prefill_tokens"] += prefill
        self.counts["decode_tokens"] += decode
        return prefill, decode

    def _grow(self, request: Live) -> bool:
        while not self.free and not self.cached:
            victim = self.running[-1]
            self.preempt(victim, by=request)
            if victim is request:
                return False
        if self.free:
            block = self.free.pop(0)
        else:
            block = self.cached.pop(0)
            self.hash.pop(block, None)
            if block in self.prefix:
                self.prefix = []
            self.counts["evictions"] += 1
            self.lower.store()
        self.fill[block] = 0
        self._take(block, request)
        return True

    def _take(self, block: int, request: Live) -> None:
        if block in self.cached:
            self.cached.remove(block)
        self.refs[block] += 1
        if self.refs[block] == 1:
            self.owner[block] = request.num
        request.table.append(block)
        self._dirty.add(block)

    def _release(self, request: Live) -> int:
        for block in request.table:
            self.refs[block] -= 1
            self._dirty.add(block)
            if self.refs[block] == 0:
                self.owner[block] = -1
                (self.cached if block in self.hash else self.free).append(block)
        released = len(request.table)
        request.table = []
        return released

    def preempt(self, victim: Live, by: Live | None = None) -> None:
        lost, released = victim.computed, self._release(victim)
        victim.computed = 0
        victim.preemptions += 1
        victim.tier = self.lower.swap_out(victim.num, released) if released else None
        if victim.tier is not None:
            self._event("swap_out", victim, tier=victim.tier, blocks=released, tokens=lost)
        self._phase(victim, "preempted" if victim.tier is None else "swapped")
        self.running.remove(victim)
        self.waiting.insert(0, victim)
        self.counts["preemptions"] += 1
        self._event(
            "preempt",
            victim,
            severity="warn",
            by=by.num if by else None,
            by_id=by.id if by else None,
            cause="the next step needs 1 block and 0 are free",
            need_blocks=1,
            free_blocks=0,
            blocks=released,
            tokens=lost,
            seconds=1.3,
        )

    def _finish(self, request: Live) -> None:
        self._release(request)
        self._phase(request, "finished")
        self.running.remove(request)
        self.counts["finished"] += 1
        self._event("finish", request, tokens=request.output, seconds=self.wall - request.arrival)

    def _phase(self, request: Live, state: str) -> None:
        phase = {"waiting": "queue", "preempted": "queue", "swapped": "queue", "finished": "decode"}.get(
            request.state, request.state
        )
        request.times[phase] += self.mono - request.phase_since
        request.state, request.phase_since = state, self.mono
        self._touched.add(request.num)

    # --- parts of frames ---

    def _event(self, kind: str, request: Live, **fields: object) -> None:
        self._event_id += 1
        self._events.append(
            Event(
                id=self._event_id,
                kind=kind,
                iteration=self.iteration,
                wall=self.wall,
                request=request.num,
                request_id=request.id,
                **fields,  # type: ignore[arg-type]
            )
        )

    def _state(self, block: int) -> int:
        if self.refs[block] > 1:
            return SHARED
        if self.refs[block] == 1:
            return ACTIVE
        return CACHED if block in self.hash else FREE

    def _run(self, block: int) -> tuple[int, int, int, int, int, int, int, int]:
        return (block, 1, self._state(block), self.owner[block], self.refs[block], self.fill[block], 0, 0)

    def _change(self, r: Live) -> RequestChange:
        return RequestChange(
            num=r.num,
            id=r.id,
            label=r.label,
            state=r.state,
            tier=r.tier or "device" if self.lower.tiers else None,
            priority=0,
            arrival=r.arrival,
            prompt_tokens=r.prompt,
            max_tokens=r.output_max,
            cached_tokens=r.cached,
            computed_tokens=r.computed,
            output_tokens=r.output,
            blocks=len(r.table),
            table_at=0,
            table=list(r.table),
            phase_since=r.phase_since,
            queue_s=r.times["queue"],
            prefill_s=r.times["prefill"],
            decode_s=r.times["decode"],
            preemptions=r.preemptions,
            ttft_s=0.8 if r.output else None,
        )

    def _queue(self) -> Queue:
        return Queue(order=[r.num for r in self.waiting[:64]], total=len(self.waiting))

    def _verdict(self) -> Verdict | None:
        if not self.waiting:
            return None
        head = self.waiting[0]
        if len(self.running) >= self.limit:
            return Verdict(
                request=head.num, request_id=head.id, code="max_running", rule="max_running=12", limit=self.limit
            )
        return Verdict(
            request=head.num,
            request_id=head.id,
            code="needs_blocks",
            rule="capacity=max_utilization",
            need_blocks=-(-head.prompt // BLOCK),
            available_blocks=len(self.free) + len(self.cached),
            watermark_blocks=2,
        )

    def _gauges(self) -> Gauges:
        states = [self._state(b) for b in range(self.total)]
        return Gauges(
            kv_blocks_total=self.total,
            kv_blocks_free=states.count(FREE),
            kv_blocks_cached=states.count(CACHED),
            kv_blocks_active=states.count(ACTIVE),
            kv_blocks_shared=states.count(SHARED),
            kv_blocks_reserved=0,
            kv_bytes_used=(states.count(ACTIVE) + states.count(SHARED)) * BLOCK * 46080,
            kv_tokens=sum(r.computed for r in self.running),
            running=len(self.running),
            waiting=len(self.waiting),
            preempted=sum(r.state in ("preempted", "swapped") for r in self.waiting),
        )


def gauges_only(name: str = "outside") -> tuple[Hello, Keyframe]:
    """An engine seen from outside: levels, no blocks, no requests."""
    hello = Hello(
        engine=EngineIdentity(name=name, kind="vllm", version="0.11", run="r1"),
        model=ModelFacts(name="some-model"),
        capabilities=[],
    )
    frame = Keyframe(
        seq=0,
        iteration=0,
        wall=1_790_000_000.0,
        mono=5.0,
        status=Status(state="running"),
        gauges=Gauges(kv_usage=0.63, running=5, waiting=2),
    )
    return hello, frame


class SyntheticSource:
    """A source whose items a test puts in; with ``engine`` and ``live``, every poll also runs one iteration."""

    title = "synthetic"

    def __init__(self, engine: SyntheticEngine | None = None, live: bool = False) -> None:
        self.engine, self.live = engine, live
        self.items: list[Item] = []
        self.started = self.closed = False
        self.keyframes_asked = 0
        self.paces: list[float] = []
        if engine is not None:
            self.items += [LinkUp(), engine.hello(), engine.keyframe()]

    def start(self) -> None:
        self.started = True

    def put(self, *items: AnyFrame | LinkUp | LinkDown) -> None:
        self.items += items

    def run(self, iterations: int) -> None:
        """Queues the frames of so many iterations."""
        assert self.engine is not None
        self.items += [self.engine.step() for _ in range(iterations)]

    def poll(self) -> list[Item]:
        if self.live and self.engine is not None and not self.items:
            self.items.append(self.engine.step())
        items, self.items = self.items, []
        return items

    def pace(self, fps: float) -> None:
        self.paces.append(fps)

    def request_keyframe(self) -> None:
        self.keyframes_asked += 1

    def close(self) -> None:
        self.closed = True
