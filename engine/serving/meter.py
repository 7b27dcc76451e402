"""What the engine has done, measured on its own thread and published once a turn as one value that never changes.

Whoever reads `Meter.reading` has one moment, the end of an iteration, without a lock. Levels and totals are those that
viewers get (`engine.serving.telemetry`); what is added here needs every iteration: how times and sizes are distributed, and
what happened under which policies.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from engine.core import Engine, Step
from engine.policies.policy_set import PolicySet, spell
from engine.requests.request import FinishReason, Request
from engine.serving.histogram import Counted, Histogram
from engine.serving.telemetry import Telemetry
from kvtop.protocol import Hello, TierLevel
from kvtop.publish import Publisher

_FIRST_TOKEN_S = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_TOKEN_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_PHASE_S = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
# All bounds that vLLM has are among these, so that its dashboards read both engines alike.

_BATCH = tuple(float(1 << power) for power in range(11))
_ITERATION_TOKENS = (1.0, *(float(1 << power) for power in range(3, 15)))

REQUEST_AXES = ("capacity", "order")
"""The policies that times of requests are told apart by: whom they let run, and when."""

TIMES: dict[str, tuple[float, ...]] = {
    "first_token": _FIRST_TOKEN_S,
    "between_tokens": _TOKEN_S,
    "per_token": _TOKEN_S,
    "queue": _PHASE_S,
    "prefill": _PHASE_S,
    "decode": _PHASE_S,
    "inference": _PHASE_S,
    "end_to_end": _PHASE_S,
}
"""Seconds of requests, by what passes in them: bounds of their histograms."""

COUNTS_BY_POLICY: dict[str, tuple[str, ...]] = {
    "admissions": ("order",),
    "preemptions": ("victim", "preempt_action"),
    "evictions": ("eviction",),
    "host_offload_bytes": ("offload",),
    "disk_offload_bytes": ("offload",),
}
"""Totals that are told apart by the policies that decide on them."""

PARTS = ("schedule", "prepare", "forward", "sample", "transfer_wait")

ByPolicy = tuple[tuple[str, str], ...]
"""Policies in force, as pairs of axis and value."""


class Reading(NamedTuple):
    """One moment of the engine, the end of its turn; all totals are since the start. Nobody changes any of it."""

    iteration: int
    hello: Hello
    paused: bool
    gauges: Mapping[str, int]
    """Levels, by the fields of the protocol's `Gauges`."""
    counters: Mapping[str, int]
    """Totals, by the fields of its `Counters`."""
    tiers: tuple[TierLevel, ...]
    policies: Mapping[str, str]
    """Value by axis, as it is written on a command line."""
    ended: Mapping[FinishReason, int]
    """Requests that ended."""
    prompt_tokens: int
    """Of the prompts that have been computed, those found in the prefix cache among them."""
    seconds: Mapping[str, float]
    """Where the time of iterations went, by `PARTS`."""
    times: Mapping[str, Mapping[ByPolicy, Counted]]
    """By `TIMES`: of first and further tokens when they came, of requests when they came to their end."""
    sizes: Mapping[str, Counted]
    by_policy: Mapping[str, Mapping[ByPolicy, int]]
    """By `COUNTS_BY_POLICY`."""


class _Timed:
    """One histogram for each set of policies that was in force."""

    def __init__(self, bounds: tuple[float, ...], key: ByPolicy) -> None:
        self._bounds = bounds
        self._all: dict[ByPolicy, Histogram] = {}
        self._told: dict[ByPolicy, Counted] = {}
        self._news = False
        self.under(key)

    def under(self, key: ByPolicy) -> None:
        """From now on these are in force."""
        self.tell()
        self._key = key
        self._now = self._all.setdefault(key, Histogram(self._bounds))
        self._told = {**self._told, key: self._now.counted()}

    def add(self, value: float, times: int = 1) -> None:
        self._now.add(value, times)
        self._news = True

    def tell(self) -> Mapping[ByPolicy, Counted]:
        """The same object while nothing was added; what was told before stays as it is."""
        if self._news:
            self._news = False
            self._told = {**self._told, self._key: self._now.counted()}
        return self._told


class _Divided:
    """A total, divided among the policies under which it rose."""

    def __init__(self, key: ByPolicy) -> None:
        self._total = 0
        self._told: dict[ByPolicy, int] = {}
        self.under(key)

    def under(self, key: ByPolicy) -> None:
        self._key = key
        self._told = {key: 0, **self._told}

    def tell(self, total: int) -> Mapping[ByPolicy, int]:
        if total != self._total:
            self._told = {**self._told, self._key: self._told[self._key] + total - self._total}
            self._total = total
        return self._told


class Meter:
    """Belongs to the engine's thread, but for `reading`, which may be read from any. From its making on it learns of
    requests' ends from ``telemetry``."""

    def __init__(self, engine: Engine, telemetry: Telemetry, publisher: Publisher) -> None:
        self._engine, self._telemetry, self._publisher = engine, telemetry, publisher
        self._set = engine.scheduler.policies
        self._policies = _spelled(self._set)
        key = self._key(REQUEST_AXES)
        self._times = {name: _Timed(bounds, key) for name, bounds in TIMES.items()}
        tokens = one_two_five(engine.scheduler.max_model_len)
        self._sizes = {
            "batch": Histogram(_BATCH),
            "iteration_tokens": Histogram(_ITERATION_TOKENS),
            "prompt": Histogram(tokens),
            "output": Histogram(tokens),
            "max_tokens": Histogram(tokens),
            "computed": Histogram(tokens),
            "samples": Histogram((1.0, 2.0, 5.0, 10.0, 20.0)),
            "preemptions": Histogram((0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)),
        }
        self._sizes_told = {name: each.counted() for name, each in self._sizes.items()}
        self._divided = {name: _Divided(self._key(axes)) for name, axes in COUNTS_BY_POLICY.items()}
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._ended = dict.fromkeys(FinishReason, 0)
        self._timed, self._sized = set[str](self._times), set[str]()
        """What there is news of."""
        self._times_told: Mapping[str, Mapping[ByPolicy, Counted]] = {}
        self._divided_told: Mapping[str, Mapping[ByPolicy, int]] = {}
        self._totals: tuple[int, ...] = ()
        self._prompt_tokens = self._tokens = 0
        telemetry.log.on_end = self._request_ended
        self.take(None)

    reading: Reading

    def take(self, step: Step | None) -> None:
        """Call it at the end of every turn, after telemetry learned of ``step``."""
        telemetry = self._telemetry
        self._follow_policies()
        counters = telemetry.totals()
        if step is not None and step.plan.items:
            self._add_step(step, counters["prefill_tokens"] + counters["decode_tokens"])
        totals = tuple([counters[name] for name in COUNTS_BY_POLICY])
        if totals != self._totals:
            self._totals = totals
            self._divided_told = {name: each.tell(counters[name]) for name, each in self._divided.items()}
        if self._timed:
            self._times_told = {**self._times_told, **{name: self._times[name].tell() for name in self._timed}}
            self._timed.clear()
        if self._sized:
            self._sizes_told = {**self._sizes_told, **{name: self._sizes[name].counted() for name in self._sized}}
            self._sized.clear()
        self.reading = Reading(
            self._engine.iteration,
            self._publisher.hello,
            self._engine.scheduler.paused,
            telemetry.levels(),
            counters,
            tuple(telemetry.tier_levels()),
            self._policies,
            self._ended,
            self._prompt_tokens,
            self._seconds,
            self._times_told,
            self._sizes_told,
            self._divided_told,
        )

    def _follow_policies(self) -> None:
        policies = self._engine.scheduler.policies
        if policies is self._set:
            return
        self._set, self._policies = policies, _spelled(policies)
        for name, divided in self._divided.items():
            divided.under(self._key(COUNTS_BY_POLICY[name]))
        for timed in self._times.values():
            timed.under(self._key(REQUEST_AXES))
        self._timed.update(self._times)
        self._totals = ()

    def _key(self, axes: tuple[str, ...]) -> ByPolicy:
        return tuple((axis, self._policies[axis]) for axis in axes)

    def _add_step(self, step: Step, tokens: int) -> None:
        items, at = step.plan.items, step.sampled
        self._seconds = {part: spent + getattr(step, f"{part}_ms") / 1000.0 for part, spent in self._seconds.items()}
        self._size("batch", len(items))
        self._size("iteration_tokens", tokens - self._tokens)
        self._tokens = tokens
        before = [each.request.token_before for each in items if each.request.last_token == at]
        for then, times in _counted(before):
            if then is not None:
                self._time("between_tokens", max(0.0, at - then), times)
                continue
            for item in items:
                for request in (item.request, *item.forks) if item.samples else ():
                    if request.token_before is None and request.first_token == at:
                        self._first_token(request)

    def _first_token(self, request: Request) -> None:
        self._time("first_token", request.ttft or 0.0)
        if request.first_sample in (None, request.num):
            self._prompt_tokens += request.prompt_tokens

    def _request_ended(self, request: Request) -> None:
        self._follow_policies()
        reason = request.finish_reason or FinishReason.STOP
        self._ended = {**self._ended, reason: self._ended[reason] + 1}
        if reason not in (FinishReason.STOP, FinishReason.LENGTH):
            return  # How long it took says nothing of the engine, or nothing of a whole request.
        spent = request.times
        self._time("queue", spent.queue)
        self._time("prefill", spent.prefill)
        self._time("decode", spent.decode)
        self._time("inference", spent.prefill + spent.decode)
        self._time("end_to_end", max(0.0, spent.since - request.arrival))
        if (per_token := request.tpot) is not None:
            self._time("per_token", per_token)
        self._size("prompt", request.prompt_tokens)
        self._size("output", request.output_tokens)
        self._size("max_tokens", request.max_tokens)
        self._size("computed", max(0, request.prompt_tokens - request.cached))
        self._size("samples", request.siblings)
        self._size("preemptions", request.preemptions)

    def _time(self, name: str, seconds: float, times: int = 1) -> None:
        self._times[name].add(seconds, times)
        self._timed.add(name)

    def _size(self, name: str, size: int) -> None:
        self._sizes[name].add(size)
        self._sized.add(name)


def _spelled(policies: PolicySet) -> dict[str, str]:
    return {axis: spell(value) for axis, value in policies.values().items()}


def _counted(moments: list[float | None]) -> Iterable[tuple[float | None, int]]:
    """Each with how often it is there. Mostly all are the same, and one look at each tells that several times faster."""
    if moments and moments.count(moments[0]) == len(moments):
        return [(moments[0], len(moments))]
    return Counter(moments).items()


def one_two_five(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20 … up to ``most``."""
    bounds, ten = [], 1
    while ten <= most:
        bounds += [float(factor * ten) for factor in (1, 2, 5) if factor * ten <= most]
        ten *= 10
    return tuple(bounds) or (1.0,)
