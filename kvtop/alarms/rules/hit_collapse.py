"""Hit rate collapse: the prefix cache finds far less than it did in the minutes before."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, share, span


@dataclass(frozen=True, slots=True)
class CollapseLimits(Limits):
    for_s: float = for_s(10.0)
    hold_s: float = hold_s(30.0)
    window_s: float = threshold(60.0, "s", 5, 600, "that are compared with those before")
    before_s: float = threshold(300.0, "s", 5, 600, "before that window, with which it is compared")
    least_tokens: float = threshold(
        2000.0, "tokens", 1, 1e9, "looked up in each of the two; with fewer nothing can be said"
    )
    least_requests: float = threshold(20.0, "admissions", 1, 1e6, "in each of the two; with fewer nothing can be said")
    usual: float = threshold(
        0.2, "of the tokens", 0.01, 1, "found before; with less there was no rate that could collapse"
    )
    left: float = threshold(0.4, "of the rate before", 0, 0.95, "or less is left of it")


class HitCollapse(Rule[CollapseLimits]):
    NAME, TITLE = "hit_collapse", "hit rate collapse"
    MEANING = (
        "The prefix cache finds far less of the prompts than in the minutes before, so that they are computed in full."
    )
    DEFINITION = (
        "Of the prompt tokens looked up within {window_s}, the share found is at most {left}, which is taken over the {before_s} "
        "before that and was {usual} or more; {least_tokens} and {least_requests} at least in each, and at least as long before "
        "as in the window."
    )
    NEEDS = "totals of prompt tokens looked up and found, and of admissions"
    TRIES = (
        Try("set prefix_cache=on", axis="prefix_cache", value="on"),
        Try("set eviction=lru", axis="eviction", value="lru"),
        Try("pin a request whose prefix others share", command="pin"),
        Try("lower max_running (now {now}), so that less is evicted", axis="max_running"),
        Try("see whether clients changed how their prompts begin"),
    )
    LIMITS = CollapseLimits

    def look(self, at: Moment) -> Outcome:
        limits = self.limits
        if not {"prefix_query_tokens", "prefix_hit_tokens"} <= at.state.counters.keys():
            return Unchecked(f"lookups in the prefix cache are not exposed by {at.kind}")
        window, whole = limits.window_s, limits.window_s + limits.before_s
        now = [at.increase(name, window) or 0 for name in ("prefix_query_tokens", "prefix_hit_tokens", "admissions")]
        both = [at.increase(name, whole) or 0 for name in ("prefix_query_tokens", "prefix_hit_tokens", "admissions")]
        before = [total - late for total, late in zip(both, now, strict=True)]
        seen = at.seen(whole) - window
        counts_admissions = "admissions" in at.state.counters
        for looked, _, admitted in (now, before):
            if (
                seen < window
                or looked < limits.least_tokens
                or (counts_admissions and admitted < limits.least_requests)
            ):
                return Unchecked(f"too little was looked up in the last {span(window)}, or before, to compare")
        rate, usual = now[1] / now[0], before[1] / before[0]
        told = (
            f"{share(rate)} of {counted(now[0], 'token')} found in the last {span(window)}, "
            f"{share(usual)} of {counted(before[0], 'token')} in the {span(seen)} before"
        )
        if usual < limits.usual or rate > limits.left * usual:
            return Fine(told)
        evicted = at.increase("evictions", window)
        if evicted:
            told += (
                f"; {counted(evicted, 'cached block')} evicted in that minute"
                if window == 60
                else f"; {counted(evicted, 'cached block')} evicted"
            )
        if any(True for _ in at.past.events("prefix_reset", at.mono - whole)):
            told += "; the prefix cache was reset by command"
        victim = self._victim(at)
        if victim is not None:
            told += f"; {victim.name} computes its whole prompt"
        return Finding("warning", f"{share(rate)}, was {share(usual)}", told, victim, self.advice(at.state))

    @staticmethod
    def _victim(at: Moment) -> Victim | None:
        """The running request with the longest prompt of which nothing was found."""
        rows = [
            row
            for row in (at.state.requests or {}).values()
            if row.state in ("prefill", "decode") and row.cached_tokens == 0 and row.prompt_tokens
        ]
        most = max(rows, key=lambda row: (row.prompt_tokens or 0, -row.num), default=None)
        return None if most is None else Victim("request", request_name(at.state, most.num), most.num)
