"""The serving loop: commands, arrivals, one step, one frame. The only file of the engine that knows time and sockets."""

import itertools
import time
from collections.abc import Iterator

from engine.core import Engine
from engine.requests.hypotheses import MAX_WIDTH, MIN_WIDTH
from engine.requests.request import Request, SamplingParams
from engine.requests.retention import Retention
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import MAX_SAMPLES, add_samples
from engine.serving.control import Control
from engine.serving.telemetry import Telemetry
from engine.serving.watchdog import Limits, Watchdog, facts_of
from engine.workload.arrivals import Arrival
from kvtop.publish import Publisher

IDLE_WAIT = 0.1
"""Seconds the loop sleeps at most when there is nothing to run."""


class Server:
    """Owns the engine's thread. ``arrivals`` feeds a workload; with none the engine waits for requests."""

    def __init__(
        self,
        engine: Engine,
        telemetry: Telemetry,
        publisher: Publisher,
        *,
        arrivals: Iterator[Arrival] | None = None,
        queue_limit: int = 64,
        ledger_every: int = 64,
        watchdog: Limits | None = None,
    ) -> None:
        self.engine = engine
        self.telemetry = telemetry
        self.publisher = publisher
        self.control = Control(engine, telemetry, publisher.hello.engine.run)
        self._arrivals = arrivals
        self._next = None if arrivals is None else next(arrivals, None)
        self._queue_limit = queue_limit
        self._ledger_every = ledger_every
        self._checked = 0
        self._watchdog = Watchdog(watchdog or Limits())
        self._numbers = itertools.count()
        self._began = engine.clock()
        self._held_back = 0.0
        # A plain attribute, no Event: `stop` is called from signal handlers, which can strike while this very thread holds
        # an Event's lock.
        self.stopping = False

    def stop(self) -> None:
        """Ends `run` after the current iteration. Safe from any thread and from a signal handler."""
        self.stopping = True

    def close(self) -> None:
        """Ends the copies between tiers and removes what lies on disk; after `run`."""
        if (tiers := self.engine.scheduler.tiers) is not None:
            tiers.close()

    def submit(
        self,
        token_ids: list[int],
        max_tokens: int,
        *,
        label: str | None = None,
        priority: int = 0,
        sampling: SamplingParams | None = None,
        retention: tuple[Retention, ...] = (),
        n: int = 1,
        cache_salt: str = "",
        beam: int | None = None,
        length_penalty: float = 1.0,
        arrival: float | None = None,
    ) -> Request:
        """Queue one request; with ``n``, that many samples of its prompt, of which it is the first. Requests find each
        other's KV in the prefix cache only with equal ``cache_salt``.

        With ``beam``, a beam search of that width (2 to 16): the request gets the best output, the others of its group
        the next best; ``length_penalty`` is the power of the number of output tokens by which a hypothesis'
        log-probability is divided. Nothing is sampled then, whatever ``sampling`` says.

        ``arrival``: when it arrived, on the engine's clock, where that was before this call: its times count from then.

        Raises ValueError where it can never be served.
        """
        if not 1 <= n <= MAX_SAMPLES:
            raise ValueError(f"{n} samples cannot be drawn from one prompt; choose 1 to {MAX_SAMPLES}")
        if beam is not None and (n != 1 or not MIN_WIDTH <= beam <= MAX_WIDTH):
            raise ValueError(f"a beam search has {MIN_WIDTH} to {MAX_WIDTH} beams and n=1, not {beam} and n={n}")
        num = next(self._numbers)
        now = self.engine.clock()
        arrived = now if arrival is None else min(arrival, now)
        request = Request(
            num=num,
            id=f"{label or 'r'}-{num:04d}",
            token_ids=token_ids,
            prompt_tokens=len(token_ids),
            max_tokens=max_tokens,
            arrival_wall=time.time() - (now - arrived),
            arrival=arrived,
            priority=priority,
            label=label,
            sampling=sampling or SamplingParams(),
            retention=retention,
            cache_salt=cache_salt,
        )
        if n > 1:
            add_samples(request, [next(self._numbers) for _ in range(n - 1)])
        if beam is not None:
            add_beams(request, [next(self._numbers) for _ in range(beam - 1)], length_penalty)
        self.engine.scheduler.add(request, now)
        self.telemetry.touch(request)
        return request

    def run(self, seconds: float | None = None) -> None:
        """Serve until `stop`, or for ``seconds``."""
        until = None if seconds is None else self.engine.clock() + seconds
        # The first iteration of a large model takes seconds; a viewer need not wait for it to see the empty pool.
        self.publisher.publish_keyframe(self.telemetry.keyframe())
        while not self.stopping and (until is None or self.engine.clock() < until):
            self._turn()

    def _turn(self) -> None:
        publisher, telemetry = self.publisher, self.telemetry
        for pending in publisher.commands():
            self.control.execute(pending)
        self._feed()
        step = self.engine.step()
        self._tell_switches()
        self._check_ledger()
        self._watch()
        if step is not None or telemetry.has_news:
            publisher.publish(telemetry.frame(step))
        if publisher.keyframe_due() or self.control.keyframe_wanted:
            self.control.keyframe_wanted = False
            publisher.publish_keyframe(telemetry.keyframe())
        if step is None and not self.stopping:
            # A step that waited for copies has waited enough.
            publisher.wait(0.0 if self.engine.scheduler.waits_for_copies else self._until_next())

    def _feed(self) -> None:
        """Submits what has arrived by now. While the queue is full, the workload's clock stands still."""
        now = self.engine.clock()
        while self._next is not None and self._arrivals is not None and self._next.after <= self._elapsed(now):
            if len(self.engine.scheduler.waiting) >= self._queue_limit:
                self._held_back = now - self._began - self._next.after
                return
            arrival = self._next
            try:
                self.submit(
                    arrival.prompt,
                    arrival.max_tokens,
                    label=arrival.label,
                    priority=arrival.priority,
                    sampling=arrival.sampling,
                    retention=arrival.retention,
                    n=arrival.n,
                    beam=arrival.beam,
                    cache_salt=arrival.salt,
                    arrival=self._began + self._held_back + arrival.after,
                )
            except ValueError as error:
                self.telemetry.event(
                    "notice", severity="warn", detail=f"refused a {arrival.label} request: {error}"[:1000]
                )
            self._next = next(self._arrivals, None)

    def _elapsed(self, now: float) -> float:
        return now - self._began - self._held_back

    def _until_next(self) -> float:
        if self._next is None:
            return IDLE_WAIT
        return min(IDLE_WAIT, max(0.01, self._next.after - self._elapsed(self.engine.clock())))

    def _tell_switches(self) -> None:
        done = self.engine.scheduler.kv_types.done
        while done:
            switch, hello = done.popleft(), self.publisher.hello
            if switch.error is None:
                changed = {"cache_dtype": switch.new, "bytes_per_token": switch.new_bytes}
                geometry = hello.geometry.model_copy(update=changed)
                self.publisher.rehello(hello.model_copy(update={"geometry": geometry}))
            self.telemetry.kv_switched(switch, self.publisher.hello.geometry)

    def _check_ledger(self) -> None:
        iteration = self.engine.iteration
        if self._ledger_every and iteration - self._checked >= self._ledger_every:
            self._checked = iteration
            began = time.perf_counter()
            violations = self.engine.scheduler.ledger_violations()
            self.telemetry.ledger(violations, ms=1000.0 * (time.perf_counter() - began))

    def _watch(self) -> None:
        for notice in self._watchdog.look(facts_of(self.engine, self.engine.clock())):
            self.telemetry.log.watchdog(notice)
        self.telemetry.alarm = self._watchdog.alarm
