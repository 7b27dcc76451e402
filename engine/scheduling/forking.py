"""Parallel sampling: several samples of one prompt, which is computed once, over shared blocks with copy-on-write.

A request with ``n`` samples is queued as one. When its prompt is computed, the first token of every sample is drawn
from the same logits and the others fork off: their tables hold the same blocks, the last of which may be incomplete. A
block in several tables is never written: who writes first takes a block of its own, into which the shared one is copied
before the forward pass; the last to hold it writes in place. After vLLM v1's parallel sampling and, for the copies, the
block manager of vLLM's paper (Kwon et al., "Efficient Memory Management for Large Language Model Serving with
PagedAttention", 2023).

Where the policies leave no room for a sample to run at once (``max_running``, a promise that cannot be made, a drain),
it waits in the queue with its first token and finds the prompt's blocks in the prefix cache.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from engine.memory.places import complete_places, tail_places
from engine.memory.pool import BlockPool
from engine.requests.batch import BatchItem, BlockCopy
from engine.requests.logprobs import TokenLogprob
from engine.requests.members import width_taken
from engine.requests.request import Request, RequestState
from engine.requests.sampling import Sampling
from engine.scheduling.progress import append_token
from engine.scheduling.promises import due
from engine.scheduling.roster import Roster

MAX_SAMPLES = 64
"""Samples of one prompt at most."""


def sample_id(id: str, place: int) -> str:
    """What sample ``place``, from 1 on, of request ``id`` is called; a beam too."""
    return f"{id}.{place}"


def add_samples(request: Request, nums: list[int]) -> None:
    """Make ``request``, not queued yet, the first of ``1 + len(nums)`` samples; the others get these ``nums``.

    Raises ValueError for more than `MAX_SAMPLES`.
    """
    count = 1 + len(nums)
    if count > MAX_SAMPLES:
        raise ValueError(f"request {request.id} asks for {count} samples; the most is {MAX_SAMPLES}")
    request.first_sample, request.siblings = request.num, count
    request.samples = [
        replace(
            request,
            num=num,
            id=sample_id(request.id, place),
            token_ids=list(request.token_ids),
            block_table=[],
            hashes=[],
            samples=[],
            sampling=_own_seed(request.sampling, place),
            text=None if request.text is None else request.text.fresh(),
        )
        for place, num in enumerate(nums, start=1)
    ]


def _own_seed(sampling: Sampling, place: int) -> Sampling:
    """Sample ``place`` of a seeded request draws from a stream of its own, the same in every run."""
    if sampling.seed is None:
        return sampling
    digest = blake2b(f"kvtop sample {sampling.seed} {place}".encode(), digest_size=8).digest()
    return replace(sampling, seed=int.from_bytes(digest, "big") >> 1)


def take_tokens(
    roster: Roster, item: BatchItem, tokens: Sequence[int], logprobs: Sequence[TokenLogprob | None], now: float
) -> list[Request]:
    """Each that draws from ``item`` gets its token; samples fork off first. Returns those that end with it."""
    request = item.request
    roster.totals.decode_tokens += len(tokens)
    request.samples = []
    forks = zip(item.forks, tokens[1:], logprobs[1:], strict=True)
    finished = [sample for sample, token, told in forks if _fork(roster, request, sample, token, told, now)]
    if (ending := append_token(request, tokens[0], roster.max_model_len, now, logprobs[0])) is not None:
        roster.end(request, ending.reason, now, ending.detail)
        finished.append(request)
    return finished


def _fork(
    roster: Roster, parent: Request, sample: Request, token: int, logprob: TokenLogprob | None, now: float
) -> bool:
    """``sample`` leaves ``parent``, whose prompt has just been computed, with ``token`` as its first. True: it ended
    with that. Comes before the parent's own token, which may end the parent and release its blocks."""
    sample.times = replace(parent.times)
    sample.state = RequestState.PREFILL
    sample.started, sample.max_tokens, sample.kv_dtype = parent.started, parent.max_tokens, parent.kv_dtype
    ending = append_token(sample, token, roster.max_model_len, now, logprob)
    if ending is None and not _may_run(roster, parent, sample):
        sample.enter(RequestState.WAITING, now)
        roster.queue(sample)
        return False
    roster.fork(sample)
    if ending is not None:
        roster.end(sample, ending.reason, now, ending.detail)
        return True
    share_table(parent, sample, roster.pool, now)
    sample.cached = sample.computed_ever = parent.computed_tokens
    sample.admissions = 1
    if parent.computed_tokens % roster.pool.block_size:
        parent.forked_tail = sample.forked_tail = True
    if roster.regime.capacity.reserves:
        roster.promised.make(sample)
        roster.promised.make(parent)
    return False


def share_table(parent: Request, sample: Request, pool: BlockPool, now: float) -> None:
    """``sample``, which holds nothing, holds from now on all that ``parent`` holds, the last block included."""
    for block in parent.held:
        pool.share(block, sample.num, now, fork=True)
    sample.block_table, sample.holes = list(parent.block_table), parent.holes
    sample.computed_tokens, sample.chained = parent.computed_tokens, parent.chained
    sample.hashes = parent.hashes[: complete_places(pool, parent.computed_tokens)]


def _may_run(roster: Roster, parent: Request, sample: Request) -> bool:
    pool = roster.pool
    if roster.regime.draining or roster.regime.switching:
        return False
    if width_taken(roster.running) >= roster.regime.policies.max_running:
        return False
    if not roster.regime.capacity.reserves:
        return True
    # Both may have to copy their last block; the parent may be promised that already.
    tail = len(tail_places(pool, parent.computed_tokens))
    more = (
        pool.blocks_for(sample.kv_limit) - len(parent.block_table) + tail + due(parent, pool) - parent.reserved_blocks
    )
    return more + tail * (not parent.forked_tail) <= pool.available - roster.promised.blocks


def must_copy(request: Request, pool: BlockPool) -> int:
    """How many blocks that the next token of ``request`` goes into are read by others, too: it needs a copy of its own
    of each first. One at most, of every KV group."""
    table, count = request.block_table, 0
    for place in tail_places(pool, request.computed_tokens):
        count += pool.is_read_by_others(table[place])
    return count


def own_tail(request: Request, pool: BlockPool, now: float) -> list[BlockCopy]:
    """Give ``request`` blocks of its own in place of the shared ones that it is about to write; they are available.

    Returns what is to be copied before the forward pass; nothing where it may write in place.
    """
    copies: list[BlockCopy] = []
    for place in tail_places(pool, request.computed_tokens):
        shared = request.block_table[place]
        if pool.is_read_by_others(shared):
            filled = request.computed_tokens % pool.block_size
            own = pool.take(request.num, now, place % pool.groups)
            pool.write(own, filled, now)
            request.block_table[place] = own
            pool.release(shared, request.num, now)
            copies.append(BlockCopy(shared, own, filled))
    return copies
