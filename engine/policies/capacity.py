"""The axis ``capacity``: when there is memory for one request more, and who yields when there is none for the next token.

The names and meanings are those of TensorRT-LLM's capacity schedulers; max_utilization admits as vLLM v1 does
(the whole prompt must fit, not only its first chunk).
"""

from dataclasses import dataclass

from engine.requests.request import Request


@dataclass(frozen=True, slots=True)
class CapacityRule:
    """What the scheduler needs to know about one rule."""

    name: str
    help: str
    reserves: bool
    """Running requests are promised every block up to their maximum, so their growth never fails."""
    one_batch: bool
    """Admits only when nothing runs, and then all that fit at once, whatever the token budget."""

    def tokens_to_admit(self, request: Request, pool_tokens: int) -> int:
        """Tokens whose KV must fit, those found in the prefix cache included, for the request to be admitted.

        More than ``pool_tokens``, what the whole pool holds, means it can never be.
        """
        if self.reserves:
            return request.kv_limit
        # One token of room to grow, but not where only an empty pool could give it and none is needed yet.
        known = len(request.token_ids)
        return max(known, min(known + 1, request.kv_limit, pool_tokens))


CAPACITIES = {
    rule.name: rule
    for rule in (
        CapacityRule(
            name="guaranteed_no_evict",
            help="Running requests reserve blocks up to their maximum. Admits in queue order and stops at the first "
            "that does not fit. Never preempts.",
            reserves=True,
            one_batch=False,
        ),
        CapacityRule(
            name="max_utilization",
            help="Reserves nothing: a request needs its prompt and one token to be admitted, then one block at a time. "
            "When none is left a request is preempted and recomputed later; the victim policy says which.",
            reserves=False,
            one_batch=False,
        ),
        CapacityRule(
            name="static_batch",
            help="Admits only when nothing runs, then as many as fit with blocks reserved up to their maximum. "
            "Never preempts.",
            reserves=True,
            one_batch=True,
        ),
    )
}
