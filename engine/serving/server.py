"""The serving loop: commands, arrivals, one step, one frame. The only file of the engine that knows time and sockets."""

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.core import Engine
from engine.requests.request import FinishReason, Request
from engine.requests.retention import Retention
from engine.requests.sampling import Sampling
from engine.requests.stopping import StopRules
from engine.requests.stream import OutputStream
from engine.scheduling.admission import check_servable
from engine.serving.broadcast import Broadcast
from engine.serving.control import Control
from engine.serving.describe import after_switch
from engine.serving.flight import FlightFiles
from engine.serving.handle import RequestHandle
from engine.serving.inbox import Inbox
from engine.serving.meter import Meter
from engine.serving.names import RequestNames
from engine.serving.outlets import Outlets
from engine.serving.submission import Submission, Vocabulary
from engine.serving.telemetry import Telemetry
from engine.serving.watchdog import Limits, Trouble, Watchdog, facts_of
from engine.words import one_line
from engine.workload.arrivals import Arrival
from kvtop.publish import Publisher

if TYPE_CHECKING:
    from engine.model.tokenizer import TextTokenizer

AUDIT_S = 0.0006
"""Seconds an iteration is lengthened by a piece of the ledger's audit, or up to a millisecond more."""

IDLE_WAIT = 0.1
"""Seconds the loop sleeps at most when there is nothing to run."""


class EngineFailed(RuntimeError):
    """The engine cannot go on; the text says why in one line."""


class Server:
    """Owns the engine's thread. ``arrivals`` feeds a workload; with none the engine waits for requests. ``vocabulary``: what
    they may be written in; ``tokenizer``: how texts become that. ``expose_text``: viewers read what they say."""

    def __init__(
        self,
        engine: Engine,
        telemetry: Telemetry,
        publisher: Publisher,
        *,
        vocabulary: Vocabulary | None = None,
        tokenizer: "TextTokenizer | None" = None,
        arrivals: Iterator[Arrival] | None = None,
        expose_text: bool = False,
        queue_limit: int = 64,
        ledger_every: int = 64,
        watchdog: Limits | None = None,
    ) -> None:
        self.engine = engine
        self.telemetry = telemetry
        self.publisher = publisher
        self._flight = FlightFiles(publisher, telemetry.log)
        self.control = Control(engine, telemetry, publisher.hello.engine.run, self._flight)
        self.vocabulary = vocabulary or Vocabulary()
        self.tokenizer = tokenizer
        self._expose_text = expose_text
        self._inbox = Inbox(publisher.nudge)
        self._outlets = Outlets()
        self._arrivals = arrivals
        self._next = None if arrivals is None else next(arrivals, None)
        self._queue_limit = queue_limit
        self._ledger_every = ledger_every
        self._checked = self._audited = 0
        self._watchdog = Watchdog(watchdog or Limits())
        self._broadcast = Broadcast(telemetry, publisher)
        self.meter: Meter | None = None
        self._numbers = itertools.count()
        self._names = RequestNames()
        self._numbering = threading.Lock()
        self._began = engine.clock()
        self._held_back = 0.0
        self._turned: float | None = None
        self._drains = False
        # A plain attribute, no Event: `stop` is called from signal handlers, which can strike while this very thread holds
        # an Event's lock.
        self.stopping = False
        self.draining: str | None = None

    def measure(self) -> Meter:
        """From now on what happens is measured; before `run`, if nothing is to be missed."""
        if self.meter is None:
            self.meter = Meter(self.engine, self.telemetry, self.publisher)
        return self.meter

    @property
    def max_model_len(self) -> int:
        """Tokens that a request and its output have room for."""
        return self.engine.scheduler.max_model_len

    @property
    def queued(self) -> int:
        """Requests that wait to be admitted, those not taken up yet among them. From any thread."""
        return len(self.engine.scheduler.waiting) + self._inbox.coming

    @property
    def paused(self) -> bool:
        """By command: until it is resumed nobody gets a token. From any thread and from a signal handler."""
        return self.engine.scheduler.paused

    @property
    def stuck(self) -> str | None:
        """That it serves nobody though there is work, and why, in a sentence; None while it gets on. From any thread."""
        alarm, turned, limit = self.telemetry.alarm, self._turned, self._watchdog.limits.stall
        if turned is not None and 0.0 < limit < (silent := self.engine.clock() - turned):
            return f"an iteration has taken {silent:.0f} s so far"
        if alarm is not None and (alarm.severity == "error" or alarm.trouble is Trouble.PAUSED):
            return alarm.text
        return None

    def drain(self, why: str) -> None:
        """The workload feeds no more, and viewers are told ``why``. Safe from any thread and from a signal handler."""
        self.draining = why

    def stop(self) -> None:
        """Ends `run` after the current iteration. Safe from any thread and from a signal handler."""
        self.stopping = True

    def close(self, why: str = "the engine stopped") -> None:
        """Ends all outputs and the copies between tiers, and removes what lies on disk; after `run`. Safe to repeat."""
        self._hang_up(FinishReason.ABORT, why)
        self._broadcast.close()
        if (tiers := self.engine.scheduler.tiers) is not None:
            tiers.close()

    def submit(
        self,
        token_ids: Sequence[int],
        max_tokens: int,
        *,
        label: str | None = None,
        priority: int = 0,
        sampling: Sampling | None = None,
        stop: StopRules | None = None,
        retention: Sequence[Retention] = (),
        n: int = 1,
        cache_salt: str = "",
        beam: int | None = None,
        length_penalty: float = 1.0,
        arrival: float | None = None,
        request_id: str | None = None,
    ) -> RequestHandle:
        """Queue one request; returns its outputs as a stream. From any thread: the engine's own takes it up between two
        iterations.

        With ``n``, that many samples of its prompt are drawn, of which it is the first. It ends at ``max_tokens`` output
        tokens, at the model's end of sequence, or by its own ``stop`` rules. Requests find each other's KV in the prefix
        cache only with equal ``cache_salt``.

        With ``beam``, a beam search of that width (2 to 16): the request gets the best output, the others of its search
        the next best; ``length_penalty`` is the power of the number of output tokens by which a hypothesis'
        log-probability is divided. Nothing is sampled then, whatever ``sampling`` says.

        ``request_id``: what it is called; where a request that lives has that id, a number is added to it. Without one, its
        label and a number.

        ``arrival``: when it arrived, on the engine's clock, where that was before this call: its times count from then.

        Raises ValueError, in one sentence that names the field, for what could never be served, and
        `engine.serving.inbox.EngineStopped` when the engine serves no more.
        """
        submission = Submission(
            token_ids,
            max_tokens,
            label=label,
            priority=priority,
            sampling=sampling,
            stop=stop,
            retention=retention,
            n=n,
            cache_salt=cache_salt,
            beam=beam,
            length_penalty=length_penalty,
            arrival=arrival,
            request_id=request_id,
        )
        request = self._make(submission, readable=True)
        handle = RequestHandle(request, OutputStream(submission.requests), self._inbox.cancel)
        self._inbox.add(handle)
        return handle

    def _make(self, submission: Submission, *, readable: bool) -> Request:
        """A request that can be served; raises ValueError where none can be. Safe from any thread."""
        submission.check(self.vocabulary)
        now = self.engine.clock()
        arrival = now if submission.arrival is None else min(submission.arrival, now)
        with self._numbering:
            nums = [next(self._numbers) for _ in range(submission.requests)]
            request = submission.build(
                nums,
                self._names.free(submission.name(nums[0]), submission.requests),
                self.vocabulary,
                arrival=arrival,
                arrival_wall=time.time() - (now - arrival),
                readable=readable or self._expose_text,
            )
            self._names.note(request)
        check_servable(request, self.engine.scheduler.pool, self.max_model_len)
        return request

    def _queue(self, request: Request) -> None:
        self.engine.scheduler.add(request, self.engine.clock())
        self.telemetry.touch(request)

    def take_up(self) -> None:
        """Carry out what other threads asked for; `run` does it before every iteration."""
        for kind, handle in self._inbox.drain():
            request = handle.request
            if kind == "add":
                self._outlets.open(request, handle.stream)
                self._queue(request)
            else:
                self._cancel(handle)

    def _cancel(self, handle: RequestHandle) -> None:
        """Its client wants no more of it: all that still lives of it ends."""
        first = handle.request
        live = self.engine.scheduler.requests
        for num in range(first.num, first.num + first.siblings):
            if (request := live.get(num)) is not None:
                self.control.abort(request, "cancelled by its client")

    def run(self, seconds: float | None = None) -> None:
        """Serve until `stop`, or for ``seconds``. Raises `EngineFailed` when that cannot go on; nobody is left waiting for
        outputs after that or after a stop."""
        until = None if seconds is None else self.engine.clock() + seconds
        try:
            self._broadcast.open()
            while not self.stopping and (until is None or self.engine.clock() < until):
                self._turn()
        except EngineFailed as error:
            self._flight.crashed(str(error), self._broadcast.last_words)
            self._hang_up(FinishReason.ERROR, str(error))
            raise
        except Exception as error:
            why = f"the engine failed: {one_line(error)}"
            self._flight.crashed(why, self._broadcast.last_words)
            self._hang_up(FinishReason.ERROR, why)
            raise EngineFailed(why) from error
        finally:
            self._turned = None
        if self.stopping:
            self._hang_up(FinishReason.ABORT, "the engine stopped")

    def _hang_up(self, reason: FinishReason, why: str) -> None:
        """Nobody gets any more outputs, and this is why."""
        for _, handle in self._inbox.close(why):
            handle.stream.close(str(reason), why)
        self._outlets.close(reason, why)

    def _turn(self) -> None:
        publisher = self.publisher
        self._turned = self.engine.clock()
        for pending in publisher.commands():
            self.control.execute(pending)
        self.take_up()
        if self.draining is None:
            self._feed()
        elif not self._drains:
            self._drains = True
            self.telemetry.event("notice", severity="warn", detail=self.draining)
        step = self.engine.step()
        self._outlets.flush()
        self._tell_switches()
        self._check_ledger()
        self._watch()
        more = self._broadcast.tell(step, urgent=self._flight.urgent)
        self._flight.work()
        if self.meter is not None:
            self.meter.take(step)
        if step is not None and step.fatal is not None:
            raise EngineFailed(step.fatal)
        if step is None and not more and not self.stopping:
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
                submission = Submission(
                    arrival.prompt,
                    arrival.max_tokens,
                    label=arrival.label,
                    priority=arrival.priority,
                    sampling=arrival.sampling,
                    stop=arrival.stop,
                    retention=arrival.retention,
                    n=arrival.n,
                    beam=arrival.beam,
                    cache_salt=arrival.salt,
                    arrival=self._began + self._held_back + arrival.after,
                )
                self._queue(self._make(submission, readable=False))
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
                self.publisher.rehello(after_switch(hello, switch.new, switch.new_bytes))
            self.telemetry.kv_switched(switch, self.publisher.hello.geometry)

    def _check_ledger(self) -> None:
        """A piece of the audit, a round of which begins every ``ledger_every`` iterations if the one before is through."""
        audit, iteration = self.engine.scheduler.audit, self.engine.iteration
        if not self._ledger_every or iteration == self._audited:
            return
        if not audit.under_way and iteration - self._checked < self._ledger_every:
            return
        if not audit.under_way:
            self._checked = iteration
        self._audited = iteration
        began = time.perf_counter()
        found = audit.work(AUDIT_S)
        self.telemetry.ledger(found, ms=1000.0 * (time.perf_counter() - began))
        if found:
            self._flight.alarm(f"ledger: {found[0]}")

    def _watch(self) -> None:
        for notice in self._watchdog.look(facts_of(self.engine, self.engine.clock())):
            self.telemetry.log.watchdog(notice)
            if not notice.over:
                self._flight.alarm(f"watchdog: {notice.alarm.text}")
        self.telemetry.alarm = self._watchdog.alarm
