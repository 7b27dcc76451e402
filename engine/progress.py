"""What one computed batch item changes about its request: KV written, blocks complete, the next token known."""

from engine.batch import BatchItem
from engine.pool import BlockPool
from engine.prefix import NO_HASH, extend_hashes
from engine.request import NO_BLOCK, FinishReason, Request, RequestState
from engine.retention import of_tokens
from engine.window import Windows, first_needed_position


def count_recomputed(item: BatchItem) -> int:
    """Books which of the item's tokens had been computed before, and returns how many."""
    request, end = item.request, item.start + item.count
    again = max(0, min(end, request.computed_ever) - item.start)
    request.recomputed += again
    request.computed_ever = max(request.computed_ever, end)
    return again


def write_kv(request: Request, start: int, end: int, pool: BlockPool, now: float, *, hashing: bool) -> None:
    """Positions ``start … end-1`` have their KV. With ``hashing``, blocks that this completes can be found from now on.

    A block gets its hash only if the one before it still has its own: nothing that grew out of content dropped by a
    reset, or computed while nothing was hashed, is ever found by others.
    """
    size, table = pool.block_size, request.block_table
    first, complete = start // size, end // size
    for i in range(first, (end - 1) // size + 1):
        pool.write(table[i], min(size, end - i * size), now)
    request.computed = end
    if not hashing or first == complete:
        return
    hashes = extend_hashes(request, complete, size)
    for i in range(first, complete):
        if i > 0 and pool.hash_of(table[i - 1]) != hashes[i - 1]:
            break
        pool.seal(table[i], hashes[i], hashes[i - 1] if i else NO_HASH)
    retain(request, first, complete, pool, now)


def retain(request: Request, first: int, end: int, pool: BlockPool, now: float) -> None:
    """The blocks ``first … end-1`` of its table were completed or hit: they are kept as the request asks from now on."""
    if not request.retention:
        return
    size = pool.block_size
    for i in range(first, end):
        kept = of_tokens(request.retention, i * size, (i + 1) * size, now)
        if kept is not None and pool.hash_of(request.block_table[i]) != NO_HASH:
            pool.retain(request.block_table[i], *kept)


def drop_unseen(request: Request, windows: Windows, pool: BlockPool, now: float) -> int:
    """Release the blocks of ``request`` that no layer sees again; returns how many it gives up.

    Those that the prefix cache knows stay cached, as when a request ends. After vLLM, where such places of a table name
    a null block.
    """
    first = first_needed_position(windows, request.computed) // pool.block_size
    for place in range(request.dropped, first):
        pool.release(request.block_table[place], request.num, now)
        request.block_table[place] = NO_BLOCK
    given_up, request.dropped = first - request.dropped, first
    return given_up


def append_token(request: Request, token: int, max_model_len: int, now: float) -> FinishReason | None:
    """The next token was sampled. Returns why the request ends with it, None when it goes on."""
    request.token_ids.append(token)
    if request.first_token is None:
        request.first_token = now
    request.last_token = now
    if request.state is RequestState.PREFILL:
        request.enter(RequestState.DECODE, now)
    if token in request.stop_ids:
        return FinishReason.STOP
    if request.output_tokens >= request.max_tokens or len(request.token_ids) >= max_model_len:
        return FinishReason.LENGTH
    return None
