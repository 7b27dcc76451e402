"""The engine's heart: one `step` is schedule → run → commit. It knows nothing of viewers, sockets or clocks on walls."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from engine.requests.batch import DeviceLost, Runner, StepOutput
from engine.requests.request import Request
from engine.scheduling.kv_switch import Storage
from engine.scheduling.output import SchedulerOutput
from engine.scheduling.scheduler import Scheduler
from engine.words import counted, one_line

TRANSFER_WAIT = 0.05
"""Seconds a step waits at most for a copy between tiers where nothing can run before; commands wait as long."""

MAX_FAILED_STEPS = 8
"""Iterations in a row that fail twice each before the engine gives up: it would only end one request after the other."""

BATCH_HISTORY = 512
"""Iterations of which the batch size is remembered (for snapshots)."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one iteration did. Durations in milliseconds, times in monotonic seconds."""

    iteration: int
    plan: SchedulerOutput
    finished: list[Request]
    schedule_ms: float
    prepare_ms: float
    forward_ms: float
    sample_ms: float
    ended: float
    transfer_wait_ms: float = 0.0
    """Spent waiting for copies between tiers since the step before, because nothing could run until one ended."""
    faults: tuple[str, ...] = ()
    """What went wrong in the batch as a whole, a sentence each; where it could not be repeated, ``finished`` has all that
    ran in it."""
    fatal: str | None = None
    """Why no further iteration would be of use, in a sentence."""
    sampled: float = 0.0
    """When its tokens came: the time that their requests book."""


@dataclass(slots=True)
class Attempt:
    """How computing one batch went."""

    output: StepOutput = field(default_factory=lambda: StepOutput([]))
    copied: bool = False
    """The plan's copies were carried out."""
    failed: bool = False
    device_lost: bool = False
    faults: list[str] = field(default_factory=list)

    def fail(self, what: str, error: Exception) -> None:
        self.failed = True
        self.device_lost = isinstance(error, DeviceLost)
        self.faults.append(f"{what}: {one_line(error)}")


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
        self.failed_steps = 0
        """Iterations in a row whose batch could not be computed."""
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
        attempt = self._attempt(plan)
        output = attempt.output
        ended = self.clock()
        if attempt.failed:
            finished = self.scheduler.abandon(plan, attempt.faults[-1], ended, copied=attempt.copied)
        else:
            finished = self.scheduler.commit(plan, output, ended)
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
            tuple(attempt.faults),
            self._fatal(plan, attempt),
            ended,
        )

    def _attempt(self, plan: SchedulerOutput) -> Attempt:
        """Computes the batch, a second time where the first fails.

        Items can be computed again: they write where nothing is read yet. Copies cannot, since the source of one may have
        been overwritten by a later one; so they are carried out first, by themselves.
        """
        attempt = Attempt()
        try:
            if plan.copies:
                attempt.output = self.runner.run((), plan.copies)
            attempt.copied = True
        except Exception as error:
            what = f"copying {counted(len(plan.copies), 'block')} failed"
            attempt.fail(f"{what}, so all that runs ends and the prefix cache, pins too, is emptied", error)
            return attempt
        while plan.items:
            try:
                output = self.runner.run(plan.items)
                attempt.output = replace(output, prepare_ms=attempt.output.prepare_ms + output.prepare_ms)
                attempt.failed = False
                break
            except Exception as error:
                again = attempt.failed
                batch = f"the batch of {counted(len(plan.items), 'request')} failed"
                attempt.fail(f"{batch} {'again' if again else 'and is repeated'}", error)
                if again or attempt.device_lost:
                    break
        return attempt

    def _fatal(self, plan: SchedulerOutput, attempt: Attempt) -> str | None:
        if not attempt.failed:
            self.failed_steps = 0 if plan.items else self.failed_steps
            return None
        self.failed_steps += 1
        if attempt.device_lost:
            return f"the device is lost: {attempt.faults[-1]}"
        if self.failed_steps >= MAX_FAILED_STEPS:
            return f"{self.failed_steps} iterations in a row failed, the last so: {attempt.faults[-1]}"
        return None

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
