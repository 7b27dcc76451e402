"""Sends a plan: at the times of an arrival process, whatever has become of the requests before, or in a closed loop.

It knows nothing of HTTP: whoever calls it says how one request is sent.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvtop.load.arrivals import Arrivals, Closed
from kvtop.load.plan import Plan, Session, Turn
from kvtop.load.prompts import prompt_tokens
from kvtop.load.sample import Failure, Sample

MADE_READY_AT_FIRST = 64
MOST_READY = 256
"""Requests whose bodies are made before they are due."""

IDLE = 0.01
"""Seconds without anything due in which the next body is made."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.8
"""Seconds that a user of a closed loop waits after a request that failed, and at most after several in a row."""

Said = tuple[tuple[str, str], ...]
"""What went before in a session: texts of who, ``user`` or ``assistant``."""


class Exchange(Protocol):
    """One request with what is needed to send it made ready beforehand, so that sending it takes no time."""

    async def send(self, sample: Sample, clock: Callable[[], float]) -> Said:
        """Fills in what came of it; returns what the session has said by then. Never raises but for cancellation."""


Prepare = Callable[[Session, Turn, Said], Exchange]


@dataclass(frozen=True, slots=True)
class Limits:
    """``seconds`` in which requests are begun, ``requests`` that are begun (None: as many as come), ``patience`` seconds
    for answers that are still to come then, ``open_requests`` at one time: what comes above is not sent, and counted."""

    seconds: float
    requests: int | None = None
    patience: float = 30.0
    open_requests: int = 1000
    warmup_seconds: float = 0.0
    warmup_requests: int = 0


@dataclass
class Tally:
    """How the run stands, for who watches it."""

    began: float
    limits: Limits
    samples: list[Sample] = field(default_factory=list)
    open_now: int = 0
    most_open: int = 0
    issuing: bool = True
    issued_until: float = 0.0
    """When the last request could have been begun."""
    all_answered: bool = False
    """Whether everything that was to be sent has been, and has come to its end, before the time was up."""
    elapsed: float = 0.0
    """Seconds since it began, when it was last looked at."""
    overdue: int = 0
    """Requests of an open loop that fell due before that, and for which the client came too late to begin them; those of the
    warm-up left out."""
    stopped: bool = False
    """Whether it was asked to end before its time."""


class Driver:
    """One run. `run` may be awaited once; `stop` ends it early, and it then returns what there is."""

    def __init__(self, plan: Plan, arrivals: Arrivals, prepare: Prepare, limits: Limits, seed: int) -> None:
        self._plan = plan
        self._arrivals = arrivals
        self._prepare = prepare
        self._limits = limits
        self._seed = seed
        self._sessions = enumerate(plan.sessions())
        times = iter(()) if isinstance(arrivals, Closed) else arrivals.times(seed)
        self._coming = zip(times, self._sessions, strict=False)
        self._ready: deque[tuple[float, int, Session, Exchange]] = deque()
        self._index = itertools.count()
        self._issued = 0
        self._begun = 0
        self._tasks: set[asyncio.Task[int | None]] = set()
        self._stop = asyncio.Event()
        self.tally = Tally(0.0, limits)

    async def run(self) -> Tally:
        self._loop = asyncio.get_running_loop()
        while not isinstance(self._arrivals, Closed) and len(self._ready) < MADE_READY_AT_FIRST and self._make_ready():
            pass
        self.tally.began = self._loop.time()
        working = asyncio.create_task(self._work())
        asked = asyncio.create_task(self._asked())
        try:
            await asyncio.wait({working, asked}, timeout=self._limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            self.tally.issuing = False
            self.tally.issued_until = min(self.now, self._limits.seconds)
            self.tally.all_answered = working.done()
            if working.done():
                working.result()
            await _cancelled({working})
            self.tally.overdue = self._overdue()
            waiting = set(self._tasks)
            if waiting and not self._stop.is_set():
                ended = asyncio.create_task(_all(waiting))
                await asyncio.wait({ended, asked}, timeout=self._limits.patience, return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(self._tasks)
        finally:
            await _cancelled({working, asked, *self._tasks})
        return self.tally

    def stop(self) -> None:
        self.tally.stopped = True
        self._stop.set()

    def look(self) -> Tally:
        self.tally.elapsed = self.now
        return self.tally

    async def _asked(self) -> None:
        await self._stop.wait()

    @property
    def now(self) -> float:
        """Seconds since the load began."""
        return self._loop.time() - self.tally.began

    async def _work(self) -> None:
        """Until there is nothing more to begin and nothing more to come."""
        if isinstance(self._arrivals, Closed):
            await self._closed(self._arrivals)
        else:
            await self._open()
        while self._tasks:
            await _all(set(self._tasks))

    async def _open(self) -> None:
        """Begins each session at its time. What is to be sent is made ready before that, while nothing is due."""
        while self._ready or self._make_ready():
            when, number, session, exchange = self._ready.popleft()
            if self._enough():
                return
            if when >= self._limits.seconds:
                await self._until(self._limits.seconds)
                return
            while len(self._ready) < MOST_READY and when - self.now > IDLE and self._make_ready():
                await asyncio.sleep(0)
            await self._until(when)
            self._issued += 1
            self._begun += 1
            self._begin(self._converse(number, session, when, exchange))

    def _make_ready(self) -> bool:
        """The next session to come in an open loop; False: there is none."""
        for when, (number, session) in self._coming:
            self._ready.append((when, number, session, self._prepare(session, session.turns[0], ())))
            return True
        return False

    async def _closed(self, arrivals: Closed) -> None:
        streams = {asyncio.create_task(self._stream()) for _ in range(arrivals.streams)}
        try:
            for stream in asyncio.as_completed(streams):
                await stream
        finally:
            for stream in streams:
                stream.cancel()

    async def _stream(self) -> None:
        """One user. A conversation that has begun is not ended by the end of the issuing: it stands among the tasks.

        Where a request fails at once, the next would follow at once, and a dead server be asked a thousand times a second."""
        failures = 0
        while not self._enough() and (taken := next(self._sessions, None)) is not None:
            number, session = taken
            self._issued += 1
            first = self._prepare(session, session.turns[0], ())
            task = self._begin(self._converse(number, session, self.now, first))
            await asyncio.wait({task})
            answered = task.result()
            failures = 0 if answered is None else 1 if answered else failures + 1
            if failures and not self._enough():
                await asyncio.sleep(pause_after(failures))

    async def _converse(self, number: int, session: Session, due: float, exchange: Exchange) -> int | None:
        """The turns of a session, one after the other; a turn that fails is the last one.

        Returns how many were answered before one that failed; None where none did."""
        said: Said = ()
        for count, turn in enumerate(session.turns):
            if count:
                if not self.tally.issuing or self._enough():
                    return None
                due = self.now + turn.think
                exchange = self._prepare(session, turn, said)
                await self._until(due)
                if not self.tally.issuing or self._enough():
                    return None
                self._issued += 1
            sample = self._sample(number, session, count, due)
            said = await self._exchange(exchange, sample)
            if not sample.ok:
                return count
        return None

    async def _exchange(self, exchange: Exchange, sample: Sample) -> Said:
        tally = self.tally
        tally.samples.append(sample)
        if tally.open_now >= self._limits.open_requests:
            sample.failure = Failure.CLIENT_LIMIT
            sample.detail = f"{tally.open_now} requests were open already"
            return ()
        tally.open_now += 1
        tally.most_open = max(tally.most_open, tally.open_now)
        try:
            sample.sent = self.now
            return await exchange.send(sample, lambda: self.now)
        except asyncio.CancelledError:
            sample.failure = Failure.UNFINISHED
            raise
        finally:
            tally.open_now -= 1

    def _sample(self, number: int, session: Session, count: int, due: float) -> Sample:
        turns = session.turns[: count + 1]
        before = sum(turn.output for turn in turns[:-1])
        asked = prompt_tokens(session.head) + sum(prompt_tokens(turn.user) for turn in turns) + before
        sample = Sample(next(self._index), session.label, number, count, due, asked, turns[-1].output * session.samples)
        sample.choices = session.samples
        sample.warmup = due < self._limits.warmup_seconds or sample.index < self._limits.warmup_requests
        return sample

    def _begin(self, conversation: Coroutine[None, None, int | None]) -> asyncio.Task[int | None]:
        task = asyncio.create_task(conversation)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _overdue(self) -> int:
        """Counts times, which costs nothing beside requests."""
        if isinstance(self._arrivals, Closed):
            return 0
        most = self._limits.requests
        left = None if most is None else self._begun + max(0, most + self._limits.warmup_requests - self._issued)
        times = itertools.islice(self._arrivals.times(self._seed), self._begun, left)
        due = itertools.takewhile(lambda when: when < self.tally.issued_until, times)
        return sum(when >= self._limits.warmup_seconds for when in due)

    def _enough(self) -> bool:
        most = self._limits.requests
        return most is not None and self._issued >= most + self._limits.warmup_requests

    async def _until(self, when: float) -> None:
        """Gives way to the others even where the time has come, so that what falls due is sent when it falls due."""
        await asyncio.sleep(max(0.0, when - self.now))


def pause_after(failures: int) -> float:
    """Seconds to wait after so many failures in a row, from 1 on."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(failures - 1, 16)))


async def _all(tasks: set[asyncio.Task[int | None]]) -> None:
    await asyncio.wait(tasks)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in list(tasks):
        task.cancel()
    for task in list(tasks):
        with suppress(asyncio.CancelledError):
            await task
