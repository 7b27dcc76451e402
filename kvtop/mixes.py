"""The mixes of requests that drive the demo and the load generator: which kinds, how long at full scale, how often."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestClass:
    """One kind of request at full scale. ``shared`` prompt tokens are common to all of a group."""

    label: str
    prompt: int
    output: int
    weight: float
    priority: int = 0
    shared: int = 0
    keep: int | None = None
    """Retention priority of the shared tokens; None: they are worth as much as any."""
    keep_seconds: float | None = None
    """How long that lasts after each use; None: without end."""
    samples: int = 1
    """Outputs drawn from the prompt; above 1 at temperature `TEMPERATURE`, so that they differ."""
    beams: int | None = None
    """Width of the beam search for its output; None: it is sampled."""
    tenants: int = 0
    """Clients that must not find each other's KV: each has a cache salt of its own. 0: no salt."""


TEMPERATURE = 0.8

GROUPS = 2
"""Groups of a workload, each with a shared prefix of its own."""


@dataclass(frozen=True, slots=True)
class Mix:
    """``note`` explains the classes on the screen. ``load``: requests offered in the time of one full iteration."""

    name: str
    classes: tuple[RequestClass, ...]
    note: str
    load: float

    @property
    def shared(self) -> int:
        """Tokens of the longest prompt head that a group has in common."""
        return max(c.shared for c in self.classes)


STANDARD = Mix(
    "mix",
    (
        RequestClass("A", 1_000, 100, 0.30, priority=0),
        RequestClass("B", 8_000, 800, 0.20, priority=1),
        RequestClass("C", 2_000, 50, 0.15, priority=0),
        RequestClass("D", 16_000, 200, 0.10, priority=2),
        RequestClass("S", 5_000, 300, 0.25, priority=1, shared=4_000, keep=80),
    ),
    note="S: shared prefix",
    load=0.8,
)
"""Four classes that are usual for comparing schedulers, and chats that share a long system prompt with others of their
group, which is worth keeping: under ``eviction=priority`` it outlives the rest of the cache."""

SHARING = Mix(
    "sharing",
    (
        # Its prompt ends inside a block at the scales in use: samples that go on from there copy it first.
        RequestClass("N", 3_100, 400, 0.25, samples=3),
        RequestClass("W", 2_100, 200, 0.15, beams=4),
        RequestClass("K", 5_000, 200, 0.20, priority=1, shared=4_000, keep=80, keep_seconds=20.0),
        RequestClass("T", 5_000, 200, 0.20, priority=1, shared=4_000, tenants=3),
        RequestClass("L", 12_000, 100, 0.20),
    ),
    note="N: 3 samples each; W: 4 beams; K: shared prefix kept 20 s; T: shared prefix, apart for 3 tenants",
    load=0.4,
)
"""What blocks can be shared, forked, taken over, copied and kept for, and long prompts that push everything else out."""

MIXES: Mapping[str, Mix] = {mix.name: mix for mix in (STANDARD, SHARING)}


@dataclass(frozen=True, slots=True)
class Scale:
    """Factors applied to the classes' prompt and output tokens so that they fit this pool and this machine."""

    prompt: float
    output: float

    @classmethod
    def of_prompts(cls, factor: float) -> "Scale":
        """Outputs shrink less than prompts: it is growth while running that makes requests outgrow the pool together."""
        return cls(prompt=factor, output=min(1.0, factor * 8))

    def describe(self) -> str:
        return f"prompts x1/{round(1 / self.prompt)}, outputs x1/{round(1 / self.output)}"


def scale_for(pool_tokens: float, context: int, mix: Mix = STANDARD) -> Scale:
    """The scale at which the largest class takes about a fifth of the pool (and fits the context)."""
    largest = max(c.prompt for c in mix.classes)
    prompt = min(pool_tokens / 5, context * 0.8) / largest
    return Scale.of_prompts(min(1.0, prompt))
