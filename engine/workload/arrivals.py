"""What drives the demo: a mix of requests, scaled to the model and the pool, arriving at random with a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from kvtop.mixes import GROUPS, STANDARD, TEMPERATURE, Mix, RequestClass, Scale

SENTENCES = (
    "The night train was late again, and nobody on the platform seemed surprised.",
    "A good cache remembers what was asked and forgets what was not.",
    "Please explain how the tide tables for this harbour are computed.",
    "Our garden has two apple trees, one of which refuses to bear fruit.",
    "Write a short poem about a lighthouse keeper who collects stamps.",
    "The recipe calls for three eggs, a cup of flour and a little patience.",
    "Which of the following numbers is prime, and how would you prove it?",
    "Summarise the meeting: the budget was agreed, the date was not.",
    "He tuned the old piano by ear and let the last key stay flat.",
    "What is the difference between a queue and a stack, in plain words?",
    "The bridge was closed for repairs, so the whole town learned to row.",
    "Translate the sign above the bakery: fresh bread until it is gone.",
    "In the second experiment the temperature was held at forty degrees.",
    "Her letter described the mountain, the weather and the price of cheese.",
    "List the steps to replace a bicycle tube without any special tools.",
    "The museum keeps one room dark, because the map in it is so old.",
)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request to come: ``after`` seconds from the start of the workload; the rest as in `engine.serving.submission.Submission`."""

    after: float
    label: str
    prompt: list[int]
    max_tokens: int
    priority: int
    retention: tuple[Retention, ...] = ()
    n: int = 1
    sampling: Sampling | None = None
    salt: str = ""
    beam: int | None = None
    stop: StopRules | None = None


class MixWorkload:
    """An endless, seeded sequence of arrivals (exponential gaps, ``rate`` a second; the first few come at once)."""

    def __init__(
        self,
        encode: Callable[[str], list[int]],
        scale: Scale,
        *,
        rate: float,
        seed: int,
        mix: Mix = STANDARD,
        burst: int = 6,
        groups: int = GROUPS,
    ) -> None:
        if rate <= 0:
            raise ValueError(f"rate {rate} must be above 0 requests/s")
        self.mix = mix
        self.scale = scale
        self.rate = rate
        self.seed = seed
        self._burst = burst
        self._random = random.Random(seed)
        self._sentences = [encode(" " + s) for s in SENTENCES]
        self._prefixes = [self._words(random.Random(seed + 1 + g), self._scaled(mix.shared)) for g in range(groups)]

    def describe(self) -> str:
        """One line for the screen: the classes, the scale, the rate, the seed."""
        classes = ", ".join(f"{c.label} {c.prompt // 1000}k+{c.output}" for c in self.mix.classes)
        return (
            f"{self.mix.name} {classes} ({self.mix.note}); {self.scale.describe()}; "
            f"{self.rate:.2g} requests/s, seed {self.seed}"
        )

    def arrivals(self) -> Iterator[Arrival]:
        when = 0.0
        classes = self.mix.classes
        weights = [c.weight for c in classes]
        count = 0
        while True:
            yield self._arrival(when, self._random.choices(classes, weights)[0], count)
            count += 1
            if count >= self._burst:
                when += self._random.expovariate(self.rate)

    def _arrival(self, when: float, kind: RequestClass, count: int) -> Arrival:
        head = self._scaled(kind.shared)
        kept = () if kind.keep is None else (Retention(0, head, kind.keep, kind.keep_seconds),)
        return Arrival(
            when,
            kind.label,
            self._prompt(kind),
            max(2, round(kind.output * self.scale.output)),
            kind.priority,
            kept,
            kind.samples,
            Sampling(temperature=TEMPERATURE, seed=self.seed + count) if kind.samples > 1 else None,
            # No number is drawn where there are no tenants: the mix without them stays as it is.
            f"tenant {self._random.randrange(kind.tenants)}" if kind.tenants else "",
            kind.beams,
        )

    def _scaled(self, tokens: int) -> int:
        return max(1, round(tokens * self.scale.prompt))

    def _prompt(self, kind: RequestClass) -> list[int]:
        length = self._scaled(kind.prompt)
        head = self._random.choice(self._prefixes)[: self._scaled(kind.shared)] if kind.shared else []
        return head + self._words(self._random, length - len(head))

    def _words(self, rng: random.Random, count: int) -> list[int]:
        tokens: list[int] = []
        while len(tokens) < count:
            tokens += rng.choice(self._sentences)
        return tokens[:count]
