"""The axis ``victim``: which running request is preempted when one must be."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class VictimChoice:
    name: str
    help: str
    rank: Callable[[Request], int]
    """Largest is the victim; of equals, the one started last."""

    def choose(self, running: Sequence[Request]) -> Request:
        """The victim among ``running`` (not empty, in order of their start)."""
        return max(enumerate(running), key=lambda pair: (self.rank(pair[1]), pair[0]))[1]


VICTIMS = {
    victim.name: victim
    for victim in (
        VictimChoice("latest", "The request that was started last.", lambda request: 0),
        VictimChoice(
            "lowest_priority",
            "The request with the largest priority number; of equals, the one started last.",
            lambda request: request.priority,
        ),
        VictimChoice(
            "most_blocks",
            "The request that holds the most blocks; of equals, the one started last.",
            lambda request: len(request.held),
        ),
        VictimChoice(
            "fewest_outputs",
            "The request that has produced the fewest output tokens; of equals, the one started last.",
            lambda request: -request.output_tokens,
        ),
        VictimChoice(
            "longest_remaining",
            "The request that may still produce the most output tokens; of equals, the one started last.",
            lambda request: request.max_tokens - request.output_tokens,
        ),
    )
}
