"""What holds the engine back just now, in one line: KV blocks, compute, or a rule."""

from operator import attrgetter
from typing import Final, NamedTuple

from kvtop.protocol import Verdict
from kvtop.state import EngineState
from kvtop.views.fit import fit, part
from kvtop.views.format import count, percent, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean
from kvtop.views.verdict import waiting_count

OVER: Final = 50
"""Frames over which the time of an iteration is taken."""

_PARTS: Final = {
    "forward": "compute",
    "prepare": "compute",
    "sample": "compute",
    "transfer_wait": "transfers between tiers",
    "schedule": "scheduling",
    "publish": "telling viewers",
    "ledger": "the ledger's checks",
}
"""What each part of an iteration's time is spent on."""

_of_parts: Final = attrgetter(*_PARTS)

_BLOCKS: Final = ("needs_blocks", "never_fits", "after_preemption", "resume_gate")


class Limit(NamedTuple):
    """``word`` for a glance; ``why`` in numbers, empty where there are none."""

    word: str
    why: str
    role: int

    def forms(self) -> tuple[str, ...]:
        """From long to short."""
        short = f"limit: {self.word}"
        return (f"{short} ({self.why})", short) if self.why else (short,)


def limit(state: EngineState) -> Limit | None:
    """What there is not enough of. The verdict on the queue's head decides where there is one; else what running requests
    wait for is what most of an iteration's time is spent on. None before the first frame; what is not exposed is not
    guessed."""
    if state.seq is None:
        return None
    status = state.status.state if state.status is not None else None
    if status in ("paused", "draining"):
        return Limit(status, "", Role.WARN)
    if state.verdict is not None:
        return _of_verdict(state, state.verdict)
    running, waiting = state.gauges.get("running"), waiting_count(state)
    if running == 0 and not waiting:
        return Limit("none, idle", "", Role.GOOD) if waiting == 0 else Limit("not exposed", "", Role.DIM)
    word = spent_on(state)
    if word is None:
        return Limit("not exposed", batch_text(state), Role.DIM)
    held = "nothing waits" if waiting == 0 else ""
    return Limit(word, ", ".join(filter(None, (held, batch_text(state), forward_text(state)))), _role(word))


def _of_verdict(state: EngineState, verdict: Verdict) -> Limit:
    if verdict.code in _BLOCKS:
        return Limit("KV blocks", _blocks(verdict), Role.BAD if verdict.code == "never_fits" else Role.WARN)
    if verdict.code == "token_budget":
        return Limit("compute", ", ".join(filter(None, (batch_text(state), forward_text(state)))), Role.ACCENT)
    if verdict.code == "max_running":
        most = "" if verdict.limit is None else f"{count(verdict.limit)} run"
        return Limit("max running", most, Role.ACCENT)
    if verdict.code == "transfer":
        return Limit("transfers between tiers", "", Role.WARN)
    if verdict.code == "batch_running":
        return Limit("batch policy", "the running batch must finish", Role.ACCENT)
    return Limit(clean(verdict.code, 32).replace("_", " "), "", Role.WARN)


def _blocks(verdict: Verdict) -> str:
    facts = []
    if verdict.code == "after_preemption":
        facts.append("just preempted")
    if verdict.need_blocks is not None:
        facts.append(f"head needs {count(verdict.need_blocks)}")
    if verdict.available_blocks is not None:
        facts.append(f"{count(verdict.available_blocks)} available")
    if verdict.watermark_blocks:
        facts.append(f"watermark {count(verdict.watermark_blocks)}")
    return ", ".join(facts)


def batch_text(state: EngineState) -> str:
    """``batch 37/256 tokens``: of an iteration, against its budget; empty where batches are not exposed."""
    if state.batch is None:
        return ""
    # Tokens are sums over the iterations of the frame.
    iterations = max(1, state.durations[-1].iterations) if state.durations else 1
    tokens = (state.batch.prefill_tokens + state.batch.decode_tokens) / iterations
    budget = "" if state.batch.token_budget is None else f"/{count(state.batch.token_budget)}"
    return f"batch {count(tokens)}{budget} tokens"


def spent(state: EngineState) -> dict[str, float]:
    """Milliseconds an iteration, by part of `Durations` and as a mean of the latest; empty where it is not exposed."""
    timings = list(state.durations)[-OVER:]
    iterations = sum([timing.iterations for timing in timings])
    parts = zip(*[_of_parts(timing.durations) for timing in timings], strict=True)
    sums = {name: sum([ms or 0.0 for ms in spent]) for name, spent in zip(_PARTS, parts, strict=False)}
    return {name: ms / iterations for name, ms in sums.items()} if iterations and any(sums.values()) else {}


def spent_on(state: EngineState) -> str | None:
    """What most of the time of an iteration goes to; None where that is not exposed."""
    totals: dict[str, float] = {}
    for name, ms in spent(state).items():
        totals[_PARTS[name]] = totals.get(_PARTS[name], 0.0) + ms
    return max(totals, key=lambda word: totals[word]) if totals else None


def forward_text(state: EngineState) -> str:
    """``96% forward``: of an iteration's time; empty where that is not exposed."""
    parts = spent(state)
    return f"{percent(parts['forward'] / sum(parts.values()))} forward" if parts else ""


def work_rows(state: EngineState, width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """One row of what an iteration holds and where its time goes, what took longest staying longest; none where neither is
    exposed."""
    times = spent(state)
    parts = [part(99, batch)] if (batch := batch_text(state)) else []
    order = sorted(times, key=lambda name: times[name])
    for name, ms in times.items():
        shown = f"{name.replace('_', ' ')} {seconds(ms / 1000)}"
        parts.append(part(20 + order.index(name), shown, "", role=Role.DIM))
    return glyphs.rows([fit(parts, width)]) if parts else []


def _role(word: str) -> int:
    return Role.ACCENT if word == "compute" else Role.WARN
