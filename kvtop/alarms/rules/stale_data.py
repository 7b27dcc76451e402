"""Stale data: nothing comes though something should. What hangs cannot tell of it, so it is told here."""

from dataclasses import dataclass

from kvtop.alarms.advice import Try
from kvtop.alarms.limits import Limits, for_s, hold_s, threshold
from kvtop.alarms.moment import Moment
from kvtop.alarms.outcome import Finding, Fine, Outcome, Unchecked, Victim
from kvtop.alarms.rule import Rule
from kvtop.alarms.words import called, counted, span


@dataclass(frozen=True, slots=True)
class StaleLimits(Limits):
    for_s: float = for_s(0.0)
    hold_s: float = hold_s(5.0)
    after_s: float = threshold(10.0, "s", 2, 600, "without a frame while requests run")
    lost_s: float = threshold(3.0, "s", 0, 600, "without a connection")


class StaleData(Rule[StaleLimits]):
    NAME, TITLE = "stale_data", "stale data"
    MEANING = (
        "What is shown is of the past: a step of the engine hangs, or its process or the connection to it is gone. The other "
        "alarms stand still until it goes on."
    )
    DEFINITION = (
        "No frame for {after_s} while requests run and the engine is not paused (an engine with nothing to run is silent), or no "
        "connection for {lost_s}."
    )
    NEEDS = "nothing"
    TRIES = (Try("look whether its process lives and what its log says; a step that hangs takes no command"),)
    LIMITS = StaleLimits

    def look(self, at: Moment) -> Outcome:
        state, silent, limits = at.state, at.silent_s, self.limits
        if state.seq is None or state.hello is None:
            return Unchecked("no engine has been heard yet")
        limit = limits.after_s if state.link.up else limits.lost_s
        if silent < limit:
            return Fine(f"a frame in the last {span(limit)}, or nothing that runs")
        name = called(state.hello.engine.name)
        if state.link.up:
            brief = "frames do not join what is known" if state.resync else "nothing comes"
            what = f"{brief}, for more than {span(limit)}"
        else:
            what = brief = f"no connection: {(state.bye or state.link.reason)[:120] or 'lost'}"
        running, waiting = state.gauges.get("running"), state.gauges.get("waiting")
        left = [] if running is None else [f"{counted(running, 'request')} running"]
        left += [] if waiting is None else [f"{waiting:,} waiting"]
        there = f" with {' and '.join(left)}" if left else ""
        pid = state.hello.engine.pid
        whose = f" (pid {pid})" if pid is not None else ""
        return Finding(
            "critical",
            brief,
            f"{what}; the last frame is of iteration {state.iteration}{there}",
            Victim("engine", name),
            self.advice(state).replace("its process", f"its process{whose}"),
            at.mono - silent,
        )
