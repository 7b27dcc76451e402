"""``kvtop ls``: the engines of this user, wherever they have their sockets, and how they are."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from kvtop.commands.table import age, columns, number, table
from kvtop.commands.target import START_ONE, all_engines, not_looked, where_looked
from kvtop.commands.watch import glance, heard
from kvtop.errors import one_line
from kvtop.sources.discover import Found
from kvtop.sources.socket import SocketSource
from kvtop.state import EngineState
from kvtop.views.format import called

WITHIN = 5.0
"""Seconds to wait for the engines' figures; those that are slower are listed without."""

SCHEMA = "kvtop.ls/1"


def run(options: argparse.Namespace) -> int:
    """0 when every engine that has a socket answers (or there is none), else 1."""
    everywhere = all_engines()
    alive = [found for found in everywhere.engines if found.alive]
    seen = glance([SocketSource(found.path) for found in alive], WITHIN) if alive else []
    states = {found.path: state for found, state in zip(alive, seen, strict=True)}
    facts = [_facts(found, states.get(found.path)) for found in everywhere.engines]
    if options.json:
        looked = [{"folder": str(place.folder), "trouble": place.trouble or None} for place in everywhere.places]
        print(json.dumps({"schema": SCHEMA, "engines": facts, "looked_in": looked}, indent=1, allow_nan=False))
    elif facts:
        print(table(*_columns(facts), width=columns(sys.stdout), cut=_CUT))
        for line in not_looked(everywhere):
            print(one_line(line), file=sys.stderr)
    else:
        print(one_line(f"no engine is running; {START_ONE}; {where_looked(everywhere)}", 1000), file=sys.stderr)
    return 0 if all(fact["alive"] for fact in facts) else 1


def _facts(found: Found, state: EngineState | None) -> dict[str, Any]:
    """Figures are null where the engine is dead, exposes them not, or did not tell them in time."""
    hello = found.hello
    facts: dict[str, Any] = {"name": found.name, "alive": found.alive, "detail": one_line(found.detail) or None}
    facts |= {
        "socket": str(found.path),
        "kind": None,
        "run": None,
        "model": None,
        "pid": None,
        "uptime_s": None,
        "http": None,
    }
    if hello is not None:
        started = hello.engine.started
        facts |= {
            "kind": hello.engine.kind,
            "run": hello.engine.run,
            "model": hello.model.name,
            "pid": hello.engine.pid,
            "http": hello.engine.http,
            "uptime_s": None if started is None else max(0.0, time.time() - started),
        }
    gauges = {} if state is None or not heard(state) else state.gauges
    total, used = gauges.get("kv_blocks_total"), None
    if "kv_blocks_active" in gauges and "kv_blocks_shared" in gauges:
        used = gauges["kv_blocks_active"] + gauges["kv_blocks_shared"]
    share = used / total if used is not None and total else gauges.get("kv_usage")
    return facts | {
        "kv_blocks_used": used,
        "kv_blocks_total": total,
        "kv_usage": share,
        "running": gauges.get("running"),
        "waiting": gauges.get("waiting"),
    }


_HEADINGS = ("NAME", "STATE", "KIND", "MODEL", "PID", "UP", "KV USED", "RUNNING", "WAITING")

_CUT = ("STATE", "FOLDER", "MODEL", "HTTP")
"""Headings of the columns whose ends matter least: what is wrong with a dead engine is a sentence."""


def _columns(facts: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; with where each takes requests where one does, and with the folder of each where they differ."""
    headings, rows = list(_HEADINGS), [_row(fact) for fact in facts]
    further = {"HTTP": [one_line(fact["http"] or "–", 64) for fact in facts]} if any(f["http"] for f in facts) else {}
    folders = [str(Path(fact["socket"]).parent) for fact in facts]
    if len(set(folders)) > 1:
        further["FOLDER"] = folders
    for heading, values in further.items():
        headings.append(heading)
        for row, value in zip(rows, values, strict=True):
            row.append(value)
    return headings, rows


def _row(fact: dict[str, Any]) -> list[str]:
    usage = fact["kv_usage"]
    return [
        fact["name"],
        "alive" if fact["alive"] else f"down: {fact['detail']}",
        called(fact["kind"] or "–", 16),
        called(fact["model"] or "–", 32),
        number(fact["pid"]),
        age(fact["uptime_s"]),
        "–" if usage is None else f"{100 * usage:.0f} %",
        number(fact["running"]),
        number(fact["waiting"]),
    ]
