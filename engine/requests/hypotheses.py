"""The choices of a beam search: which beams go on, which are finished, and when no better one can come. Pure.

After vLLM's beam search (``vllm.entrypoints.llm.LLM.beam_search``): every beam gives its ``2 * width`` likeliest next
tokens; those that end with a stop token are set aside, whatever their rank; of the others the ``width`` likeliest go on;
at the end finished and live ones are ranked together by log-probability over length to the power of the penalty. Two
things differ. Length counts the output tokens, the stop token included, as in Hugging Face Transformers (vLLM counts the
prompt too): so the penalty weighs an answer alike after any prompt. And the search ends as soon as no live beam can come
before the worst of ``width`` finished ones, which changes nothing but the time it takes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Child:
    """A beam that goes on: that of ``parent`` (its place among the beams, best first) with one token more."""

    parent: int
    token: int
    total: float


@dataclass(slots=True)
class Search:
    """``finished``: the best hypotheses so far that ended with a stop token, best first, ``width`` at most."""

    width: int
    length_penalty: float
    stop_ids: frozenset[int] = frozenset()
    finished: list[Hypothesis] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not MIN_WIDTH <= self.width <= MAX_WIDTH:
            raise ValueError(f"a beam search of width {self.width} is not possible; choose {MIN_WIDTH} to {MAX_WIDTH}")
        check_penalty(self.length_penalty)

    @property
    def candidates(self) -> int:
        """Tokens wanted of each beam: enough that ``width`` beams go on though every stop token is among them."""
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
    ) -> list[Child]:
        """One step of beams (best first) of equal length; those that stop are set aside, the best others returned.

        A beam stops with a token of ``stop_ids``, and where ``stops(parent, token)`` says that its text does. Best first;
        of equal ones that of the better parent comes first, then the lower token.
        """
        stopped: list[Child] = []
        going: list[Child] = []
        for parent, (total, offered) in enumerate(zip(totals, candidates, strict=True)):
            for token, log_probability in offered:
                child = Child(parent, token, total + log_probability)
                (stopped if token in self.stop_ids or stops(parent, token) else going).append(child)
        for child in sorted(stopped, key=_rank):
            self._finish((*outputs[child.parent], child.token), child.total)
        return sorted(going, key=_rank)[: self.width]

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

    def best(self, outputs: Sequence[Sequence[int]], totals: Sequence[float]) -> list[Hypothesis]:
        """The best of those that finished and of these beams (best first), cut off where they are."""
        live = [
            Hypothesis(tuple(output), total, self.score(total, len(output)), False)
            for output, total in zip(outputs, totals, strict=True)
            if output
        ]
        return sorted([*self.finished, *live], key=_worth)[: self.width]

    def _finish(self, output: tuple[int, ...], total: float) -> None:
        self.finished.append(Hypothesis(output, total, self.score(total, len(output)), True))
        # Of equals, the one that finished first stays ahead: the sort is stable.
        self.finished.sort(key=_worth)
        del self.finished[self.width :]


def check_penalty(penalty: float) -> None:
    """Raises ValueError for one that no search can have."""
    if not -MAX_PENALTY <= penalty <= MAX_PENALTY:
        raise ValueError(f"length_penalty: {penalty} is not in -{MAX_PENALTY}…{MAX_PENALTY}")


def _rank(child: Child) -> tuple[float, int, int]:
    return -child.total, child.parent, child.token


def _worth(hypothesis: Hypothesis) -> float:
    return -hypothesis.score
