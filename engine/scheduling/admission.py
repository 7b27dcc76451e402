"""Whether a request can be served at all, and whether it may run now: what it would take, and what there is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.memory.places import cached_table, complete_places
from engine.memory.pool import BlockPool
from engine.memory.prefix import extend_hashes
from engine.policies.capacity import CapacityRule
from engine.policies.policy_set import PolicySet
from engine.requests.fields import MAX_TOKEN_ID
from engine.requests.request import NULL_BLOCK, Request
from engine.scheduling.beam_blocks import blocks_of_others


def check_servable(request: Request, pool: BlockPool, max_model_len: int) -> None:
    """Raises ValueError, naming the limit, for a new request that no policy could ever serve."""
    prompt = request.prompt_tokens
    if prompt < 1 or prompt != len(request.token_ids):
        raise ValueError(f"request {request.id} has no prompt, or a wrong count of its tokens")
    if request.max_tokens < 1:
        raise ValueError(f"request {request.id} asks for {request.max_tokens} output tokens; the least is 1")
    if not math.isfinite(request.arrival):
        raise ValueError(f"request {request.id} has no time of arrival")
    if min(request.token_ids) < 0 or max(request.token_ids) > MAX_TOKEN_ID:
        raise ValueError(f"request {request.id} has token ids outside 0…{MAX_TOKEN_ID}")
    if prompt + 1 > max_model_len:
        raise ValueError(
            f"request {request.id} has {prompt} prompt tokens; with one output token that exceeds the context of "
            f"{max_model_len} tokens"
        )
    if pool.blocks_for(prompt) > pool.total:
        raise ValueError(
            f"request {request.id} has {prompt} prompt tokens, which need {pool.blocks_for(prompt)} blocks; "
            f"the whole pool has {pool.total}"
        )


@dataclass(frozen=True, slots=True)
class Offer:
    """What admitting a request now would take, in blocks."""

    hits: list[int]
    """Its table as far as its longest prefix in the cache goes; `NULL_BLOCK` where no layer needs what was there."""
    need: int
    """Blocks beyond those, as if it kept all: what slides out of a window is not counted on."""
    available: int
    """Free and cached ones, less its own hits among them, less promises to running requests, less the watermark."""
    reserved: int
    watermark: int

    @property
    def fits(self) -> bool:
        return self.need <= self.available


def find_prefix(request: Request, pool: BlockPool) -> list[int]:
    """The table of its longest cached prefix. Its last token is never in it: computing it yields the next one."""
    if pool.slides and request.beam is not None and len(request.beam.order) > 1:
        return []  # The beams behind it will share its table from further back than a window reaches.
    size, groups = pool.block_size, pool.groups
    # Hashes are made as they are needed: a miss early in a long prompt costs no hashing of the rest.
    return cached_table(
        pool,
        complete_places(pool, len(request.token_ids) - 1),
        lambda place: extend_hashes(request, place - place % groups + groups, size, groups)[place],
    )


def weigh(
    request: Request, pool: BlockPool, rule: CapacityRule, policies: PolicySet, *, reserved: int, alone: bool
) -> Offer:
    """``reserved`` blocks are promised to running requests; ``alone``: nothing runs, so no watermark is kept."""
    hits = find_prefix(request, pool) if policies.prefix_cache else []
    usable = usable_blocks(pool, hits)
    tokens = rule.tokens_to_admit(request, pool.tokens_in(usable))
    need = min(pool.blocks_for(tokens) + blocks_of_others(request, tokens, pool), usable) - len(hits)
    idle_hits = sum(pool.is_evictable(block) for block in hits if block != NULL_BLOCK)
    watermark = 0 if alone else int(policies.watermark * pool.total)
    return Offer(hits, need, pool.room - idle_hits - reserved - watermark, reserved, watermark)


def usable_blocks(pool: BlockPool, own: Sequence[int]) -> int:
    """Blocks that one request could hold if it ran alone: all but those pinned that are not among its ``own``."""
    if not pool.pinned_total:
        return pool.total
    return pool.total - pool.pinned_total + sum(bool(pool.pins[block]) for block in own if block != NULL_BLOCK)


def never_fits(request: Request, pool: BlockPool, rule: CapacityRule, *, lookups: bool = True) -> str | None:
    """Why the whole pool is too small for ``request`` under ``rule``; None where it is not.

    Pinned blocks count as not there, but for its own prefix if ``lookups`` find it: they could wait forever.
    """
    own = find_prefix(request, pool) if pool.pinned_total and lookups else []
    usable = usable_blocks(pool, own)
    tokens = rule.tokens_to_admit(request, pool.tokens_in(usable))
    blocks = pool.blocks_for(tokens)
    if rule.reserves:
        # Elsewhere a group that grows beyond the pool ends there, as a request does.
        blocks += blocks_of_others(request, tokens, pool)
    if blocks <= usable:
        return None
    if blocks <= pool.total:
        return (
            f"{request.id} cannot run: it needs {blocks} blocks, and {pool.total - usable} of the pool's {pool.total} are "
            "pinned for others"
        )
    what = "prompt and output limit" if rule.reserves else "prompt"
    return (
        f"{request.id} can never run under capacity={rule.name}: "
        f"its {what} need {blocks} blocks and the pool has {pool.total}"
    )
