"""A recording as a trace in the JSON that every trace viewer reads (``traceEvents``): what each request did when, copies
between tiers, counters, changes of policies, and who was preempted for whom.

Times are microseconds of the recording's own clock from the beginning of the stretch; they never go back.
"""

import json
from collections.abc import Iterator
from math import isfinite
from typing import Any

from kvtop import __version__
from kvtop.export.columns import utc
from kvtop.export.stretch import Step, Stretch, Ticks
from kvtop.export.tracks import RequestTracks, Trace, TransferTracks
from kvtop.protocol import Event, IterationFrame
from kvtop.views.events import event_sentence
from kvtop.views.second import second_of

SHOWN = frozenset(
    {
        "preempt",
        "policy",
        "fault",
        "error",
        "ledger",
        "watchdog",
        "kv_switch",
        "pause",
        "resume",
        "dump",
        "swap_out",
        "swap_in",
    }
)
"""Kinds of events that are marked, and whatever is no mere information."""

REQUESTS, TIERS, ENGINE = 1, 2, 3
"""Processes of the first run of an engine; each run has others, `APART` on."""

APART = 10


def perfetto_trace(stretch: Stretch) -> Iterator[str]:
    """The document in pieces."""
    before = '{"displayTimeUnit": "ms", "traceEvents": [\n'
    telling = _Telling()
    for step in stretch.steps():
        for event in telling.take(step):
            yield before + json.dumps(event, allow_nan=False)
            before = ",\n"
    for event in telling.end():
        yield before + json.dumps(event, allow_nan=False)
        before = ",\n"
    other = {"kvtop": __version__, "began": telling.began, "missing": stretch.trouble()}
    yield f'\n], "otherData": {json.dumps(other, allow_nan=False)}}}\n'


class _Telling:
    def __init__(self) -> None:
        self.began: str | None = None
        """The date at which times begin, by the engine's clock."""
        self._base: float | None = None
        self._before = 0
        """Microseconds of the frame before."""
        self._ticks = Ticks()
        self._arrows = 0
        self._run = 0
        self._requests = RequestTracks(REQUESTS)
        self._tiers = TransferTracks(TIERS)

    def take(self, step: Step) -> list[Trace]:
        """What a frame adds, in the order of its times."""
        state = step.state
        assert state.wall is not None
        if self._base is None:
            self._base, self.began = step.now, utc(state.wall)
        now = max(self._before, round((step.now - self._base) * 1e6))
        found: list[Trace] = []
        if step.first:
            found += self._requests.close_all(self._before)
            self._run = step.run
            found += self._named(step)
        # Of a request its slices come first, so that marks and arrows find the one that they point at.
        found += self._requests.take(state, step.changes, self._before, now)
        if isinstance(step.frame, IterationFrame):
            found += self._tiers.take(step.frame.traffic, self._before, now)
        for entry in step.news():
            if isinstance(entry, Event) and (entry.kind in SHOWN or entry.severity != "info"):
                found += self._event(entry, self._at(entry.wall, state.wall, now))
        if self._ticks.due(step):
            found += self._counters(step, now)
        self._before = now
        # Sorting keeps the order of what happened at the same time.
        return sorted(found, key=lambda event: int(event.get("ts", 0)))

    def end(self) -> list[Trace]:
        return self._requests.close_all(self._before)

    def _named(self, step: Step) -> Iterator[Trace]:
        hello = step.state.hello
        assert hello is not None
        first = APART * (self._run - 1)
        self._requests = RequestTracks(first + REQUESTS)
        self._tiers = TransferTracks(first + TIERS)
        again = f" (run {self._run})" if self._run > 1 else ""
        parts = ((REQUESTS, "requests"), (TIERS, "copies between tiers"), (ENGINE, "engine"))
        for place, (process, name) in enumerate(parts):
            yield _named(first + process, "process_name", {"name": f"{hello.engine.name}{again}: {name}"})
            yield _named(first + process, "process_sort_index", {"sort_index": first + (1, 2, 0)[place]})

    def _at(self, wall: float, seen: float, now: int) -> int:
        """When an event was, in the time since the frame before: it is told by the frame dated ``seen``."""
        ago = seen - wall
        return now if not isfinite(ago) else min(now, max(self._before, now - round(ago * 1e6)))

    def _event(self, event: Event, at: int) -> list[Trace]:
        mark: Trace = {
            "name": event.kind,
            "cat": "event",
            "ph": "i",
            "ts": at,
            "pid": APART * (self._run - 1) + ENGINE,
            "tid": 0,
            "s": "p",
            "args": {"what": event_sentence(event), "severity": event.severity, "iteration": event.iteration},
        }
        if event.request is None or not self._requests.is_open(event.request):
            return [mark]
        victim = self._requests.track(event.request)
        found = [mark | victim | {"s": "t"}]
        if event.kind == "preempt" and event.by is not None and self._requests.is_open(event.by):
            self._arrows += 1
            arrow: Trace = {"name": "preempted for", "cat": "preempt", "id": self._arrows, "ts": at}
            found.append(arrow | victim | {"ph": "s"})
            found.append(arrow | self._requests.track(event.by) | {"ph": "f", "bp": "e"})
        return found

    def _counters(self, step: Step, now: int) -> Iterator[Trace]:
        second = second_of(step.state)
        series: dict[str, dict[str, int | float | None]] = {
            "KV blocks": {"used": second.kv_used},
            "running": {"requests": second.running},
            "waiting": {"requests": second.waiting},
            "tokens/s": {"prefill": second.prefill_per_s, "decode": second.decode_per_s},
        }
        for name, numbers in series.items():
            known = {part: number for part, number in numbers.items() if number is not None and isfinite(number)}
            if known:
                pid = APART * (self._run - 1) + ENGINE
                yield {"name": name, "ph": "C", "ts": now, "pid": pid, "tid": 0, "args": known}


def _named(pid: int, name: str, args: dict[str, Any]) -> Trace:
    return {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": args}
