"""Tier thrash: what goes out to a lower tier comes straight back, and the batch waits for it."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, share, span
from kvtop.protocol import TierLevel
from kvtop.state.tiers import total_name


@dataclass(frozen=True, slots=True)
class ThrashLimits(Limits):
    for_s: float = for_s(5.0)
    hold_s: float = hold_s(30.0)
    window_s: float = threshold(60.0, "s", 5, 600, "over which bytes and waits are counted")
    ratio: float = threshold(
        3.0, "times", 1, 100, "that bytes one way may be those the other way, to be of the same order"
    )
    stalled: float = threshold(0.1, "of the time", 0.001, 1, "in which the batch waited for copies of the tier")
    turnovers: float = threshold(
        4.0, "times", 0.1, 10_000, "the tier's whole size goes both ways, where waits are not exposed"
    )


class TierThrash(Rule[ThrashLimits]):
    NAME, TITLE = "tier_thrash", "tier thrash"
    MEANING = "KV goes out to a lower tier and straight back again, and the batch waits for the copies."
    DEFINITION = (
        "Within {window_s} a tier below the device took in and gave back bytes of the same order (at most {ratio} as many one way "
        "as the other), and the batch waited for its copies for {stalled} or more; where waits are not exposed, {turnovers} the "
        "tier's size went both ways."
    )
    NEEDS = "tiers, with the totals of their bytes"
    TRIES = (
        Try("lower max_running (now {now}), so that what runs fits the device", axis="max_running"),
        Try("set preempt_action=recompute", axis="preempt_action", value="recompute"),
        Try("set offload=by_reuse, which keeps what is hit again", axis="offload", value="by_reuse"),
        Try("set offload=off", axis="offload", value="off"),
        Try("send it fewer requests at a time, or give the device more KV blocks at its next start"),
    )
    LIMITS = ThrashLimits

    def look(self, at: Moment) -> Outcome:
        lower = [level for level in at.state.tiers if level.tier != "device"]
        if not at.state.tiers and {name for name, _ in at.state.tier_spans()} != {"device"}:
            return Unchecked(f"tiers are not exposed by {at.kind}")
        if not lower:
            return Fine("there is no tier below the device")
        fine, known = [], False
        for level in lower:
            outcome = self._level(at, level)
            if isinstance(outcome, Finding):
                return outcome
            known |= isinstance(outcome, Fine)
            fine.append(outcome.what if isinstance(outcome, Fine) else outcome.why)
        return Fine("; ".join(fine)) if known else Unchecked("; ".join(fine))

    def _level(self, at: Moment, level: TierLevel) -> Outcome:
        limits, window, tier = self.limits, self.limits.window_s, level.tier[:32]
        rises = {name: self._rise(at, level, name) for name in ("bytes_in", "bytes_out", "stalls", "stall_ms")}
        into, out, stalls, stall_ms = rises.values()
        if into is None or out is None:
            return Unchecked(f"bytes in and out of the tier {tier} are not known")
        seen = max(0.001, at.past.tiers.span(at.mono, window) or 0.0)
        told = f"{tier}: {_mib(into)} in and {_mib(out)} out in {span(seen)}"
        if stalls is not None and stall_ms is not None:
            told += f", {counted(stalls, 'wait')} of the batch, {span(stall_ms / 1000)} in all"
        same_order = min(into, out) * limits.ratio >= max(into, out) > 0
        size = self._bytes(at, level)
        if stall_ms is not None:
            hurts = stall_ms / 1000 >= limits.stalled * max(seen, min(window, 5.0))
        else:
            hurts = size is not None and min(into, out) >= limits.turnovers * size
        if not (same_order and hurts):
            return Fine(told)
        if size:
            told += f"; the tier holds {_mib(size)}"
        if most := at.by_request("swap_out", window):
            times, last, num = most[0]
            told += f"; {request_name(at.state, num, last.request_id)} went out {counted(times, 'time')}"
        brief = f"{tier} {_mib(into)} in, {_mib(out)} out in {span(seen)}"
        if stall_ms is not None:
            brief += f", waits {share(stall_ms / 1000 / seen)}"
        return Finding("warning", brief, told, Victim("tier", tier), self.advice(at.state))

    def _rise(self, at: Moment, level: TierLevel, name: str) -> int | None:
        found = at.past.tiers.increase(total_name(level, name), at.mono, self.limits.window_s)
        return None if found is None else found[0]

    @staticmethod
    def _bytes(at: Moment, level: TierLevel) -> int | None:
        geometry = at.state.hello.geometry if at.state.hello is not None else None
        if (
            geometry is None
            or level.blocks_total is None
            or geometry.block_size is None
            or geometry.bytes_per_token is None
        ):
            return None
        return level.blocks_total * geometry.block_size * geometry.bytes_per_token


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB" if size < 10 * 2**30 else f"{size / 2**30:,.1f} GiB"
