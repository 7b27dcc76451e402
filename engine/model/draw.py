"""What one row needs to be sampled."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.requests.batch import BatchItem
from engine.requests.request import Request
from engine.requests.sampling import Sampling


@dataclass(frozen=True, slots=True)
class Draw:
    """``request`` is its number, ``position`` that of the new token. The rest counts where ``params.adjusts``: ``history``,
    the tokens before it, of which the first ``prompt`` are the prompt's, and ``stop_ids``, which end the output."""

    params: Sampling
    request: int
    position: int
    history: Sequence[int] = ()
    prompt: int = 0
    stop_ids: frozenset[int] = frozenset()

    @property
    def banned(self) -> frozenset[int]:
        """Tokens that must not come yet."""
        return self.stop_ids if self.position - self.prompt < self.params.min_tokens else frozenset()


def draw_for(item: BatchItem, request: Request, place: int) -> Draw:
    """For the token behind the known ones of ``item`` and ``place`` proposed ones; ``request`` draws it."""
    sampling, position = request.sampling, item.start + item.known + place
    if not sampling.adjusts:
        return Draw(sampling, request.num, position)
    history = [*request.token_ids, *item.proposed[:place]] if place else request.token_ids
    return Draw(sampling, request.num, position, history, request.prompt_tokens, request.stop_ids)
