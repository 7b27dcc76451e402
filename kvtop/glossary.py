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
            Term("hit", "share of looked-up prompt tokens found in the prefix cache; last 60 s"),
            Term("ttft", "time to first token, arrival to first output token, s; p50 and p95 of the last 60 s"),
            Term(
                "tpot",
                "time per output token of finished requests, (last - first) / (tokens - 1), ms; p50 and p95 of the last 60 s",
            ),
            Term("preempt/min", "preemptions a minute over the last 60 s"),
            Term("age", "time since the last frame came, by this machine's clock; shown when it exceeds 2 s"),
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
            Term("prompt", "prompt tokens"),
            Term("cached", "prompt tokens taken from the prefix cache at the latest admission"),
            Term("computed", "tokens whose KV is in the request's blocks now"),
            Term("output", "output tokens so far"),
            Term("blocks", "blocks in its table"),
            Term("wait", "seconds waiting for admission, after preemptions too, the running wait included"),
            Term("prefill s, decode s", "seconds in that phase, the running phase included"),
            Term("pre", "how often it was preempted"),
            Term("pri", "priority; smaller is more urgent"),
            Term(
                "verdict",
                "why the head of the queue was not admitted in the latest iteration: what it needs, what there is, which rule said no",
            ),
        ),
    ),
    (
        "Events",
        (
            Term("preempt", "who lost its blocks, to whom, why; tokens and compute seconds given up, blocks released"),
            Term("evict", "cached blocks that lost their content because others needed them"),
            Term("policy", "who changed which policy from what to what; the iteration is the first under the new rule"),
        ),
    ),
)
