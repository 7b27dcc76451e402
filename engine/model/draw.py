"""What one row needs to be sampled."""

from collections.abc import Sequence
from dataclasses import dataclass

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
