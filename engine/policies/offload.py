"""The axes ``offload`` and ``tier_full``: what goes to the tiers below the device, and what gives way when one is full.

Both need a tier to have any effect. After vLLM's offload connector, TensorRT-LLM's secondary pool and SGLang's HiCache.
"""

REUSES = 2
"""Prefix hits after which ``by_reuse`` stores a block."""

MIN_PRIORITY = 30
"""Retention priority from which ``by_priority`` stores a block. As TensorRT-LLM's secondary_offload_min_priority."""

OFFLOADS = {
    "off": "Nothing is stored below the device, and nothing is looked up there.",
    "on_evict": "When few blocks are free, the cached blocks that would be evicted next are copied out ahead of it, and are "
    "then free.",
    "on_fill": "Every block is copied out as soon as it is complete.",
    "by_reuse": f"A block is copied out when requests have hit it {REUSES} times.",
    "by_priority": f"As on_evict, but blocks of a retention priority below {MIN_PRIORITY} are given up instead.",
}

AHEAD = ("on_evict", "by_priority")
"""Those that store ahead of eviction."""

TIER_FULLS = {
    "drop": "A request that finds no room there for its state is recomputed.",
    "block": "A request keeps its blocks until there is room for its state; another victim is taken, or whoever needs "
    "the blocks waits. Recomputed only where nothing could run otherwise.",
}
