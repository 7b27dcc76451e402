"""The axis ``free_order``: in which order a request's blocks are released."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FreeOrder:
    name: str
    help: str
    arrange: Callable[[Sequence[int]], Iterable[int]]
    """A block table in the order of release."""


FREE_ORDERS = {
    order.name: order
    for order in (
        FreeOrder(
            "tail_first",
            "Last block first: of a cached prefix, the end is evicted before the beginning that others may share.",
            reversed,
        ),
        FreeOrder("head_first", "First block first: the beginning of a cached prefix is evicted before its end.", iter),
    )
}
