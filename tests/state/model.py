"""A toy engine: a pool and some requests that change at random, described by frames as a real one would.

It keeps its own books in the plainest way, and tells them both as keyframes and as changes.
"""

from dataclasses import dataclass, field
from random import Random

from kvtop.protocol import (
    BlockRun,
    EngineIdentity,
    Gauges,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    PoolFacts,
    RequestChange,
    Status,
)

FREE, CACHED, ACTIVE, SHARED = range(4)
STATES = ("waiting", "prefill", "decode", "preempted", "finished")


@dataclass
class ToyRequest:
    num: int
    state: str = "waiting"
    table: list[int] = field(default_factory=list)
    output: int = 0
    since: float = 0.0


@dataclass
class ToyEngine:
    """Every step changes some requests' tables, states and outputs; blocks follow from the tables."""

    total: int
    seed: int
    mono: float = 50.0
    seq: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.requests: dict[int, ToyRequest] = {}
        self.hashes: dict[int, str] = {}
        self.touched = [0.0] * self.total
        self.facts = [self._fact(block) for block in range(self.total)]
        self._next = 0

    def hello(self, run: str = "one") -> Hello:
        return Hello(
            engine=EngineIdentity(name="toy", kind="toy", version="1", run=run),
            model=ModelFacts(name="none"),
            geometry=Geometry(block_size=16, pools=[PoolFacts(tier="device", blocks=self.total)]),
            capabilities=["blocks", "requests"],
        )

    def _fact(self, block: int) -> tuple[int, int, int, int, int, int]:
        owners = [r.num for r in self.requests.values() if block in r.table]
        if owners:
            return (SHARED if len(owners) > 1 else ACTIVE, owners[0], len(owners), block % 17, 0, 0)
        return (CACHED if block in self.hashes else FREE, -1, 0, 16 if block in self.hashes else 0, 0, 0)

    def _change_one(self, changes: dict[int, RequestChange]) -> None:
        move = self.random.choice(("arrive", "grow", "share", "cut", "state", "decode"))
        if move == "arrive" or not self.requests:
            request = ToyRequest(self._next, since=self.mono)
            self._next += 1
            self.requests[request.num] = request
            changes[request.num] = self._whole(request)
            return
        request = self.random.choice(list(self.requests.values()))
        before = len(request.table)
        free = [b for b in range(self.total) if b not in request.table]
        if move in ("grow", "share") and free:
            held = [b for r in self.requests.values() for b in r.table if b in free]
            request.table.append(self.random.choice(held if move == "share" and held else free))
        elif move == "cut" and request.table:
            before = self.random.randrange(len(request.table))
            if self.random.random() < 0.5:
                self.hashes[request.table[-1]] = f"{self.random.getrandbits(64):016x}"
            del request.table[before:]
        elif move == "state":
            request.state, request.since = self.random.choice(STATES), self.mono
        else:
            request.output += 1
        changes[request.num] = self._whole(request)

    def _whole(self, request: ToyRequest) -> RequestChange:
        return RequestChange(
            num=request.num,
            id=f"r{request.num}",
            state=request.state,
            output_tokens=request.output,
            blocks=len(request.table),
            phase_since=request.since,
            table_at=0,
            table=list(request.table),
        )

    def step(self) -> IterationFrame:
        """One iteration: what changed, as changes."""
        self.mono += self.random.random() / 4
        self.seq += 1
        lost = [b for b in self.hashes if self.random.random() < 0.05]
        before = dict(self.hashes)
        for block in lost:
            del self.hashes[block]
        changes: dict[int, RequestChange] = {}
        tables = {num: list(request.table) for num, request in self.requests.items()}
        for _ in range(self.random.randrange(4)):
            self._change_one(changes)
        for num, old in tables.items():
            if num in changes:
                changes[num] = self._by_suffix(changes[num], old)
        forgotten = [n for n, r in self.requests.items() if r.state == "finished" and self.random.random() < 0.3]
        for num in forgotten:
            del self.requests[num]
        blocks = []
        for block in range(self.total):
            fact = self._fact(block)
            if fact != self.facts[block]:
                self.facts[block], self.touched[block] = fact, self.mono
                blocks.append((block, 1, *fact))
        hashes = [
            (block, self.hashes.get(block))
            for block in sorted(before.keys() | self.hashes.keys())
            if before.get(block) != self.hashes.get(block)
        ]
        return IterationFrame(
            seq=self.seq, iteration=self.seq, wall=self.mono, mono=self.mono, blocks=_runs(blocks), hashes=hashes,
            requests=list(changes.values()), forgotten=forgotten, gauges=self.gauges(),
        )  # fmt: skip

    def _by_suffix(self, change: RequestChange, old: list[int]) -> RequestChange:
        """The same change of table, told as what follows the part that stays."""
        new = change.table or []
        same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return change.model_copy(update={"table_at": same, "table": new[same:]})

    def gauges(self) -> Gauges:
        states = [fact[0] for fact in self.facts]
        return Gauges(
            kv_blocks_total=self.total,
            kv_blocks_free=states.count(FREE),
            kv_blocks_cached=states.count(CACHED),
            kv_blocks_active=states.count(ACTIVE),
            kv_blocks_shared=states.count(SHARED),
        )

    def keyframe(self) -> Keyframe:
        """Everything as it is now."""
        return Keyframe(
            seq=self.seq,
            iteration=self.seq,
            wall=self.mono,
            mono=self.mono,
            status=Status(state="running"),
            blocks=_runs([(block, 1, *fact) for block, fact in enumerate(self.facts)]),
            hashes=sorted(self.hashes.items()),
            ages=[(block, 1, self.mono - at) for block, at in enumerate(self.touched)],
            requests=[self._whole(request) for request in self.requests.values()],
            gauges=self.gauges(),
        )


def _runs(singles: list[tuple[int, ...]]) -> list[BlockRun]:
    """Neighbours with the same facts as one run."""
    runs: list[list[int]] = []
    for start, _, *facts in singles:
        if runs and runs[-1][0] + runs[-1][1] == start and runs[-1][2:] == facts:
            runs[-1][1] += 1
        else:
            runs.append([start, 1, *facts])
    return [tuple(run) for run in runs]  # type: ignore[misc]
