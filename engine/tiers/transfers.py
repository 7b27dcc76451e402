"""Copies between tiers under way: begun, handed to the mover, booked when they end. And what is told of the tiers.

A copy under way holds its device block (`BlockPool.hold`): whatever becomes of the requests meanwhile, the block is not
taken for anything else before the copy has ended. A slot is readable only when the copy into it is complete, and is not
taken for other content while it is read. What fails is reported and computed again; nothing else depends on it.

No clock and no bytes here: times come from the caller, bytes are the mover's.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.memory.copies import PendingCopies
from engine.memory.pool import BlockPool
from engine.tiers.books import FREE, TierBooks
from engine.tiers.fence import Fences
from engine.tiers.levels import Level, Traffic
from engine.tiers.mover import Address, Copy, CopyResult, CopyService
from engine.tiers.request_kv import TierNews

DEVICE = 0
NEWS_KEPT = 256


@dataclass(frozen=True, slots=True)
class _Flight:
    """A copy under way. ``ended`` is told its result and the time (monotonic seconds), once."""

    copy: Copy
    ended: Callable[[CopyResult, float], None]


class Transfers:
    """``books``: the tiers below the device from the fastest to the slowest, at least one. ``fences``: of the device
    whose blocks are copied. Not thread-safe."""

    def __init__(self, pool: BlockPool, books: Sequence[TierBooks], mover: CopyService, fences: Fences) -> None:
        self.pool = pool
        self.books = list(books)
        self.mover = mover
        self._fences = fences
        self.levels = [Level() for _ in range(len(books) + 1)]
        """By tier number, the device first."""
        self.traffic: dict[tuple[int, int], Traffic] = {}
        self.news: deque[TierNews] = deque(maxlen=NEWS_KEPT)
        """By tier numbers from and to, since the latest frame."""
        self.moved: dict[tuple[int, int], Traffic] = {}
        """The same since the start; stalls are counted by tier, in ``levels``."""
        self._stalled: set[int] = set()
        """Tiers for whose copies the batch waits now."""
        self._outbox: list[Copy] = []
        self._flights: dict[int, _Flight] = {}
        self._next = 0

    # Gauges

    @property
    def pending(self) -> int:
        """Copies under way."""
        return len(self._flights)

    @property
    def flights(self) -> list[Copy]:
        """The copies under way."""
        return [flight.copy for flight in self._flights.values()]

    def name(self, tier: int) -> str:
        return "device" if tier == DEVICE else self.books[tier - 1].name

    def named(self, name: str) -> TierBooks | None:
        """The books of the tier of that name; None where there is none."""
        return next((books for books in self.books if books.name == name), None)

    @property
    def room(self) -> int:
        """Copies that can begin now."""
        return self.mover.room - len(self._outbox)

    # Copies

    def begin(
        self, source: Address, target: Address, ended: Callable[[CopyResult, float], None], *, urgent: bool = False
    ) -> None:
        """A copy begins with the next `flush`; the caller has marked both its places. ``urgent``: a request waits for it."""
        copy = Copy(self._next, source, target, urgent)
        self._next += 1
        self._flights[copy.num] = _Flight(copy, ended)
        self._outbox.append(copy)

    def flush(self, within: PendingCopies) -> None:
        """Hand what was begun to the mover, if no copies ``within`` the device are planned and not done.

        This is where the order is kept, and there is no other way to the mover: copies within the device, then the batch,
        then copies between tiers. What the first write is to be copied out, and what they read may be taken for blocks
        that come in. That they were carried out means on a device that they are queued; so the mover waits for a fence.
        """
        if not self._outbox or within.planned():
            return
        fence = self._fences()
        for copy in self._outbox:
            self.mover.submit(replace(copy, after=fence))
        self._outbox.clear()

    def end_copies(self, now: float) -> None:
        """Book the copies that have ended, and tell those who began them."""
        for result in self.mover.poll():
            flight = self._flights.pop(result.copy.num)
            self._book(result)
            flight.ended(result, now)

    def wait(self, seconds: float) -> bool:
        """Until a copy has ended: only where nothing can run before that. False when none did in that time."""
        return self.mover.wait(seconds)

    def stalled(self, ms: float) -> None:
        """Nothing could run for that long because of copies under way: booked on the tiers they go to or come from. Told
        again before anything `went_on`, it is the same wait, which lasts."""
        lower = {max(copy.source.tier, copy.target.tier) for copy in self.flights}
        pairs = {(copy.source.tier, copy.target.tier) for copy in self.flights}
        for tier in lower:
            self.levels[tier].stall_ms += ms
        for tier in lower - self._stalled:
            self.levels[tier].stalls += 1
        for pair in pairs:
            self.traffic.setdefault(pair, Traffic()).stalls += max(pair) not in self._stalled
        self._stalled |= lower

    def went_on(self) -> None:
        """Something runs again: the next wait for a copy is another one."""
        self._stalled.clear()

    def close(self) -> None:
        self.mover.close()

    def reopen(self, mover: CopyService) -> None:
        """Go on with other stores, empty as the books are: no slot holds anything, and no copy is under way.

        Raises RuntimeError where that is not so.
        """
        if self.pending or any(books.counts[FREE] != books.slots for books in self.books):
            raise RuntimeError("the tiers are in use and cannot get other stores")
        self.mover = mover

    def tell(
        self,
        kind: str,
        tier: str,
        detail: str,
        *,
        severity: str = "info",
        num: int | None = None,
        blocks: int | None = None,
        tokens: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Something to be told to viewers; see `TierNews`."""
        self.news.append(TierNews(kind, tier, detail, severity, num, blocks, tokens, seconds))

    def _book(self, result: CopyResult) -> None:
        source, target = result.copy.source.tier, result.copy.target.tier
        if result.error is not None:
            self.levels[max(source, target)].failures += 1
            return
        self.levels[source].went_out(result.bytes, result.ms)
        self.levels[target].came_in(result.bytes, result.ms)
        for sums in (self.traffic, self.moved):
            traffic = sums.setdefault((source, target), Traffic())
            traffic.blocks += 1
            traffic.bytes += result.bytes
            traffic.ms += result.ms
