"""No progress: there is work and nothing comes of it. The engine's own watchdog is believed, and watched in turn."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Severity, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import counted, request_name, span

_ENDS = ("finished", "aborted", "errored")
_TOKENS = ("decode_tokens", "prefill_tokens", "recomputed_tokens")


@dataclass(frozen=True, slots=True)
class ProgressLimits(Limits):
    for_s: float = for_s(0.0)
    hold_s: float = hold_s(5.0)
    after_s: float = threshold(10.0, "s", 1, 600, "without a token or an end, with work there all the time")


class NoProgress(Rule[ProgressLimits]):
    NAME, TITLE = "no_progress", "no progress"
    MEANING = "Requests run or wait and nothing comes of it: iterations bring no tokens, or there are none."
    DEFINITION = (
        "The engine's own watchdog warns (except of a pause, and of a head that can never fit, which is an alarm of its own); or "
        "for {after_s} no output token was sampled, no token was computed for the first time and no request ended, while some "
        "ran or waited all the time. Not while the engine is paused."
    )
    NEEDS = "the engine's watchdog; or totals of tokens, and how many requests run and wait"
    TRIES = (
        Try("preempt who runs", command="preempt"),
        Try("unpin requests", command="unpin"),
        Try("abort the head of the queue", command="abort"),
        Try("look into the engine's log, and start it anew"),
    )
    LIMITS = ProgressLimits

    def __init__(self, limits: ProgressLimits) -> None:
        super().__init__(limits)
        self._work_since: float | None = None

    def look(self, at: Moment) -> Outcome:
        state = at.state
        running, waiting = state.gauges.get("running"), state.gauges.get("waiting")
        if state.paused:
            self._work_since = None
            return Fine("paused by command, so nothing is to come")
        if (warned := self._warned(at)) is not None:
            return warned
        if running is None and waiting is None:
            return Unchecked(f"how many requests run and wait is not exposed by {at.kind}")
        work = int(running or 0) + int(waiting or 0) + int(state.gauges.get("loading", 0))
        if not work:
            self._work_since = None
            return Fine("there is no work")
        if self._work_since is None or self._work_since > at.mono:
            self._work_since = at.mono
        come = self._come(at)
        if come is None:
            exposed = not state.counters.keys().isdisjoint((*_ENDS, "decode_tokens", "prefill_tokens"))
            return Unchecked(
                "too little has been seen yet" if exposed else f"totals of tokens are not exposed by {at.kind}"
            )
        window = self.limits.after_s
        lasting = at.mono - self._work_since
        if come or lasting < window or at.seen(window) < window:
            return Fine(
                f"{come:,} new tokens and ends in {span(at.seen(window))}, with {counted(work, 'request')} there"
            )
        iterations = at.increase("iterations", window)
        what = (
            "there is no iteration" if iterations == 0
            else f"{counted(iterations, 'iteration')} and no token" if iterations else "no token"
        )  # fmt: skip
        there = f"{counted(running or 0, 'request')} running, {waiting or 0:,} waiting"
        victim = self._victim(at)
        waits = f"; {victim.name} waits at the head of the queue" if victim and state.verdict else ""
        return Finding(
            "critical", f"{what} in {span(window)}", f"{what} in {span(window)} with {there}{waits}", victim,
            self.advice(state), at.mono - window,
        )  # fmt: skip

    def _warned(self, at: Moment) -> Finding | None:
        """What the engine's own watchdog says."""
        state, last = at.state, at.past.latest("watchdog")
        text = state.status.warning if state.status is not None else None
        cause = last.cause if last is not None else None
        if not text or cause in ("paused", "never_fits") or (state.verdict and state.verdict.code == "never_fits"):
            return None
        assert state.status is not None
        severity: Severity = "warning" if cause == "head_refused" else "critical"
        return Finding(
            severity, text[:120], f"the engine's watchdog: {text}", self._victim(at), self.advice(state),
            state.status.warning_since,
        )  # fmt: skip

    def _come(self, at: Moment) -> int | None:
        """Tokens sampled, tokens computed for the first time, and ends, in the time; None where none of them is exposed."""
        rises = {name: at.increase(name, self.limits.after_s) for name in (*_ENDS, *_TOKENS)}
        known = [rises[name] for name in ("decode_tokens", *_ENDS)]
        first = max(0, (rises["prefill_tokens"] or 0) - (rises["recomputed_tokens"] or 0))
        if all(rise is None for rise in (*known, rises["prefill_tokens"])):
            return None
        return first + sum(rise or 0 for rise in known)

    @staticmethod
    def _victim(at: Moment) -> Victim | None:
        state = at.state
        if state.verdict is not None:
            num = state.verdict.request
            return Victim("request", request_name(state, num, state.verdict.request_id), num)
        rows = (state.requests or {}).values()
        first = min((row for row in rows if not row.finished), key=lambda row: row.num, default=None)
        return None if first is None else Victim("request", request_name(state, first.num), first.num)
