"""How many blocks the beams of one search need together."""

from collections.abc import Iterable

from engine.memory.pool import BlockPool
from engine.requests.beam import Beam
from engine.requests.request import Request


def blocks_of_others(leader: Request, tokens: int, pool: BlockPool) -> int:
    """Blocks that the other members take for ``tokens`` tokens each, beyond those shared with ``leader`` or each other."""
    return 0 if leader.beam is None else _beyond_kin(leader.beam, range(1, leader.beam.width), tokens, pool)


def blocks_of_parked(leader: Request, pool: BlockPool) -> int:
    """Blocks that the parked members still have to take, at most."""
    beam = leader.beam
    if beam is None or not leader.samples:
        return 0
    lanes = [beam.lane_of(member) for member in leader.samples]
    return _beyond_kin(beam, lanes, leader.kv_limit, pool)


def _beyond_kin(beam: Beam[Request], lanes: Iterable[int], tokens: int, pool: BlockPool) -> int:
    whole = pool.blocks_for(tokens)
    return sum(whole - pool.blocks_for(beam.kin(lane, pool.block_size)[1]) for lane in lanes)
