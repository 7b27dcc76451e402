"""Results as rows of text: for a terminal's tables and for the pages that are made of results."""

from kvtop.errors import one_line
from kvtop.load.compare import Ratio, differences
from kvtop.load.result import Distribution, Failed, LoadResult, Server
from kvtop.views.format import UNKNOWN, count

Table = tuple[list[str], list[list[str]]]
"""Headings and rows."""

LATE = 0.01
"""Seconds by which the client may be late at p99 before it is said that its times cannot be trusted."""

BUSY = 0.8
"""Share of one core above which the client itself may hold the figures back."""


def about(result: LoadResult) -> list[str]:
    """What was done to whom, and how it went, in sentences."""
    server, asked, counts = result.server, result.asked, result.counts
    version = f" ({server.version})" if server.version else ""
    begin, end = result.window
    warm = asked.warmup_seconds or asked.warmup_requests
    warmed = f" after a warm-up of {counts['warmup']} requests" if warm else ""
    lines = [
        f"{server.url}  {server.model}{version}",
        f"{asked.arrivals}; {asked.plan}; {asked.api}, seed {asked.seed}",
        f"{end - begin:.1f} s measured{warmed}: {counts['sent']} sent, {counts['finished']} answered, "
        f"{counts['failed']} failed, {counts['unfinished']} cut off by the end{' (interrupted)' if result.stopped else ''}",
    ]
    lines += [f"failed: {failed.kind} x{failed.count}: {failed.example}" for failed in result.failures]
    return [one_line(line, 400) for line in lines]


def doubts(result: LoadResult) -> list[str]:
    """What a reader must know before trusting the figures."""
    found = []
    if (late := result.lateness.p99) is not None and late > LATE:
        found.append(f"the client was late: requests went out {seconds(late)} after they were due at p99")
    if overdue := result.counts.get("overdue", 0):
        found.append(f"the client could not send as fast as it was to: {overdue} that fell due were not sent")
    span = result.window[1] - result.window[0]
    if span > 0 and result.client_cpu_s > BUSY * span:
        found.append(
            f"the client took {result.client_cpu_s / span:.0%} of a core itself, which may hold the figures back"
        )
    if not result.asked.plain and any(_may_be_of_fields(failed, result.server) for failed in result.failures):
        found.append("a server that refuses fields beyond OpenAI's own can be loaded with --plain")
    if result.tokens_counted_by in ("chunks", "both"):
        found.append("the server does not count its tokens: each piece of text is taken as one")
    if not result.asked.prompts_exact:
        found.append("prompts have about the length asked for, not exactly: see prompt tokens for what was measured")
    if result.asked.left_out:
        found.append(f"{result.asked.left_out} requests of the trace are longer than the context and were left out")
    if result.output.mean is not None and any(reason == "stop" for reason in result.finish_reasons):
        found.append(f"{result.finish_reasons['stop']} answers ended before the length asked for")
    return found


def times(result: LoadResult) -> Table:
    rows = [
        _row("first token", result.ttft),
        _row("per output token", result.tpot),
        _row("between pieces", result.gap),
        _row("whole answer", result.latency),
        _row("sent after due", result.lateness),
    ]
    rows += [
        _row(name, spread, tokens=True)
        for name, spread in (("prompt tokens", result.prompt), ("output tokens", result.output))
    ]
    return ["FIGURE", "COUNT", "MEAN", "P50", "P90", "P99", "MAX"], rows


def rates(result: LoadResult) -> Table:
    found = result.rates
    rows = [
        ["requests offered", per_second(found.offered)],
        ["requests sent", per_second(found.sent)],
        ["requests answered", per_second(found.finished)],
        ["output tokens", per_second(found.output_tokens, 4)],
        ["prompt tokens", UNKNOWN if found.prompt_tokens is None else per_second(found.prompt_tokens, 4)],
        ["most requests open", str(result.most_open)],
    ]
    if result.cached_share is not None:
        rows.append(["prompt tokens found cached", f"{result.cached_share:.0%}"])
    if (good := result.goodput) is not None:
        bounds = ", ".join(f"{name} {bound:g} s" for name, bound in good.bounds.items())
        rows.append([f"within {bounds}", f"{per_second(good.rate)} ({good.share:.0%})"])
    if result.server.rss_bytes is not None:
        rows.append(["server's memory, most", f"{result.server.rss_bytes / 2**20:.0f} MiB"])
    return ["RATE", ""], rows


def ratios(compared: list[Ratio]) -> Table:
    rows = []
    for each in compared:
        show = seconds if each.unit == "s" else (lambda value: per_second(value, 4))
        interval = UNKNOWN if each.low is None or each.high is None else f"{each.low:.3f} to {each.high:.3f}"
        rows.append([
            each.name,
            UNKNOWN if each.a is None else show(each.a),
            UNKNOWN if each.b is None else show(each.b),
            UNKNOWN if each.ratio is None else f"{each.ratio:.3f}",
            interval,
            verdict(each),
        ])  # fmt: skip
    return ["FIGURE", "A", "B", "B/A", "95 % INTERVAL", ""], rows


def verdict(ratio: Ratio) -> str:
    if ratio.low is None or ratio.ratio is None:
        return "cannot be told"
    if not ratio.clear:
        return "1 is inside"
    return "B better" if (ratio.ratio < 1) == ratio.less_is_better else "A better"


def not_the_same(a: LoadResult, b: LoadResult) -> list[str]:
    return [one_line(line) for line in differences(a, b)]


def seconds(value: float | None) -> str:
    """With three digits, fewer below a millisecond, in the unit that fits."""
    if value is None:
        return UNKNOWN
    if value >= 100:
        return f"{value:.0f} s"
    if value >= 1:
        return f"{value:.3g} s"
    return f"{1000 * value:.3g} ms" if value >= 0.001 else f"{1000 * value:.2f} ms"


def per_second(value: float, digits: int = 3) -> str:
    """With so many digits, and all of those before the point."""
    return f"{value:.0f}/s" if value >= 10**digits - 0.5 else f"{value:.{digits}g}/s"


def _may_be_of_fields(failed: Failed, server: Server) -> bool:
    """Whether the server may have refused fields that OpenAI's API does not have."""
    return failed.example.startswith(("HTTP 400", "HTTP 422")) and server.owner != "kvtop"


def _row(name: str, spread: Distribution, *, tokens: bool = False) -> list[str]:
    values = (spread.mean, spread.p50, spread.p90, spread.p99, spread.maximum)
    return [name, str(spread.count), *(count(value) if tokens else seconds(value) for value in values)]
