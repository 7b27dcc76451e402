"""A recording as lines of JSON: the engine, its seconds and its events in order, and a last line that says that it is the last."""

import json
from collections.abc import Iterator
from typing import Any

from kvtop import __version__
from kvtop.export.columns import COLUMNS, cells
from kvtop.export.stretch import Step, Stretch, Ticks
from kvtop.protocol import Event
from kvtop.state import LogEntry
from kvtop.views.definition import LONG_WINDOW, RATE_WINDOW
from kvtop.views.second import second_of

SCHEMA = "kvtop.export/1"


def json_lines(stretch: Stretch) -> Iterator[str]:
    """One document a line; ``type`` says what it is of: ``run``, ``second``, ``event``, ``end``."""
    ticks, told_seconds, told_events, runs = Ticks(), 0, 0, 0
    for step in stretch.steps():
        if step.first:
            runs += 1
            yield _line(_run(step))
        for entry in step.news():
            told_events += 1
            yield _line(_event(step, entry))
        if ticks.due(step):
            told_seconds += 1
            named = zip(COLUMNS, cells(step.run, second_of(step.state)), strict=True)
            yield _line({"type": "second"} | {column.name: cell for column, cell in named})
    end = {"type": "end", "runs": runs, "seconds": told_seconds, "events": told_events}
    yield _line(end | {"missing": stretch.trouble()})


def _run(step: Step) -> dict[str, Any]:
    hello = step.state.hello
    assert hello is not None
    return {
        "type": "run",
        "schema": SCHEMA,
        "kvtop": __version__,
        "run": step.run,
        "engine": hello.engine.model_dump(),
        "model": hello.model.model_dump(),
        "geometry": hello.geometry.model_dump(),
        "device": hello.device,
        "limits": dict(hello.limits),
        "workload": hello.workload,
        "policies": dict(step.state.policy),
        "rate_window_s": RATE_WINDOW,
        "latency_window_s": LONG_WINDOW,
    }


def _event(step: Step, entry: LogEntry) -> dict[str, Any]:
    told: dict[str, Any]
    if isinstance(entry, Event):
        told = entry.model_dump(exclude_none=True)
        return {"type": "event", "run": step.run, "written_by": "engine"} | told
    told = {"kind": entry.kind, "wall": entry.wall, "iteration": entry.iteration, "severity": entry.severity}
    return {"type": "event", "run": step.run, "written_by": "viewer"} | told | {"detail": entry.text}


def _line(document: dict[str, Any]) -> str:
    return json.dumps(document, allow_nan=False) + "\n"
