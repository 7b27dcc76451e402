"""``kvtop diff A B``: what differs between two snapshots, bundles, or moments of recordings."""

import argparse
import json
import sys
from pathlib import Path

from kvtop.commands.recorded import recorded
from kvtop.commands.replay import place_at
from kvtop.commands.table import columns
from kvtop.errors import UserError
from kvtop.export.difference import difference_document
from kvtop.snapshot.reading import SnapshotError, read_snapshot
from kvtop.state import EngineState
from kvtop.state.difference import difference
from kvtop.state.moment import moment
from kvtop.views.clusters import spell
from kvtop.views.difference import difference_rows

WIDTH = 120
"""Cells of a line that goes to no terminal."""


def run(options: argparse.Namespace) -> int:
    before, after = _state(options.a), _state(options.b)
    if _later(before, after):
        before, after = after, before
        print("kvtop: A is later than B: told from B to A", file=sys.stderr)
    told = difference(before, after)
    if options.json:
        print(json.dumps(difference_document(told), indent=1, allow_nan=False))
        return 0
    for row in difference_rows(told, columns(sys.stdout) or WIDTH):
        print(spell(row.text).rstrip())
    return 0


def _later(a: EngineState, b: EngineState) -> bool:
    """Whether both are of one run and ``a`` is the later."""
    return a.run == b.run and a.mono is not None and b.mono is not None and a.mono > b.mono


def _state(named: str) -> EngineState:
    """What ``named`` says was; raises `UserError`."""
    path, when = Path(named), None
    if not path.exists() and "@" in named:
        file, _, when = named.rpartition("@")
        path = Path(file)
    if not path.is_file():
        raise UserError(
            f"{path}: {'is no file' if path.exists() else 'no such file'}",
            "a snapshot, a bundle, or a recording, and of these a moment: FILE@WHEN",
        )
    if _is_snapshot(path):
        if when is not None:
            raise UserError(f"{path}: a snapshot is of one moment, and @{when} asks for another", code=2)
        try:
            return read_snapshot(path)
        except SnapshotError as error:
            raise UserError(f"{path}: {error}", "kvtop snapshot FILE writes one") from None
    with recorded(path) as found:
        at = found.at if when is None else place_at(when, found.tape, f"{path}@")
        there = moment(found.tape, at)
        if there is None:
            raise UserError(f"{named}: what is recorded of that moment is damaged or gone")
        if there.trouble:
            print(f"kvtop: {named}: not that moment: {there.trouble}", file=sys.stderr)
        return there.state


def _is_snapshot(path: Path) -> bool:
    """By what it begins with, as an object of JSON does."""
    with path.open("rb") as file:
        return file.read(64).lstrip()[:1] == b"{"
