"""What one computed batch item changes about its request: KV written, blocks complete, the next token known."""

from engine.memory.places import first_needed_place
from engine.memory.pool import BlockPool
from engine.memory.prefix import NO_HASH, extend_hashes
from engine.requests.batch import BatchItem
from engine.requests.ending import Ending, ending_after
from engine.requests.logprobs import TokenLogprob
from engine.requests.request import NULL_BLOCK, Request, RequestState
from engine.requests.retention import of_tokens


def count_recomputed(item: BatchItem) -> int:
    """Books which of the item's tokens had been computed before, and returns how many."""
    request, end = item.request, item.start + item.known
    again = max(0, min(end, request.computed_ever) - item.start)
    request.recomputed += again
    request.computed_ever = max(request.computed_ever, end)
    return again


def write_kv(request: Request, start: int, end: int, pool: BlockPool, now: float, *, hashing: bool) -> None:
    """Positions ``start … end-1`` have their KV. With ``hashing``, blocks that this completes can be found from now on.

    A block gets its hash only if what it continues could be found: nothing that grew out of content dropped by a
    reset, or computed while nothing was hashed, is ever found by others.
    """
    size, groups, table = pool.block_size, pool.groups, request.block_table
    first, complete = start // size, end // size
    for place in range(first * groups, -(-end // size) * groups):
        pool.write(table[place], min(size, end - place // groups * size), now)
    request.computed_tokens = end
    if not hashing or first == complete or request.chained != first:
        return
    hashes = extend_hashes(request, complete * groups, size, groups)
    for place in range(first * groups, complete * groups):
        pool.seal(table[place], hashes[place], hashes[place - groups] if place >= groups else NO_HASH)
    request.chained = complete
    retain(request, first * groups, complete * groups, pool, now)


def retain(request: Request, first: int, end: int, pool: BlockPool, now: float) -> None:
    """The places ``first … end-1`` of its table were completed or hit: they are kept as the request asks from now on."""
    if not request.retention:
        return
    size = pool.block_size
    for place in range(first, end):
        block, start = request.block_table[place], place // pool.groups * size
        kept = of_tokens(request.retention, start, start + size, now)
        if kept is not None and block != NULL_BLOCK and pool.hash_of(block) != NO_HASH:
            pool.retain(block, *kept)


def drop_unseen(request: Request, pool: BlockPool, now: float) -> int:
    """Give up the blocks of ``request`` that no layer of their group sees again; returns how many it gives up.

    Those that the prefix cache knows stay cached, as when a request ends. After vLLM, where such places of a table name
    a null block.
    """
    table, before = request.block_table, request.holes
    for group, window in enumerate(pool.windows):
        if window is None:
            continue
        # Backwards: what was given up before lies in one piece at the front.
        for place in range(first_needed_place(pool, group, request.computed_tokens) - pool.groups, -1, -pool.groups):
            if table[place] == NULL_BLOCK:
                break
            pool.release(table[place], request.num, now)
            table[place] = NULL_BLOCK
            request.holes += 1
    return request.holes - before


def append_token(
    request: Request, token: int, max_model_len: int, now: float, logprob: TokenLogprob | None = None
) -> Ending | None:
    """The next token was sampled; ``logprob`` where the request asked for it. Returns how the request ends with it, None
    when it goes on."""
    request.token_ids.append(token)
    if request.logprobs is not None and logprob is not None:
        request.logprobs.append(logprob)
        request.logprob_sum += logprob.logprob
    if request.first_token is None:
        request.first_token = now
    if request.last_token != now:  # of several at a time the first tells how long it was waited for
        request.token_before = request.last_token
    request.last_token = now
    if request.state is RequestState.PREFILL:
        request.enter(RequestState.DECODE, now)
    if request.on_output is not None:
        request.on_output(request)
    return ending_after(request, token, max_model_len)
