"""What every number on the screen means, with its unit and window: the help shows this, tests hold the help to it."""

from typing import NamedTuple


class Term(NamedTuple):
    """``name`` as the screen shows it."""

    name: str
    meaning: str


GLOSSARY: tuple[tuple[str, tuple[Term, ...]], ...] = (
    (
        "Header and capacity",
        (
            Term(
                "prefill",
                "prompt tokens computed a second, recomputation after preemptions included; mean of the last 5 s",
            ),
            Term("decode", "output tokens sampled a second; mean of the last 5 s"),
            Term("KV used", "blocks in at least one block table (active and shared) of all blocks of the pool"),
            Term("free", "blocks without owner and content"),
            Term(
                "cached",
                "blocks without owner whose content is still valid; a prefix may hit them, a need may evict them",
            ),
            Term("active", "blocks in exactly one block table"),
            Term("shared", "blocks in more than one block table"),
            Term("reserved", "blocks promised to running requests and not yet taken; part of free and cached"),
            Term("pinned", "blocks kept by command: their content stays though no request holds it"),
            Term("transfer", "blocks being copied to or from another tier: not readable yet, or not free yet"),
            Term(
                "hit",
                "share of looked-up prompt tokens found in the prefix cache, last 60 s; (ever): since the engine's start",
            ),
            Term(
                "ttft",
                "time to first token, from arrival to first output token; p50 and p95 over the n requests of the last 60 s",
            ),
            Term(
                "tpot",
                "time per output token, (last - first) / (tokens - 1), over the n requests that finished in the last 60 s",
            ),
            Term("preempt/min", "preemptions a minute, mean of the last 60 s"),
            Term(
                "evict/min",
                "cached blocks a minute that lost their content because others needed them, mean of the last 60 s",
            ),
            Term("schedule, forward", "mean time of these parts of an iteration, over the number of iterations named"),
            Term("iteration, it/s", "iterations since the engine's start, and a second; mean of the last 5 s"),
            Term(
                "STUCK",
                "the engine's watchdog: work waits and nothing comes of it, for how long, and which way of standing still it is",
            ),
            Term(
                "live, stale",
                "stale: time since the last frame came, by this machine's clock, once it is over 2 s and the engine is neither idle nor paused",
            ),
            Term(
                "most blocks",
                "who holds most: letter on the map, request, blocks in its table, share of the pool (shared blocks count for each)",
            ),
        ),
    ),
    (
        "Block map",
        (
            Term("cell", "one block, or the blocks the title says; a cell of several shows what most of them are"),
            Term("fill", "tokens written to the block, of the tokens it can hold"),
            Term("refs", "block tables that hold the block"),
            Term("hash", "its key in the prefix cache; a block with a hash outlives its owner"),
            Term("age", "time since the block was last allocated, written, shared or released"),
            Term("logical", "place of the block in its owner's block table: tokens logical x block size and on"),
        ),
    ),
    (
        "Requests and queue",
        (
            Term(
                "state",
                "waiting, prefill, decode, preempted (waits again), done and why; swap host, swap disk: waits, its KV kept in that tier; loading: its KV is coming back",
            ),
            Term("pri", "priority; smaller is more urgent"),
            Term("prompt", "prompt tokens"),
            Term("cached", "prompt tokens taken from the prefix cache at the latest admission"),
            Term(
                "computed",
                "tokens whose KV is in the request's blocks now; during prefill also the share of the prompt",
            ),
            Term("output", "output tokens so far, of the most it may produce"),
            Term("blocks", "blocks in its table; +n: promised to it beyond those; n p: so many of them pinned"),
            Term("wait", "time waiting for admission, after preemptions too, the running wait included"),
            Term("prefill, decode", "time in that phase, the running phase included"),
            Term("pre", "how often it was preempted"),
            Term("end", "why it ended: stop, length, abort, error"),
            Term("recomp", "tokens computed again after preemptions"),
            Term("sample", 'of several outputs of one prompt, which this is: 2/4; with "beam", of a beam search'),
            Term("score", "cumulative log-probability of a beam: the nearer to 0, the likelier"),
            Term("label", "workload class or tenant"),
            Term("oldest", "the longest wait of those who wait now"),
            Term(
                "verdict",
                "why the head of the queue was not admitted in the latest iteration: what it needs, what there is, which rule said no",
            ),
        ),
    ),
    (
        "Tiers",
        (
            Term(
                "kept below the device's",
                "blocks with content in lower tiers, and their share of the device's blocks: what the tiers add to it (content in two tiers counts twice)",
            ),
            Term("contents", "bar over all blocks of the tier: held for swapped requests, cached, being copied, free"),
            Term("used", "blocks that are not free, of all blocks of the tier"),
            Term("held", "blocks with the KV of swapped requests; not evictable"),
            Term("in, out", "MB/s (10^6 bytes) copied into the tier, and out of it to be used; mean of the last 5 s"),
            Term("ms/block", "milliseconds to copy one block in / out, mean of the latest copies"),
            Term("hit", "in the tiers: of the prompt tokens looked up in this tier, the share found there, last 60 s"),
            Term("hits", "prompt tokens served from the tier since the engine's start"),
            Term("stalls", "times the batch had to wait for a copy of this tier, and how long in all, since the start"),
            Term("drops", "blocks given up or refused because the tier was full, since the start"),
            Term(
                "ahead",
                "blocks brought to the device before a request was admitted for them that were hit since / all of them, since the start (wide screens)",
            ),
            Term("fails", "copies that failed or came back wrong, since the start; what they held is computed again"),
        ),
    ),
    (
        "Events",
        (
            Term("preempt", "who lost its blocks, to whom, why; tokens and compute seconds given up, blocks released"),
            Term("swap out, swap in", "KV of a request copied to a lower tier, and back: nothing is computed again"),
            Term("load failed", "a copy from a lower tier failed or came back wrong; what it held is computed again"),
            Term("tier drop", "a full tier gave up content, or refused it"),
            Term("watchdog", "work waits and nothing comes of it: since when and why; over: it goes on"),
            Term("evict", "cached blocks that lost their content because others needed them"),
            Term("policy", "who changed which policy from what to what; the iteration is the first under the new rule"),
        ),
    ),
)
