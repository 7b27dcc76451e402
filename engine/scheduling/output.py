"""What the scheduler decided in one iteration, and why: the facts that events, verdicts and replies are made of."""

from dataclasses import dataclass, field

from engine.memory.compaction import Move
from engine.memory.copies import Copied
from engine.policies.policy_set import PolicySet
from engine.requests.batch import BatchItem, BlockCopy
from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class Admission:
    """A waiting request began to run. ``cached`` tokens came from the prefix cache; ``waited`` seconds in the queue,
    this time; ``blocks`` in its table now, those of the cached tokens included."""

    request: Request
    cached: int
    blocks: int
    waited: float
    first: bool
    """Not an admission again after a preemption."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running request gave up its blocks and waits again. ``by`` caused it (None: a policy change or a command)."""

    victim: Request
    by: Request | None
    cause: str
    need_blocks: int | None
    """Blocks whoever caused it needed, None where blocks were not the cause."""
    free_blocks: int
    """Blocks available before."""
    tokens_lost: int
    """Computed tokens given up; some may be found in the prefix cache again."""
    blocks_released: int
    """Blocks that left its table, shared ones included."""
    seconds_lost: float
    """Since its latest admission, in which it computed what it gives up; 0 where it gives up nothing."""
    protection: str = ""
    """Whom the bound on preemptions spared, or that it could not spare anybody; empty where it changed nothing."""


@dataclass(frozen=True, slots=True)
class HeadVerdict:
    """Why the request at the head of the queue was not admitted. Fields and codes as in the protocol's Verdict."""

    request: Request
    code: str
    detail: str
    rule: str | None = None
    need_blocks: int | None = None
    available_blocks: int | None = None
    reserved_blocks: int | None = None
    watermark_blocks: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SchedulerOutput:
    """One iteration: run ``items``, then hand the sampled tokens to `Scheduler.commit`."""

    items: tuple[BatchItem, ...]
    token_budget: int
    copies: tuple[BlockCopy, ...] = ()
    """Done in their order before ``items`` are run."""
    copied: list[Copied] = field(default_factory=list)
    """Whom these give a block of its own, and why."""
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[Preemption] = field(default_factory=list)
    rejected: list[tuple[Request, str]] = field(default_factory=list)
    """Requests that ended while planning, and why: the pool can never hold what they need. They are finished."""
    notices: list[str] = field(default_factory=list)
    """Sentences about what else happened: a transition that ended."""
    verdict: HeadVerdict | None = None
    moves: list[Move] = field(default_factory=list)
    """Blocks that were moved together; their copies are among ``copies``."""
    retabled: list[Request] = field(default_factory=list)
    """Requests whose block tables name other blocks now."""
    compacted: str | None = None
    """How a command to compact ended, in a sentence, if one did."""
    evicted: int = 0
    """Cached blocks whose content was given up for new content."""

    @property
    def is_empty(self) -> bool:
        """Nothing to run and nothing to tell."""
        return not (
            self.items
            or self.copies
            or self.admitted
            or self.preempted
            or self.rejected
            or self.notices
            or self.compacted
        )


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A policy change that took effect: the sets before and after, what it did in sentences, whom it preempted."""

    old: PolicySet
    new: PolicySet
    effects: list[str]
    preempted: list[Preemption]
