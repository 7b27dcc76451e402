"""Preemption storm: requests lose their KV faster than any come to an end."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, share, span

ENDS = ("finished", "aborted", "errored")


@dataclass(frozen=True, slots=True)
class StormLimits(Limits):
    for_s: float = for_s(5.0)
    hold_s: float = hold_s(30.0)
    window_s: float = threshold(60.0, "s", 5, 600, "over which preemptions and ends are counted")
    least: float = threshold(12.0, "preemptions", 2, 1e6, "fewer are no storm")
    per_end: float = threshold(1.0, "preemptions", 0.1, 1000, "for each request that came to an end")
    same: float = threshold(8.0, "preemptions", 2, 1000, "of one and the same request are a storm, however many end")


class PreemptionStorm(Rule[StormLimits]):
    NAME, TITLE = "preemption_storm", "preemption storm"
    MEANING = "Requests lose their KV faster than any come to an end, or one request loses it again and again: the work is done anew."
    DEFINITION = (
        "At least {least} within {window_s}, and {per_end} or more for each request that ended in that time (finished, aborted or "
        "failed); or {same} of one request within it."
    )
    NEEDS = "the total of preemptions; the events, to name the victim"
    TRIES = (
        Try("set capacity=guaranteed_no_evict, which never preempts", axis="capacity", value="guaranteed_no_evict"),
        Try("lower max_running (now {now})", axis="max_running"),
        Try("raise watermark (now {now}), so that what runs has room to grow", axis="watermark"),
        Try("set preempt_bound (now {now}), so that nobody is the victim again and again", axis="preempt_bound"),
        Try("send it fewer requests at a time"),
        Try("give it more KV blocks at its next start"),
    )
    LIMITS = StormLimits

    def look(self, at: Moment) -> Outcome:
        limits, window = self.limits, self.limits.window_s
        preempted = at.increase("preemptions", window)
        if "preemptions" not in at.state.counters:
            return Unchecked(f"preemptions are not exposed by {at.kind}")
        known = [rise for name in ENDS if (rise := at.increase(name, window)) is not None]
        if preempted is None or not known:
            return Unchecked(
                "too little has been seen yet" if preempted is None else "how many requests end is not exposed"
            )
        ends = sum(known)
        seen = span(at.seen(window))
        told = f"{counted(preempted, 'preemption')} and {counted(ends, 'end')} of requests in {seen}"
        most = at.by_request("preempt", window)
        many = preempted >= limits.least and preempted >= limits.per_end * ends
        again = bool(most) and most[0][0] >= limits.same
        if not many and not again:
            return Fine(told)
        victim, brief = None, f"{preempted:,} in {seen}"
        if most:
            times, last, num = next((each for each in most if self._lives(at, each[2])), most[0])
            if num != most[0][2] and 2 * times < most[0][0]:
                times, last, num = most[0]
            name = request_name(at.state, num, last.request_id)
            victim = Victim("request", name, num)
            by = (
                f", lately for {request_name(at.state, last.by, last.by_id)}"
                if last.by is not None or last.by_id
                else ""
            )
            told += f"; {name} {counted(times, 'time')}{by}"
            brief += f", {name} {times}×"
        return Finding("warning", brief, told + self._cost(at), victim, self.advice(at.state))

    @staticmethod
    def _lives(at: Moment, num: int) -> bool:
        """It is better to name somebody whom one can still look at, unless another had twice as many."""
        row = at.state.request(num)
        return row is not None and not row.finished

    def _cost(self, at: Moment) -> str:
        again = at.increase("recomputed_tokens", self.limits.window_s)
        computed = [at.increase(name, self.limits.window_s) or 0 for name in ("prefill_tokens", "decode_tokens")]
        if not again or not sum(computed):
            return ""
        return f"; {counted(again, 'token')} computed again, {share(again / sum(computed))} of all that were computed"
