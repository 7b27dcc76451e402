"""The axis ``eviction``: which cached block gives up its content when no block is free."""

from engine.memory.eviction import EVICTION_ORDERS, PROTECTED_SHARE

_HELP = {
    "lru": "The cached block that was released longest ago.",
    "fifo": "The cached block that was completed first, however often it was hit.",
    "mru": "The cached block that was released last.",
    "lfu": "The cached block that the fewest requests have used; of equals, the one released longest ago.",
    "slru": "Cached blocks that were never hit first, then the rest; each by their release. Those that were hit are "
    f"protected up to {PROTECTED_SHARE:.0%} of the pool.",
    "priority": "The cached block of the lowest retention priority (0 to 100, 35 where a request says nothing); of "
    "equals, the one released longest ago.",
    "leaf_first": "Of the cached blocks that no other cached block extends, the one released longest ago.",
}

EVICTIONS = {name: _HELP[name] for name in EVICTION_ORDERS}
"""The order's meaning, by its name."""
