"""Definitions of the numbers of the scheduler, latency and policies panels, for the table in `kvtop.views.numbers`."""

from kvtop.views.definition import LAST_60_S, OVER_60_S, Number, Section, Term

SCHEDULER = Section(
    "Scheduler",
    (
        Number(
            "batch, decode, prefill",
            "tokens of an iteration",
            ("batch.prefill_tokens", "batch.decode_tokens", "batch.token_budget"),
            "columns, the latest at the right; the height is the token budget, where that is exposed. A column is a frame: of "
            "iterations that came merged into one, their mean",
            "latest 512 frames",
        ),
        Term(
            "refused",
            f"for how long in the {OVER_60_S} the queue's head was not admitted, by reason (the verdict's code) and rule, and how "
            "many requests that were heads",
        ),
        Term("time", f"shares of the iterations' time by part, and the mean of one iteration ({OVER_60_S})"),
        Term("loops", f"requests preempted twice or more in the {OVER_60_S}, as far as the log of events goes back"),
        Number(
            "together",
            "share of the pool",
            ("gauges.kv_blocks_active", "gauges.kv_blocks_shared", "gauges.kv_blocks_reserved"),
            "blocks in use and those promised beyond them to running requests",
        ),
        Number("admitted", "requests a minute", ("counters.admissions",), window=LAST_60_S),
        Number("finished", "requests a minute", ("counters.finished",), window=LAST_60_S),
        Number("preempted", "preemptions a minute", ("counters.preemptions",), window=LAST_60_S),
        Term(
            "so far", "how long what waits now has waited until now, in all its waits; what got through is in latency"
        ),
    ),
)

LATENCY = Section(
    "Latency",
    (
        Term(
            "1 min, 5 min, all seen",
            "the windows: of requests whose value was told in that time; all seen: since this viewer attached to this run. What "
            "ended before that and is told no more is unknown. Of 5 min the latest 4096 at most (+: there were more); beyond "
            "4096, percentiles of all seen are right to within 4.4 %",
        ),
        Number(
            "p50, p90, p99, n",
            "seconds, and requests",
            ("requests.ttft_s", "requests.tpot_s"),
            "nearest rank: a value that occurred, which that share of n requests did not exceed",
            "the windows",
        ),
        Number("ttft", "seconds", ("requests.ttft_s",), window="told in the window"),
        Number("tpot", "seconds", ("requests.tpot_s",), window="finished in the window"),
        Number(
            "queue",
            "seconds",
            ("requests.queue_s",),
            "waiting before the first token, in all; dated by that token",
            "got their first token in the window",
        ),
        Number(
            "latency",
            "seconds",
            ("requests.queue_s", "requests.prefill_s", "requests.decode_s"),
            "from arrival to end, of those that ended by stop or length",
            "finished in the window",
        ),
        Term(
            "goodput",
            "of the requests that finished in the window by stop or length, and of which all that the level asks for is known, "
            "the share within all of it; those that ended otherwise, and those with a time unknown, are told apart. The level "
            "is this viewer's own (--slo, or its key)",
        ),
        Term(
            "waits now",
            "requests in the queue, and the longest they have waited so far, red where it is above what got through",
        ),
        Term(
            "histogram", "requests by how long it took, each row to twice the bound of the one above, with their share"
        ),
    ),
)

POLICIES = Section(
    "Policies",
    (
        Term(
            "set by", "who commanded the latest change of the axis that is known, how long ago, and what it was before"
        ),
        Term(
            "before, after",
            "means over two windows of equal length, 30 s to 5 min, that touch no other change. Of ttft and tpot: the mean of "
            "the percentiles of each block, of requests whose value was told in it",
        ),
        Term(
            "difference, ±",
            "after less before, and its 95 % interval: means of blocks of 5 s or more, since seconds that follow one another "
            "are alike, compared by Welch's t-interval. Within ± no difference can be told; of the seven figures "
            "one is beyond it by chance in three looks of ten. It says that something changed, not that the policy did it",
        ),
        Term("tok/s", "output tokens a second"),
        Term("queue", "requests waiting at the end of each second"),
        Term("KV used", "share of the device's blocks in block tables, at the end of each second"),
    ),
)
