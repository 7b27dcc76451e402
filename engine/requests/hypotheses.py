"""The choices of a beam search: which beams go on, which are finished, and when no better one can come. Pure.

After vLLM's beam search (``vllm.entrypoints.llm.LLM.beam_search``): every beam gives its ``2 * width`` likeliest next
tokens; those that end with a stop token are set aside, whatever their rank; of the others the ``width`` likeliest go on;
at the end finished and live ones are ranked together by log-probability over length to the power of the penalty. Two
things differ. Length counts the output tokens, the stop token included, as in Hugging Face Transformers (vLLM counts the
prompt too): so the penalty weighs an answer alike after any prompt. And the search ends as soon as no live beam can come
before the worst of ``width`` finished ones, which changes nothing but the time it takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from engine.requests.logprobs import TokenLogprob, of_candidate

Candidate = tuple[int, float]
"""A token and its log-probability after a beam."""

MIN_WIDTH, MAX_WIDTH = 2, 16

MAX_PENALTY = 10


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An output with the sum of its tokens' log-probabilities (nats), and its score: that sum by length."""

    output: tuple[int, ...]
    total: float
    score: float
    stopped: bool
    """It ended with a stop token; otherwise it was cut off."""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of its tokens, where they were asked for."""


@dataclass(frozen=True, slots=True)
class Child:
    """A beam that goes on: that of ``parent`` (its place among the beams, best first) with one token more."""

    parent: int
    token: int
    total: float
    logprob: TokenLogprob | None = field(default=None, compare=False)
    """Of the token, where it was asked for."""


@dataclass(slots=True)
class Search:
    """``finished``: the best hypotheses so far that ended with a stop token, best first, ``width`` at most. ``tops``: None, or
    with how many of the likeliest each token's log-probability is told."""

    width: int
    length_penalty: float
    stop_ids: frozenset[int] = frozenset()
    finished: list[Hypothesis] = field(default_factory=list)
    tops: int | None = None

    def __post_init__(self) -> None:
        if not MIN_WIDTH <= self.width <= MAX_WIDTH:
            raise ValueError(f"a beam search of width {self.width} is not possible; choose {MIN_WIDTH} to {MAX_WIDTH}")
        check_penalty(self.length_penalty)

    @property
    def candidates(self) -> int:
        """Tokens wanted of each beam: enough that ``width`` beams go on though every stop token is among them."""
        return max(self.ranked, self.tops or 0)

    @property
    def ranked(self) -> int:
        """How many of these the choice is made of, so that it does not depend on what is told."""
        return self.width + max(self.width, len(self.stop_ids))

    def score(self, total: float, length: int) -> float:
        """``length`` output tokens, 1 or more."""
        weight: float = float(length) ** self.length_penalty
        return total / weight

    def advance(
        self,
        outputs: Sequence[Sequence[int]],
        totals: Sequence[float],
        candidates: Sequence[Sequence[Candidate]],
        stops: Callable[[int, int], bool] = lambda parent, token: False,
        logprobs: Sequence[Sequence[TokenLogprob]] | None = None,
    ) -> list[Child]:
        """One step of beams (best first) of equal length; those that stop are set aside, the best others returned.

        A beam stops with a token of ``stop_ids``, and where ``stops(parent, token)`` says that its text does. Best first;
        of equal ones that of the better parent comes first, then the lower token. ``logprobs``: of the tokens in
        ``outputs``, where they were asked for.
        """
        stopped: list[Child] = []
        going: list[Child] = []
        for parent, (total, offered) in enumerate(zip(totals, candidates, strict=True)):
            for token, log_probability in offered[: self.ranked]:
                child = Child(parent, token, total + log_probability)
                (stopped if token in self.stop_ids or stops(parent, token) else going).append(child)
        for child in sorted(stopped, key=_rank):
            so_far = () if logprobs is None else logprobs[child.parent]
            told = with_logprob(so_far, self._telling(child, candidates))
            self._finish((*outputs[child.parent], child.token), child.total, told)
        return [self._telling(child, candidates) for child in sorted(going, key=_rank)[: self.width]]

    def over(self, totals: Sequence[float], length: int, most: int) -> bool:
        """No beam of these totals, ``length`` output tokens long and ``most`` at most, can end up among the best."""
        if length >= most or not totals:
            return True
        if len(self.finished) < self.width:
            return False
        # A total never rises. With a penalty above 0 it weighs least at the greatest length, else at the present one;
        # either way a beam that is cut off here does not come before those that finished.
        kindest = most if self.length_penalty > 0.0 else length
        return self.score(max(totals), kindest) <= self.finished[-1].score

    def best(
        self,
        outputs: Sequence[Sequence[int]],
        totals: Sequence[float],
        logprobs: Sequence[Sequence[TokenLogprob]] | None = None,
    ) -> list[Hypothesis]:
        """The best of those that finished and of these beams (best first), cut off where they are."""
        live = [
            Hypothesis(tuple(output), total, self.score(total, len(output)), False, tuple(told))
            for output, total, told in zip(outputs, totals, logprobs or [()] * len(outputs), strict=True)
            if output
        ]
        return sorted([*self.finished, *live], key=_worth)[: self.width]

    def _telling(self, child: Child, candidates: Sequence[Sequence[Candidate]]) -> Child:
        if self.tops is None:
            return child
        offered = candidates[child.parent]
        place = [token for token, _ in offered].index(child.token)
        return replace(child, logprob=of_candidate(offered, place, self.tops))

    def _finish(self, output: tuple[int, ...], total: float, logprobs: tuple[TokenLogprob, ...]) -> None:
        self.finished.append(Hypothesis(output, total, self.score(total, len(output)), True, logprobs))
        # Of equals, the one that finished first stays ahead: the sort is stable.
        self.finished.sort(key=_worth)
        del self.finished[self.width :]


def with_logprob(so_far: Sequence[TokenLogprob], child: Child) -> tuple[TokenLogprob, ...]:
    """Those of a parent and its child's, where they were asked for."""
    return tuple(so_far) if child.logprob is None else (*so_far, child.logprob)


def check_penalty(penalty: float) -> None:
    """Raises ValueError for one that no search can have."""
    if not -MAX_PENALTY <= penalty <= MAX_PENALTY:
        raise ValueError(f"length_penalty: {penalty} is not in -{MAX_PENALTY}…{MAX_PENALTY}")


def _rank(child: Child) -> tuple[float, int, int]:
    return -child.total, child.parent, child.token


def _worth(hypothesis: Hypothesis) -> float:
    return -hypothesis.score
