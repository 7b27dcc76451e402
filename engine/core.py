"""The engine's heart: one `step` is schedule → run → commit. It knows nothing of viewers, sockets or clocks on walls."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from engine.requests.batch import Runner, StepOutput
from engine.requests.request import Request
from engine.scheduling.kv_switch import Storage
from engine.scheduling.output import Plan
from engine.scheduling.scheduler import Scheduler

TRANSFER_WAIT = 0.05
"""Seconds a step waits at most for a copy between tiers where nothing can run before; commands wait as long."""

BATCH_HISTORY = 512
"""Iterations of which the batch size is remembered (for snapshots)."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one iteration did. Durations in milliseconds, times in monotonic seconds."""

    iteration: int
    plan: Plan
    finished: list[Request]
    schedule_ms: float
    prepare_ms: float
    forward_ms: float
    sample_ms: float
    ended: float
    transfer_wait_ms: float = 0.0
    """Spent waiting for copies between tiers since the step before, because nothing could run until one ended."""


class Engine:
    """Drives a scheduler and a runner. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        clock: Callable[[], float] = time.monotonic,
        *,
        storage: Storage | None = None,
    ) -> None:
        """``storage``: what makes the KV memory anew in another element type; without it none is switched to."""
        self.scheduler = scheduler
        self.runner = runner
        self.storage = storage
        self.clock = clock
        self.iteration = 0
        self.batch_sizes: deque[int] = deque(maxlen=BATCH_HISTORY)
        self._waited = 0.0

    def step(self) -> Step | None:
        """One iteration; None when the scheduler found nothing to run.

        Preemptions and refusals can happen without anything to run; then there is a step with an empty batch.
        """
        began = self.clock()
        if self.storage is not None and self.scheduler.kv_switch_due:
            self.scheduler.switch_kv(self.storage, began)
            began = self.clock()
        plan = self.scheduler.schedule(began)
        planned = self.clock()
        if plan.is_empty and self.scheduler.waits_for_copies:
            self._waited += self._wait()
            began = self.clock()
            plan = self.scheduler.schedule(began)
            planned = self.clock()
        if plan.is_empty:
            return None
        self.iteration += 1
        waited, self._waited = self._waited, 0.0
        if plan.items and self.scheduler.tiers is not None:
            self.scheduler.tiers.went_on()
        output = StepOutput([])
        if plan.items or plan.copies:
            output = self.runner.run(plan.items, plan.copies)
        ended = self.clock()
        finished = self.scheduler.commit(plan, output.tokens, ended, output.candidates)
        self.batch_sizes.append(len(plan.items))
        committed = self.clock()
        schedule_ms = 1000.0 * ((planned - began) + (committed - ended))
        return Step(
            self.iteration,
            plan,
            finished,
            schedule_ms,
            output.prepare_ms,
            output.forward_ms,
            output.sample_ms,
            committed,
            waited,
        )

    def _wait(self) -> float:
        """Until a copy between tiers has ended; returns how many milliseconds that took."""
        tiers = self.scheduler.tiers
        if tiers is None:
            return 0.0
        began = self.clock()
        tiers.wait(TRANSFER_WAIT)
        ms = 1000.0 * (self.clock() - began)
        tiers.stalled(ms)
        return ms
