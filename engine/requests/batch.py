"""What the scheduler asks of the model in one iteration, and what it gets back."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class BatchItem:
    """Compute the KV of positions ``start … start+count-1`` of ``request``.

    ``samples``: these reach the end of its known tokens, so the next token is sampled. ``forks``: further samples of
    its prompt, whose first tokens are drawn from the same logits. ``candidates``: of a beam so many of the likeliest next
    tokens are wanted, and none is drawn. ``decodes``: the request was in decode when this was planned; after a preemption
    it is not before all it had is computed again, its outputs included.
    """

    request: Request
    start: int
    count: int
    samples: bool
    forks: tuple[Request, ...] = ()
    candidates: int = 0
    decodes: bool = False

    @property
    def drawing(self) -> tuple[Request, ...]:
        """Those that get a token each from this item, in the order of `StepOutput.tokens`."""
        return (self.request, *self.forks) if self.samples and not self.candidates else ()


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """The KV of the first ``tokens`` slots of block ``source`` goes to ``target``, before anything else of the batch.

    What ``target`` held is lost. Copies of one batch happen in their order: a target may be the source of a later one.
    """

    source: int
    target: int
    tokens: int


@dataclass(frozen=True, slots=True)
class StepOutput:
    """One token id for each of every item's ``drawing``, in the batch's order; times in milliseconds: laying out the batch and copying
    blocks for it, the model's forward pass, choosing tokens.

    ``candidates``: for each item that wants some, tokens with their log-probabilities (nats), likeliest first, of equals
    the lower token; fewer where the vocabulary has no more. ``failures``: requests whose rows came to nothing, by num, and
    why, in a sentence; what stands for them in ``tokens`` and ``candidates`` means nothing.
    """

    tokens: list[int]
    forward_ms: float = 0.0
    sample_ms: float = 0.0
    candidates: list[list[tuple[int, float]]] = field(default_factory=list)
    prepare_ms: float = 0.0
    failures: dict[int, str] = field(default_factory=dict)


class DeviceLost(RuntimeError):
    """Nothing can be computed on the device any more, by this process."""


class Runner(Protocol):
    """Runs one batch. The real one holds a model and a KV cache; tests and the simulator bring their own.

    A row that fails is told in the output. An exception means that the batch as a whole came to nothing: it may be run
    again, unless it is `DeviceLost`.
    """

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput: ...
