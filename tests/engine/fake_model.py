"""An engine without a model: the real scheduler and pool, and a runner that makes tokens up."""

import random
from collections.abc import Sequence

from engine.core import Engine
from engine.memory.pool import BlockPool
from engine.memory.window import Windows
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.logprobs import TokenLogprob
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.serving.telemetry import Telemetry
from kvtop.protocol import PolicyValue


class FakeRunner:
    """Samples token ids below 1000 from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        drawing = [request for item in items for request in item.drawing]
        tokens = [self._random.randrange(1000) for _ in drawing]
        return StepOutput(
            tokens,
            forward_ms=1.0,
            candidates=[self._candidates(item.candidates) for item in items if item.candidates],
            logprobs={
                place: TokenLogprob(token, -0.5 * (token % 9), 1 + token % 9)
                for place, (request, token) in enumerate(zip(drawing, tokens, strict=True))
                if request.sampling.logprobs is not None
            },
        )

    def _candidates(self, count: int) -> list[tuple[int, float]]:
        worst_first = sorted(-self._random.random() for _ in range(count))
        return list(zip(self._random.sample(range(1000), count), reversed(worst_first), strict=True))


class Clock:
    """Monotonic seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def make_engine(
    blocks: int = 32,
    block_size: int = 4,
    clock: Clock | None = None,
    windows: Windows = (None,),
    **policies: PolicyValue,
) -> tuple[Engine, Telemetry]:
    pool = BlockPool(blocks, block_size, windows=windows)
    scheduler = Scheduler(pool, PolicySet.of(policies), max_model_len=blocks * block_size)
    engine = Engine(scheduler, FakeRunner(), clock or Clock())
    return engine, Telemetry(engine, bytes_per_token=8, attention_mode="none", wall=lambda: 1.0e9)


def request(num: int, prompt: list[int], max_tokens: int = 8, **more: object) -> Request:
    return Request(
        num=num,
        id=f"r-{num:04d}",
        token_ids=list(prompt),
        prompt_tokens=len(prompt),
        max_tokens=max_tokens,
        arrival_wall=1.0e9,
        arrival=100.0,
        **more,  # type: ignore[arg-type]
    )
