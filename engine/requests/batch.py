"""What the scheduler asks of the model in one iteration, and what it gets back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.requests.logprobs import TokenLogprob
from engine.requests.request import Request


# Nobody changes one; not frozen, because that makes one cost twice as much, and every running request gets one a step.
@dataclass(slots=True)
class BatchItem:
    """Compute the KV of positions ``start … start+count-1`` of ``request``.

    ``samples``: these reach the end of its known tokens, so the next token is sampled. ``forks``: further samples of
    its prompt, whose first tokens are drawn from the same logits. ``candidates``: of a beam so many of the likeliest next
    tokens are wanted, and none is drawn. ``decodes``: the request was in decode when this was planned; after a preemption
    it is not before all it had is computed again, its outputs included. ``proposed``: tokens that somebody expects to
    follow the known ones. The last of the ``count`` positions are theirs; a token is sampled behind the known ones and
    behind each of these, and as many are kept as were expected rightly, and one more.
    """

    request: Request
    start: int
    count: int
    samples: bool
    forks: tuple[Request, ...] = ()
    candidates: int = 0
    decodes: bool = False
    proposed: tuple[int, ...] = ()

    @property
    def known(self) -> int:
        """Of its positions, those of tokens that the request has."""
        return self.count - len(self.proposed)

    @property
    def token_ids(self) -> list[int]:
        """The tokens at its positions."""
        return [*self.request.token_ids[self.start : self.start + self.known], *self.proposed]

    @property
    def rows(self) -> range:
        """The positions whose logits are wanted."""
        end = self.start + self.count
        return range(end - 1 - len(self.proposed), end) if self.samples else range(0)

    @property
    def draws(self) -> int:
        """How many tokens it adds to `StepOutput.tokens`."""
        return 0 if not self.samples or self.candidates else 1 + (len(self.proposed) or len(self.forks))

    @property
    def drawing(self) -> tuple[Request, ...]:
        """Whose token each is that this item adds to `StepOutput.tokens`, in their order: with ``proposed`` ones all its
        own, from one row after the other, else one for each sample of its prompt, all from one row."""
        if not self.samples or self.candidates:
            return ()
        return (self.request,) * (1 + len(self.proposed)) if self.proposed else (self.request, *self.forks)


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
    proposed: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """By num of the request, tokens that are expected to follow those that it has with these."""
    logprobs: Mapping[int, TokenLogprob] = field(default_factory=dict)
    """By place in ``tokens``, of those whose requests asked for them."""


class DeviceLost(RuntimeError):
    """Nothing can be computed on the device any more, by this process."""


class Runner(Protocol):
    """Runs one batch. The real one holds a model and a KV cache; tests and the simulator bring their own.

    A row that fails is told in the output. An exception means that the batch as a whole came to nothing: it may be run
    again, unless it is `DeviceLost`.
    """

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput: ...
