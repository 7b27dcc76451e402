"""Head can never fit: the request at the head of the queue needs more than the pool has at all."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try, advice
from kvtop.alarms.limits import Limits, for_s, hold_s
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, span

_UNPIN = Try("unpin requests", command="unpin")
_ABORT = Try("abort it", command="abort")


@dataclass(frozen=True, slots=True)
class NeverFitsLimits(Limits):
    for_s: float = for_s(2.0)
    hold_s: float = hold_s(5.0)


class NeverFits(Rule[NeverFitsLimits]):
    NAME, TITLE = "never_fits", "head can never fit"
    MEANING = (
        "The request at the head of the queue needs more blocks than the pool has at all; nobody behind it gets in."
    )
    DEFINITION = (
        "The verdict on the head of the queue is `never_fits`, or it needs more blocks than the pool has without those that "
        "are pinned."
    )
    NEEDS = "the queue with the verdict on its head"
    TRIES = (
        _UNPIN,
        Try("set capacity=max_utilization, which asks for the prompt alone", axis="capacity", value="max_utilization"),
        _ABORT,
        Try("let its client ask for fewer tokens, or give the engine more KV blocks at its next start"),
    )
    LIMITS = NeverFitsLimits

    def look(self, at: Moment) -> Outcome:
        state, verdict = at.state, at.state.verdict
        if verdict is None:
            if state.queue is None and not state.has("queue"):
                return Unchecked(f"the verdict on the queue's head is not exposed by {at.kind}")
            return Fine("nobody at the head of the queue is held back")
        name = request_name(state, verdict.request, verdict.request_id)
        total, need = state.gauges.get("kv_blocks_total"), verdict.need_blocks
        pinned = state.gauges.get("kv_blocks_pinned", 0)
        by_pins = verdict.code != "never_fits"
        if by_pins and not (total is not None and need is not None and need > total - pinned):
            return Fine(f"{name} waits at the head of the queue, and the pool is large enough for it")
        row = state.request(verdict.request)
        waits = None if row is None else row.queue_time(at.mono)
        facts = [
            f"{name} needs {counted(need, 'block')}" if need is not None else f"{name} needs more than the pool has",
            f"the pool has {total:,}" if total is not None else "",
            f"{pinned:,} of them are pinned" if pinned else "",
            f"it has waited {span(waits)}" if waits else "",
            f"{state.queue.total - 1:,} wait behind it" if state.queue is not None and state.queue.total > 1 else "",
            (verdict.detail or "")[:200] if need is None else "",
        ]
        tries = [each for each in self.TRIES if self._helps(each, bool(pinned), verdict.rule or "")]
        return Finding(
            "critical",
            f"{name}" + (f" needs {need:,} of {total:,}" if need is not None and total is not None else ""),
            "; ".join(filter(None, facts)) + (f" ({verdict.rule[:64]})" if verdict.rule else ""),
            Victim("request", name, verdict.request),
            advice(state, tries),
        )

    @staticmethod
    def _helps(each: Try, pinned: bool, rule: str) -> bool:
        """Unpinning helps where something is pinned, another capacity rule where that one said no."""
        return pinned if each is _UNPIN else rule.startswith("capacity=") if each.axis else True
