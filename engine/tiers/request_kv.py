"""What the tiers keep for one request: its state while it is swapped out, and the copies that bring blocks to it."""

from dataclasses import dataclass, field

from engine.memory.prefix import NO_HASH
from engine.tiers.books import TierBooks


@dataclass(slots=True, eq=False)
class Swapped:
    """The KV of a request that gave up its device blocks. ``slots[i]`` of ``books`` holds block ``i`` of its table,
    ``tokens`` tokens in all; ``hashes[i]`` is the hash under which it could be found (`NO_HASH`: under none).

    ``leaving``: copies out still under way; until there are none, nothing of it may be read. ``first_lost``: the first
    block whose copy failed. ``dead``: the request is gone; slots become free as their copies end.
    """

    num: int
    books: TierBooks
    slots: list[int]
    tokens: int
    hashes: list[int]
    since: float
    leaving: int = 0
    first_lost: int | None = None
    dead: bool = False

    def forget_hashes(self) -> None:
        self.hashes = [NO_HASH] * len(self.hashes)


@dataclass(slots=True, eq=False)
class Loading:
    """Blocks on their way to the device for request ``num``: places ``first … first+len(slots)-1`` of its table.

    ``tokens``: how many it has when all arrive. ``first_lost``: the first place whose copy failed. ``cancelled``: the
    request gave up its blocks meanwhile; nobody waits any more.
    """

    num: int
    books: list[TierBooks]
    slots: list[int]
    first: int
    tokens: int
    hashes: list[int]
    since: float
    swapped: Swapped | None = None
    """Set where this is a swapped request's own state; otherwise the blocks come from the prefix cache of the tiers."""
    arriving: int = 0
    first_lost: int | None = None
    cancelled: bool = False
    errors: list[str] = field(default_factory=list)

    def forget_hashes(self) -> None:
        self.hashes = [NO_HASH] * len(self.hashes)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load has ended. The first ``blocks`` of what was asked for came; ``tokens`` tokens of the request have their
    KV on the device now. ``lost``: blocks that did not come back."""

    num: int
    first: int
    blocks: int
    tokens: int
    hashes: list[int]
    lost: int
    swapped: bool
    tier: str
    seconds: float
    """Since the request was swapped out, or since the load began."""


@dataclass(frozen=True, slots=True)
class TierNews:
    """Something to be told: an event's kind, tier and facts, as in the protocol. ``detail`` is empty where they say all."""

    kind: str
    tier: str
    detail: str
    severity: str = "info"
    num: int | None = None
    blocks: int | None = None
    tokens: int | None = None
    seconds: float | None = None
