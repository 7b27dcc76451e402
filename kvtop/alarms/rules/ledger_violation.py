"""Ledger violation: blocks, references and sums contradict one another, by the engine's own check or by ours."""

import re
from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, span
from kvtop.state.ledger import check, contradictions

IN_FULL = 1 << 16
"""Blocks of a pool, and entries of block tables, up to which tables are compared with references too."""

EVERY = 5
"""Looks, of which one does so."""

_BLOCK = re.compile(r"\bblock (\d{1,9})\b")


@dataclass(frozen=True, slots=True)
class LedgerLimits(Limits):
    for_s: float = for_s(0.0)
    hold_s: float = hold_s(30.0)
    window_s: float = threshold(600.0, "s", 1, 600, "for which one of the engine's own findings stands")


class LedgerViolation(Rule[LedgerLimits]):
    NAME, TITLE = "ledger_violation", "ledger violation"
    MEANING = "The books of KV memory do not add up: what the engine says of blocks cannot be trusted, nor maybe what it computes."
    DEFINITION = (
        "The engine's own check found a contradiction within {window_s} (or before it was first seen); or what it tells does not "
        "add up here: blocks by state against gauges and pool, and, of pools of up to "
        f"{IN_FULL:,} blocks, references against block tables."
    )
    NEEDS = "the total of contradictions; or blocks with their gauges"
    TRIES = (
        Try(
            "write a snapshot, which holds the contradictions, and start the engine anew before its output is relied on"
        ),
    )
    LIMITS = LedgerLimits

    def __init__(self, limits: LedgerLimits) -> None:
        super().__init__(limits)
        self._looks = 0
        self._before: int | None = None
        self._told_at: float | None = None
        self._deeper: list[str] = []

    def look(self, at: Moment) -> Outcome:
        state = at.state
        own = state.counters.get("ledger_violations")
        exposed = state.blocks is not None or "kv_blocks_active" in state.gauges
        if own is None and not exposed:
            return Unchecked(f"neither blocks nor a check of them are exposed by {at.kind}")
        self._follow(at, own)
        ours = self._ours(at)
        recent = self._told_at is not None and at.mono - self._told_at <= self.limits.window_s
        if not ours and not recent:
            checks = state.counters.get("ledger_checks")
            by_engine = "" if checks is None else f"; {checks:,} checks by the engine"
            return Fine(f"blocks, gauges and references agree{by_engine}")
        event = at.past.latest("ledger") if recent else None
        said = ours[0] if ours else ((event.detail or event.cause or "") if event is not None else "")
        facts = []
        if recent and own:
            assert self._told_at is not None
            ago = span(max(0.0, at.mono - self._told_at))
            facts.append(f"{counted(own, 'contradiction')} found by the engine since its start, the last {ago} ago")
        if ours:
            facts.append(f"{counted(len(ours), 'contradiction')} found here")
        block = _BLOCK.search(said)
        victim = None if block is None else Victim("block", f"block {block[1]}", int(block[1]))
        return Finding(
            "critical", said[:120] or facts[0], "; ".join(facts) + (f": {said[:300]}" if said else ""), victim,
            self.advice(state),
        )  # fmt: skip

    def _follow(self, at: Moment, own: float | None) -> None:
        if own is None:
            return
        if own > (self._before or 0) or (self._told_at is not None and self._told_at > at.mono):
            self._told_at = at.mono
        self._before = int(own)

    def _ours(self, at: Moment) -> list[str]:
        state = at.state
        small = state.blocks is not None and state.requests is not None and state.blocks.device <= IN_FULL
        if small and self._looks % EVERY == 0:
            held = sum(len(row.table) for row in (state.requests or {}).values())
            self._deeper = [said for said in check(state) if said] if held <= 4 * IN_FULL else []
        self._looks += 1
        return list(contradictions(state)) or self._deeper
