"""``kvtop snapshot``: one JSON file of what an engine is doing, and an SVG of the screen beside it."""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtop.commands.alarms import alarm_lines
from kvtop.commands.target import find_engine, now_of_another_run
from kvtop.commands.watch import watch
from kvtop.errors import UserError, one_line
from kvtop.snapshot.document import dumps, snapshot_document
from kvtop.snapshot.files import save, save_new
from kvtop.sources.socket import SocketSource
from kvtop.term.environment import prepare_environment


def run(options: argparse.Namespace) -> int:
    target = _output(options)
    folder = Path() if target is None else target
    if target is not None and target.is_dir():
        target = None
    elif target is not None and (target := _with_ending(target)).exists():
        raise UserError(f"{target} exists", "give another name: kvtop snapshot FILE")
    found = find_engine(options.engine)
    feed = watch(SocketSource(found.path), options.watch)
    state = feed.live
    if (other := now_of_another_run(found, state)) is not None:
        print(other, file=sys.stderr)
    wall, now = time.time(), time.monotonic()
    document = snapshot_document(state, wall, now, feed.alarms)
    for line in alarm_lines(document["alarms"]):
        print(line, file=sys.stderr)
    code = 1 if _contradicts_itself(document) else 0
    if target is None and _to_stdout(options):
        sys.stdout.write(dumps(document))
        return code
    svg = None
    if not options.no_svg:
        prepare_environment()  # before Textual reads it
        from kvtop.app.picture import screen_svg

        svg = screen_svg(state, options.size, now, alarms=feed.alarms)
    files = save_new(document, folder, found.name, wall, svg) if target is None else save(document, target, svg)
    for path in files:
        print(path)
    return code


def _contradicts_itself(document: Mapping[str, Any]) -> bool:
    """What was written does not add up; who takes snapshots by a script is told so by the exit code."""
    for said in document["contradictions"]:
        print(f"contradiction: {one_line(said)}", file=sys.stderr)
    if document["ledger_violations"]:
        print(f"the engine has found contradictions of its own: {document['ledger_violations']}", file=sys.stderr)
    return bool(document["contradictions"] or document["ledger_violations"])


def _to_stdout(options: argparse.Namespace) -> bool:
    return "-" in (options.file, options.output)


def _output(options: argparse.Namespace) -> Path | None:
    """The file that was asked for, or the folder for a name of our choice; None for stdout and the current folder."""
    if options.file is not None and options.output is not None:
        raise UserError("FILE was given twice", "kvtop snapshot FILE   or   kvtop snapshot -o FILE", code=2)
    name = options.file if options.file is not None else options.output
    if name is None or name == "-":
        return None
    if not name or not one_line(name):
        raise UserError("the file's name is empty", "kvtop snapshot FILE", code=2)
    return Path(name)


def _with_ending(path: Path) -> Path:
    return path if path.suffix == ".json" else path.with_name(path.name + ".json")
