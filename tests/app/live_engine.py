"""The real engine without a model for tests of the screen: scheduler, pool, tiers and telemetry on a clock set by hand.

Everything follows from the seed; time advances only by `LiveEngine.step`.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

from engine.core import Engine, Step
from engine.memory.groups import KVGroups
from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.requests.sampling import Sampling
from engine.scheduling.scheduler import Scheduler
from engine.serving.describe import hello
from engine.serving.submission import Submission, Vocabulary
from engine.serving.telemetry import Telemetry
from engine.tiers.books import TierBooks
from engine.tiers.tiers import Tiers
from kvtop.protocol import EngineIdentity, Hello, IterationFrame, Keyframe, ModelFacts, PolicyValue, encode
from tests.engine.fake_model import Clock, FakeRunner
from tests.engine.tiers.late import LateMover, Trouble

BLOCK, BYTES_PER_TOKEN = 16, 46080
STEP_S = 0.05
STARTED, CONTEXT = 1_790_000_000.0, 4096
VOCABULARY = 1000

CLASSES = (("A", 64, 60), ("B", 480, 300), ("C", 128, 60), ("D", 900, 90), ("chat", 240, 160))
"""Label, prompt and output tokens; half of every chat's prompt is the same."""

POLICY: dict[str, PolicyValue] = {"capacity": "max_utilization", "max_running": 12, "token_budget": 256}


class LiveEngine:
    """Requests of `CLASSES` arrive at random, ``arrivals`` an iteration, on a pool of ``blocks`` blocks.

    ``tiers``: blocks of lower tiers by name, the nearest first. ``families``: prompts of which samples, or beams, are drawn
    arrive too.
    """

    def __init__(
        self,
        blocks: int = 240,
        seed: int = 5,
        name: str = "demo",
        arrivals: float = 0.06,
        tiers: dict[str, int] | None = None,
        families: bool = False,
        run: str = "run-1",
        **policies: PolicyValue,
    ) -> None:
        self._random = random.Random(seed)
        self.arrivals, self.name, self.total, self.run = arrivals, name, blocks, run
        self._families = families
        self._lower = tiers or {}
        self.clock = Clock()
        self.clock.now = 1000.0
        pool = BlockPool(blocks, BLOCK)
        set_by_tiers: dict[str, PolicyValue] = {"preempt_action": "swap", "offload": "on_evict"} if tiers else {}
        self.scheduler = Scheduler(pool, PolicySet.of(POLICY | set_by_tiers | policies), max_model_len=CONTEXT)
        if tiers:
            mover = LateMover([[0] for _ in range(blocks)], seed, Trouble(late=0.3))
            books = [TierBooks(number, tier, slots) for number, (tier, slots) in enumerate(tiers.items(), 1)]
            self.scheduler.roster.tiers = Tiers(pool, books, mover)
        self.engine = Engine(self.scheduler, FakeRunner(seed), self.clock)
        self.telemetry = Telemetry(
            self.engine,
            bytes_per_token=BYTES_PER_TOKEN,
            attention_mode="torch",
            wall=lambda: STARTED + self.clock.now - 1000.0,
        )
        self._prefix = [self._random.randrange(VOCABULARY) for _ in range(128)]
        self._vocabulary = Vocabulary(VOCABULARY)
        self._num = 0
        self._idle = False

    # --- what it says about itself ---

    def hello(self) -> Hello:
        said = hello(
            self.name,
            model=ModelFacts(
                name="SmolLM2-135M-Instruct",
                weight_dtype="float32",
                layers=30,
                kv_heads=3,
                head_size=64,
                context_tokens=8192,
            ),
            blocks=self.total,
            lower_tiers=list(self._lower.items()),
            block_size=BLOCK,
            cache_dtype="float32",
            bytes_per_token=BYTES_PER_TOKEN,
            groups=KVGroups.of((), 30),
            device="cpu, 2 threads",
            attention="torch",
            max_model_len=CONTEXT,
            workload="chat mix A B C D at 1/16",
            notice=None,
            threads=2,
            seed=0,
            ledger_every=64,
            exposes_text=False,
        )
        identity = EngineIdentity(name=self.name, kind="kvtop", version="0.1.0", run=self.run, pid=4242)
        return said.model_copy(update={"engine": identity})

    def keyframe(self) -> Keyframe:
        return _sent(self.telemetry.keyframe(), Keyframe)

    def step(self, only_time: bool = False) -> IterationFrame:
        """One iteration; ``only_time``: the clock advances and nothing else changes."""
        if only_time:
            self.clock.now += STEP_S
        step = None if only_time else self.turn()
        self.telemetry.frame_ms = 0.2  # The one thing that a real clock would tell.
        return _sent(self.telemetry.frame(step), IterationFrame)

    def turn(self) -> Step | None:
        """One iteration that nothing is told of yet."""
        self.clock.now += STEP_S
        if not self.scheduler.paused and not self._idle and self._random.random() < self.arrivals:
            self.arrive()
        return self.engine.step()

    # --- what a test does to it ---

    def arrive(self) -> Request:
        """The next request is queued."""
        label, prompt, output = self._random.choice(CLASSES)
        tokens = self._prefix[: prompt // 2] if label == "chat" else []
        tokens = [*tokens, *(self._random.randrange(VOCABULARY) for _ in range(prompt - len(tokens)))]
        kind = self._random.choice(("samples", "beams", "one")) if self._families and label in "AC" else "one"
        submission = Submission(
            tokens,
            output,
            label=label,
            sampling=Sampling(temperature=1.0, seed=1) if kind == "samples" else None,
            n=3 if kind == "samples" else 1,
            beam=4 if kind == "beams" else None,
        )
        nums = range(self._num + 1, self._num + 1 + submission.requests)
        self._num = nums[-1]
        request = submission.build(
            list(nums),
            submission.name(nums[0]),
            self._vocabulary,
            arrival=self.clock.now,
            arrival_wall=STARTED,
            readable=False,
        )
        self.scheduler.add(request, self.clock.now)
        self.telemetry.touch(request)
        return request

    def pause(self) -> None:
        self.scheduler.pause()

    def go_idle(self) -> None:
        """All requests end, and none arrives any more."""
        self._idle = True
        for request in list(self.scheduler.requests.values()):
            self.scheduler.abort(request, self.clock.now, "the test is over")
            self.telemetry.log.finished(request)

    @property
    def running(self) -> Sequence[Request]:
        return self.scheduler.running

    @property
    def waiting(self) -> Sequence[Request]:
        return list(self.scheduler.waiting)


Frame = TypeVar("Frame", IterationFrame, Keyframe)


def _sent(frame: Frame, kind: type[Frame]) -> Frame:
    """As it comes out of a socket."""
    return kind.model_validate_json(encode(frame))
