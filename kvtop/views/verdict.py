"""Why the head of the waiting queue is not running, in words."""

from kvtop.protocol import Verdict
from kvtop.state import EngineState
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Span, wrap
from kvtop.views.format import NAME_WIDTH, called, count, plural
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean


def request_name(state: EngineState, num: int | None, known: str | None = None, width: int = NAME_WIDTH) -> str:
    """What to call a request: its id by the message, else by the table, else ``#num``; in at most ``width`` cells."""
    if known:
        return called(known, width)
    if num is None:
        return "?"
    row = state.requests.get(num) if state.requests else None
    return called(row.name, width) if row else f"#{count(num)}"


def verdict_sentence(state: EngineState) -> str:
    """``B-0042 waits: needs 12 blocks, 5 available (7 free + 3 cached − 5 reserved), capacity=guaranteed_no_evict``."""
    verdict = state.verdict
    if verdict is None:
        return _nothing_held(state)
    who = request_name(state, verdict.request, verdict.request_id)
    rule = f", {clean(verdict.rule, 128)}" if verdict.rule else ""
    detail = clean(verdict.detail, 500) if verdict.detail else ""
    known = {
        "needs_blocks": f"{who} waits: {_needs(verdict)}{_available(state, verdict)}{rule}",
        "never_fits": f"{who} can never run: {_needs(verdict)}{_pool(state)}{rule}",
        "max_running": f"{who} waits: {_limit(verdict, 'requests run', 'as many requests run as may')}{rule}",
        "token_budget": f"{who} waits: the token budget of this iteration is used up{_of(verdict, 'tokens')}{rule}",
        "batch_running": f"{who} waits: the running batch must finish first{rule}",
        "after_preemption": f"{who} waits: memory ran short and a request was preempted in this iteration, so none is admitted{rule}",
        "paused": f"{who} waits: scheduling is paused{rule}",
        "draining": f"{who} waits: draining until what runs fits the new policy{rule}",
    }
    sentence = known.get(verdict.code)
    if sentence is None:
        return f"{who} waits: {detail or clean(verdict.code, 64)}{rule}"
    # Of these alone the detail says more than the code and the numbers: what it still waits for, who paused it.
    return f"{sentence}; {detail}" if detail and verdict.code in ("draining", "paused") else sentence


def _nothing_held(state: EngineState) -> str:
    waiting = waiting_count(state)
    if state.seq is None or (state.queue is None and not state.has("queue")):
        return not_exposed(state, "why the queue waits")
    if waiting:
        return "nothing is held back; the queue is being admitted"
    return "nothing waits"


def waiting_count(state: EngineState) -> int | None:
    """Requests in the waiting queue; None where it is not exposed."""
    if state.queue is not None:
        return state.queue.total
    waiting = state.gauges.get("waiting")
    return None if waiting is None else int(waiting)


def _needs(verdict: Verdict) -> str:
    return "needs more blocks" if verdict.need_blocks is None else f"needs {plural(verdict.need_blocks, 'block')}"


def _available(state: EngineState, verdict: Verdict) -> str:
    if verdict.available_blocks is None:
        return ", not enough available"
    return f", {count(verdict.available_blocks)} available{_sum(state, verdict)}"


def _sum(state: EngineState, verdict: Verdict) -> str:
    """How the available blocks come about; left out unless the terms are exposed and give that number."""
    free, cached = state.gauges.get("kv_blocks_free"), state.gauges.get("kv_blocks_cached")
    reserved, watermark = verdict.reserved_blocks or 0, verdict.watermark_blocks or 0
    if free is None or cached is None:
        return ""
    if max(0, free + cached - reserved - watermark) != verdict.available_blocks:
        return f" ({count(reserved)} reserved)" if reserved else ""
    terms = f"{count(free)} free + {count(cached)} cached"
    terms += f" − {count(reserved)} reserved" if reserved else ""
    terms += f" − {count(watermark)} watermark" if watermark else ""
    return f" ({terms})"


def _pool(state: EngineState) -> str:
    total = state.gauges.get("kv_blocks_total")
    return f", the pool has {count(total)}" if total is not None else ", more than the pool has"


def _limit(verdict: Verdict, what: str, unknown: str) -> str:
    return unknown if verdict.limit is None else f"{count(verdict.limit)} {what}, the most allowed"


def _of(verdict: Verdict, unit: str) -> str:
    return "" if verdict.limit is None else f" ({count(verdict.limit)} {unit})"


def verdict_rows(state: EngineState, width: int, glyphs: Glyphs = UNICODE, lines: int = 2) -> list[Row]:
    """The sentence over one to ``lines`` rows; the cause stands out."""
    sentence = verdict_sentence(state)
    who, colon, why = sentence.partition(": ")
    held = state.verdict is not None
    spans: list[Span] = [(f"{who}{colon.rstrip()}", Role.STRONG), (why, Role.WARN)] if held else [(sentence, Role.DIM)]
    if held and state.verdict is not None and state.verdict.code == "never_fits":
        spans[1] = (why, Role.BAD)
    return glyphs.rows(wrap(spans, width, lines))
