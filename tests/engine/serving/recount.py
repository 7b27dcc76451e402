"""Counts again, by other means, all that an engine counts of itself: from its events and the changes it sends, from what its
runner was asked to compute, and from the copies its mover made. Nothing here reads the engine's own totals."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.core import Engine
from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.request import RequestState
from engine.scheduling.scheduler import Scheduler
from engine.serving.server import Server
from engine.serving.telemetry import Telemetry
from engine.serving.watchdog import Limits
from engine.tiers.books import TierBooks
from engine.tiers.mover import Copy, CopyResult
from engine.tiers.tiers import Tiers
from engine.workload.arrivals import Arrival
from kvtop.protocol import BLOCK_STATES, AnyCommand, EngineIdentity, Hello, IterationFrame, Keyframe, ModelFacts
from kvtop.protocol import PolicyValue as Value
from tests.engine.driving import BLOCK, FakeRunner
from tests.engine.fake_model import Clock
from tests.engine.tiers.late import LateMover, Trouble

NAMES = ("device", "host", "disk")
BYTES_PER_TOKEN = 8
BLOCK_COPY_BYTES = 10
"""What the late mover says a block takes."""

BEAMS = "beams"
"""Label of requests that are beam searches."""

STEP_SECONDS = 0.25
"""By the engine's clock, for each run of a batch."""


@dataclass(frozen=True)
class Computed:
    """``count`` tokens of request ``num`` from position ``start`` on; ``state``: its own when they were computed."""

    num: int
    start: int
    count: int
    state: RequestState
    drawn: tuple[int, ...]
    """Nums of those that got a token."""


class Witness:
    """Between engine and runner: writes down what is computed; time passes with it."""

    def __init__(self, runner: FakeRunner, clock: Clock) -> None:
        self._runner, self._clock = runner, clock
        self.batch: list[Computed] = []
        """Of the latest run."""
        self.first_token: dict[int, float] = {}
        self.tokens: dict[int, list[float]] = {}
        """When each got tokens, by num; several at a time once."""

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        if not items:
            return self._runner.run(items, copies)
        self._clock.now += STEP_SECONDS
        self.batch = [
            Computed(i.request.num, i.start, i.count, i.request.state, tuple(each.num for each in i.drawing))
            for i in items
        ]
        for item in self.batch:
            for num in item.drawn:
                self.first_token.setdefault(num, self._clock.now)
                if (times := self.tokens.setdefault(num, [])) == [] or times[-1] != self._clock.now:
                    times.append(self._clock.now)
        return self._runner.run(items, copies)


class WrittenDown(LateMover):
    """A late mover that writes down which copies went well."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.went_well: Counter[tuple[str, str]] = Counter()
        self.failed = 0

    def _copy(self, copy: Copy) -> CopyResult:
        result = super()._copy(copy)
        if result.error is None:
            self.went_well[NAMES[copy.source.tier], NAMES[copy.target.tier]] += 1
            return CopyResult(copy, None, BLOCK_COPY_BYTES, result.ms)
        self.failed += 1
        return result


class Asked:
    """A command of somebody, and whether it was carried out."""

    uid, pid = 1000, 42

    def __init__(self, command: AnyCommand) -> None:
        self.command, self.ok = command, False

    def reply(self, ok: bool, **_: Any) -> None:
        self.ok = ok


class Desk:
    """The publisher's part of the serving loop. Every frame is looked at as it comes, as a viewer would get it."""

    watched = True
    recorded = False
    flight = None

    def __init__(self, look: Callable[[IterationFrame], None]) -> None:
        self.hello = Hello(
            engine=EngineIdentity(name="t", kind="kvtop", version="0", run="this one"), model=ModelFacts(name="none")
        )
        self.pending: list[Asked] = []
        self._look = look

    def ask(self, command: AnyCommand) -> Asked:
        self.pending.append(asked := Asked(command))
        return asked

    def commands(self) -> list[Asked]:
        now, self.pending = self.pending, []
        return now

    def publish(self, frame: IterationFrame) -> None:
        self._look(IterationFrame.model_validate(frame.model_dump()))

    def keyframe_coming(self, seq: int) -> None: ...

    def publish_keyframe(self, _: Keyframe) -> None: ...

    def keyframe_due(self) -> bool:
        return False

    def wait(self, _: float) -> None: ...

    def nudge(self) -> None: ...


@dataclass
class Recount:
    """All totals as the recounter has them. ``rows``: each request as the frames so far tell it."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    events: Counter[str] = field(default_factory=Counter)
    evicted: int = 0
    iterations: int = 0
    prefill: int = 0
    recomputed: int = 0
    queried: int = 0
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    found: dict[int, int] = field(default_factory=dict)
    """Tokens each prompt found at its first admission, by num."""
    _admitted: Counter[int] = field(default_factory=Counter)
    _had: dict[int, int] = field(default_factory=dict)
    _lost: dict[int, int] = field(default_factory=dict)

    def see(self, frame: IterationFrame, batch: Sequence[Computed]) -> None:
        for change in frame.requests:
            known = self.rows.setdefault(change.num, {})
            known |= {name: value for name, value in change if value is not None}
        for start, count, *facts in frame.blocks:
            self.blocks |= {block: tuple(facts) for block in range(start, start + count)}
        for event in frame.events:
            self.events[event.kind] += 1
            self.evicted += event.blocks or 0 if event.kind == "evict" else 0
            num = event.request
            if num is None:
                continue
            if event.kind == "admit":
                self._admitted[num] += 1
            if event.kind == "preempt":
                for each in self._together(num):
                    self._lost[each] = max(self._lost.get(each, 0), self._had.get(each, 0))
        for change in frame.requests:
            if self.rows[change.num]["label"] == BEAMS and change.num in self._had:
                # It may have taken over what another beam computed.
                self._had[change.num] = max(self._had[change.num], self.rows[change.num]["computed_tokens"])
        for num, times in self._admitted.items():
            row = self.rows[num]
            if times == 1 and row.get("group", num) == num:
                self.queried += 0 if num in self.found else row["prompt_tokens"]
                self.found[num] = row["cached_tokens"]
        if frame.batch is not None:
            self.iterations += 1
            for item in batch:
                self._compute(item)

    def _together(self, num: int) -> list[int]:
        """Whom a preemption of ``num`` takes: with one beam go all of its search."""
        if self.rows[num]["label"] != BEAMS:
            return [num]
        return [each for each, row in self.rows.items() if row.get("group", each) == num]

    def _compute(self, item: Computed) -> None:
        end = item.start + item.count
        self.prefill += item.count if item.state is RequestState.PREFILL else 0
        self.recomputed += max(0, min(end, self._lost.get(item.num, 0)) - item.start)
        # A sample that found no room waits, and has nothing.
        ran = (num for num in item.drawn if self.rows[num]["state"] == "decode")
        for num in (item.num, *ran):
            self._had[num] = max(self._had.get(num, 0), end)

    def counters(self, mover: WrittenDown) -> dict[str, int]:
        copied = mover.went_well
        return {
            "iterations": self.iterations,
            "prefill_tokens": self.prefill,
            "decode_tokens": sum(row["output_tokens"] for row in self.rows.values()),
            "prefix_query_tokens": self.queried,
            "prefix_hit_tokens": sum(self.found.values()),
            "recomputed_tokens": self.recomputed,
            "admissions": self.events["admit"],
            "preemptions": self.events["preempt"],
            "finished": self.events["finish"],
            "aborted": self.events["abort"],
            "errored": self.events["error"],
            "evictions": self.evicted,
            "host_offload_bytes": BLOCK_COPY_BYTES * copied["device", "host"],
            "host_promotions": copied["host", "device"],
            "disk_offload_bytes": BLOCK_COPY_BYTES * (copied["device", "disk"] + copied["host", "disk"]),
            "disk_promotions": copied["disk", "device"],
        }

    def gauges(self, device: int) -> dict[str, int | float]:
        # The beams of a search wait as one.
        alone = [row for num, row in self.rows.items() if row["label"] != BEAMS or row.get("group", num) == num]
        waiting = Counter(row["state"] for row in alone)
        states = Counter(row["state"] for row in self.rows.values())
        mine = [self.blocks[block] for block in range(device)]
        by_state = Counter(BLOCK_STATES[facts[0]] for facts in mine)
        return {
            "kv_blocks_total": device,
            **{
                f"kv_blocks_{name}": by_state[name]
                for name in ("free", "cached", "active", "shared", "pinned", "transfer")
            },
            "kv_blocks_reserved": sum(row["reserved_blocks"] for row in self.rows.values()),
            "kv_bytes_used": (by_state["active"] + by_state["shared"]) * BLOCK * BYTES_PER_TOKEN,
            "kv_tokens": sum(fill for _, _, refs, fill, *_ in mine if refs),
            "running": states["prefill"] + states["decode"],
            "loading": states["loading"],
            "waiting": waiting["waiting"] + waiting["preempted"] + waiting["swapped"],
            "preempted": waiting["preempted"] + waiting["swapped"],
        }


class Town:
    """A crowded engine: a device, a host and a disk tier, all too small, and a recounter that looks over its shoulder."""

    def __init__(self, arrivals: Sequence[Arrival], *, seed: int, trouble: Trouble, **policies: Value) -> None:
        self.arrivals = list(arrivals)
        self.pool = BlockPool(24, BLOCK)
        self.clock = Clock()
        runner = FakeRunner(self.pool, seed)
        self.witness = Witness(runner, self.clock)
        self.mover = WrittenDown(runner._memory, seed, trouble)
        tiers = Tiers(self.pool, [TierBooks(1, "host", 8), TierBooks(2, "disk", 12)], self.mover)
        self.scheduler = Scheduler(self.pool, PolicySet.of(policies), max_model_len=192, tiers=tiers)
        self.engine = Engine(self.scheduler, self.witness, self.clock)
        telemetry = Telemetry(self.engine, bytes_per_token=BYTES_PER_TOKEN, attention_mode="none", wall=self.clock)
        self.recount = Recount()
        self.frames: list[IterationFrame] = []
        self.desk = Desk(self._look)
        desk: Any = self.desk
        for start, count, *facts in telemetry.keyframe().blocks or []:
            self.recount.blocks |= {block: tuple(facts) for block in range(start, start + count)}
        self.began = self.clock.now
        self.server = Server(
            self.engine, telemetry, desk, arrivals=iter(arrivals), queue_limit=1000, watchdog=Limits(0.0, 0.0, 0.0)
        )
        self.meter = self.server.measure()

    def _look(self, frame: IterationFrame) -> None:
        self.frames.append(frame)
        self.recount.see(frame, self.witness.batch)
        self.witness.batch = []

    def turn(self) -> None:
        """One turn of the serving loop; where nothing could run, time passes all the same."""
        before = self.clock.now
        self.server._turn()
        self.clock.now += 0.0 if self.clock.now > before else STEP_SECONDS
