"""Blocks promised to running requests: what capacity rules that reserve keep for them until they reach their maximum."""

from collections.abc import Iterable

from engine.memory.pool import BlockPool
from engine.requests.request import Request
from engine.scheduling.beam_blocks import blocks_of_parked


def due(request: Request, pool: BlockPool) -> int:
    """Blocks that a running request may still need, beyond those it holds, to reach its maximum; those of its beams that
    are parked included."""
    own = pool.blocks_for(request.kv_limit) - len(request.block_table) + request.forked_tail * pool.groups
    return own + blocks_of_parked(request, pool)


def promises(running: Iterable[Request], pool: BlockPool) -> int:
    """Blocks that running requests may still need in all."""
    return sum(due(request, pool) for request in running)


def overcommitment(running: Iterable[Request], pool: BlockPool) -> int:
    """By how many blocks `promises` exceed what is available; at most 0 when they can be kept."""
    return promises(running, pool) - pool.available


class Promises:
    """The books of what was promised. ``blocks``: to all running requests together, beyond those they hold; the part
    of each is in its ``reserved_blocks``."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self.blocks = 0

    def make(self, request: Request) -> None:
        """Promise ``request`` all that it may still need; replaces what it was promised before."""
        self.drop(request)
        request.reserved_blocks = due(request, self._pool)
        self.blocks += request.reserved_blocks

    def drop(self, request: Request) -> None:
        """Nothing is promised to ``request`` any more."""
        self.blocks -= request.reserved_blocks
        request.reserved_blocks = 0

    def keep(self, request: Request, blocks: int = 1) -> None:
        """``request`` has, or needs no more, so many of the blocks promised to it, if any were."""
        if request.reserved_blocks:
            request.reserved_blocks -= blocks
            self.blocks -= blocks
