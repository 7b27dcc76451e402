"""The axis ``prefetch``: whether blocks come up from lower tiers before the request that wants them is admitted.

Needs a tier and an ``offload`` that stores in it to have any effect. After SGLang's HiCache and LMCache, which fetch
ahead for requests in the queue.
"""

PREFETCHES = {
    "off": "Blocks come to the device when a request that hits them is admitted.",
    "queue_head": "While the head of the queue cannot start, blocks of its prefix that lie in lower tiers come to the "
    "device's prefix cache.",
}
