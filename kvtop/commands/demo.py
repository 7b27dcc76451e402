"""``kvtop demo``: the engine as a child with a workload, and the screen; leaving the screen ends both."""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvtop.commands.alarms import alarm_lines, alarm_settings
from kvtop.commands.child import EngineChild, Ready, require_engine, signal_name
from kvtop.commands.preferences import preferences
from kvtop.commands.progress import ProgressLine
from kvtop.commands.settings_options import chosen
from kvtop.commands.table import number
from kvtop.commands.target import place_fault
from kvtop.commands.tty import require_screen, restored, signals_raise
from kvtop.errors import UserError, one_line
from kvtop.protocol.places import PlaceError, socket_folder, valid_name
from kvtop.sources.discover import search

if TYPE_CHECKING:
    from kvtop.alarms import Settings
    from kvtop.app.preferences import Preferences

FIRST_KEYFRAME_WITHIN = 120.0
"""Seconds for the first iteration, which may be a long one: a real model, warming up, on a busy machine."""


def run(options: argparse.Namespace) -> int:
    choice = chosen(options)
    thresholds = alarm_settings(choice)
    if not options.once:
        require_screen()
    require_engine()
    place = _place_for(options.name)
    child = EngineChild(engine_arguments(options), place / f"{options.name}.log")
    progress = ProgressLine()
    with signals_raise():
        try:
            child.start()
            wanted = None if options.once else preferences(choice)  # while the engine starts
            try:
                ready = child.wait_ready(progress, progress.note)
            finally:
                progress.close()
            if wanted is not None:
                return _watch_screen(child, ready, wanted)
            return _watch_once(child, ready, options, thresholds)
        finally:
            child.stop()


@dataclass(frozen=True, slots=True)
class Preset:
    """What a demo starts with where nothing else was asked for."""

    settings: dict[str, int]
    policies: tuple[str, ...]
    workload: str = "mix"


PRESETS = {
    # A host tier that soon overflows to disk, and prompts that come back after others have taken their blocks.
    "tiers": Preset(
        {"blocks": 160, "host_blocks": 64, "disk_blocks": 768},
        ("preempt_action=swap", "offload=on_evict", "max_running=16"),
    ),
    # Samples that fork and copy, prompts that outlive others in the cache, tenants that share nothing with each other.
    "sharing": Preset({"blocks": 320}, ("eviction=priority", "partial_reuse=copy", "max_running=24"), "sharing"),
}


def preset_arguments(name: str) -> list[str]:
    """The engine's command line for a preset alone."""
    preset = PRESETS[name]
    arguments = [word for k, v in preset.settings.items() for word in (f"--{k.replace('_', '-')}", str(v))]
    arguments += [word for setting in preset.policies for word in ("--set", setting)]
    return [*arguments, "--workload", preset.workload]


def engine_arguments(options: argparse.Namespace) -> list[str]:
    """The engine's command line for the demo's options; options that were not given are the engine's to choose."""
    preset = Preset({}, ()) if options.preset is None else PRESETS[options.preset]
    workload = options.workload or preset.workload
    arguments = ["--parent-stdin", "--ready-json", "--workload", workload, "--model", options.model]
    if options.model == "smollm2":
        arguments.append("--fallback-random")
    for name in (
        "name",
        "seed",
        "blocks",
        "block_size",
        "host_blocks",
        "disk_blocks",
        "disk_path",
        "device",
        "attention",
        "kv_dtype",
        "window",
        "rate",
        "http",
        "http_token",
        "metrics_names",
    ):
        if (value := getattr(options, name)) is None:
            value = preset.settings.get(name)
        if value is not None:
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    for setting in (*preset.policies, *options.set):
        arguments += ["--set", setting]
    for flag in ("expose_text", "http_open"):
        if getattr(options, flag):
            arguments.append(f"--{flag.replace('_', '-')}")
    return arguments


def _place_for(name: str) -> Path:
    """The socket folder, made if need be. Raises `UserError` where an engine of that name cannot be started."""
    if not valid_name(name):
        raise UserError(f"{name!r} cannot be a name", "letters, digits, dot, dash, underscore; 64 at most", code=2)
    try:
        place = socket_folder(create=True)
    except PlaceError as error:
        raise place_fault(str(error), code=2) from None
    if any(engine.name == name and engine.alive for engine in search().engines):
        raise UserError(
            f"an engine named {name} is running",
            f"watch it: kvtop attach {name}; or start one more: kvtop demo --name {name}2",
            code=2,
        )
    return place


def _watch_screen(child: EngineChild, ready: Ready, wanted: "Preferences") -> int:
    from kvtop.app.app import run as show
    from kvtop.sources.history import History
    from kvtop.sources.socket import SocketSource

    with restored():
        result = show(SocketSource(ready.socket, history=History()), ready.control, wanted)
    if (code := child.exit_code) is not None:
        how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        raise UserError(f"the engine {how}", f"its log: {child.log}")
    return result


def _watch_once(child: EngineChild, ready: Ready, options: argparse.Namespace, thresholds: "Settings") -> int:
    from kvtop.commands.watch import watch
    from kvtop.snapshot.document import dumps, snapshot_document
    from kvtop.sources.socket import SocketSource

    source = SocketSource(ready.socket)
    feed = watch(
        source,
        options.seconds,
        keep_going=lambda: child.exit_code is None,
        answer_within=FIRST_KEYFRAME_WITHIN,
        thresholds=thresholds,
    )
    if child.exit_code is not None:
        raise UserError(f"the engine did not last {options.seconds:g} s: {child.obituary()}", f"its log: {child.log}")
    document = snapshot_document(feed.live, time.time(), time.monotonic(), feed.alarms)
    sys.stdout.write(dumps(document) if options.json else _summary(document))
    return 1 if document["ledger_violations"] or document["contradictions"] else 0


_SUMMARY = (
    ("iteration", "iterations"),
    ("kv_blocks_total", "KV blocks"),
    ("kv_blocks_free", "of them free"),
    ("active_sequences", "requests running"),
    ("waiting_sequences", "requests waiting"),
    ("admissions", "admissions"),
    ("preemptions", "preemptions"),
    ("evictions", "evictions"),
    ("prefix_cache_hits", "prompt tokens from the prefix cache"),
    ("ledger_violations", "ledger violations"),
)


def _summary(document: dict[str, Any]) -> str:
    """A few lines for a person; programs ask for --json."""
    lines = [one_line(f"{document['model']['name']} on {document['device']}: {document['workload'] or 'no workload'}")]
    lines += [f"{number(document[name]):>10}  {label}" for name, label in _SUMMARY]
    lines += alarm_lines(document["alarms"])
    return "\n".join(lines) + "\n"
