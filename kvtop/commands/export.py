"""``kvtop export``: a recording in the format of another program."""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from kvtop.commands.recorded import Recorded, recorded, screen_at
from kvtop.commands.replay import place_at
from kvtop.commands.tty import signals_raise
from kvtop.commands.whole_file import whole_file
from kvtop.errors import UserError, one_line
from kvtop.export.csv import csv_rows
from kvtop.export.lines import json_lines
from kvtop.export.openmetrics import openmetrics_series
from kvtop.export.parquet import require_pyarrow, write_parquet
from kvtop.export.perfetto import perfetto_trace
from kvtop.export.stretch import NothingToExport, Stretch
from kvtop.record import Place
from kvtop.views.format import plural

AGAIN = "give another place: kvtop export … -o FILE"

SAID = 10
"""Places that are named where something is missing; more are counted."""

TEXTS: dict[str, Callable[[Stretch], Iterator[str]]] = {
    "csv": csv_rows,
    "json": json_lines,
    "openmetrics": openmetrics_series,
    "perfetto": perfetto_trace,
}
ENDINGS = {
    "csv": ".csv",
    "json": ".ndjson",
    "openmetrics": ".openmetrics.txt",
    "perfetto": ".trace.json",
    "parquet": ".parquet",
    "svg": ".svg",
}


def run(options: argparse.Namespace) -> int:
    _fitting(options)
    source = Path(options.file)
    with signals_raise(), recorded(source) as found:
        if options.to == "svg":
            svg = screen_at(found.tape, _moment(found, options.at), options.size)
            if svg is None:
                raise UserError(f"{source}: nothing is recorded there that could be drawn")
            _write(iter([svg]), options, source)
            return 0
        stretch = _stretch(found, options)
        try:
            if options.to == "parquet":
                with whole_file(_place(options, source), AGAIN) as file:
                    write_parquet(stretch, file)
                print(_place(options, source))
            else:
                _write(TEXTS[options.to](stretch), options, source)
        except NothingToExport as error:
            raise UserError(f"{source}: {error}") from None
        _say(stretch.trouble())
    return 0


def _say(trouble: list[str]) -> None:
    """What is not all there, the first of it."""
    for what in trouble[:SAID]:
        print(f"kvtop: not all of it is there: {one_line(what)}", file=sys.stderr)
    if len(trouble) > SAID:
        print(f"kvtop: and {plural(len(trouble) - SAID, 'more place')} where it is not", file=sys.stderr)


def _fitting(options: argparse.Namespace) -> None:
    """Raises `UserError` for options that the format has no use for."""
    if options.to == "svg" and (options.first is not None or options.last is not None):
        raise UserError("a picture is of one moment", "kvtop export FILE --to svg --at WHEN", code=2)
    if options.to != "svg" and options.at is not None:
        raise UserError("--at is for --to svg", "a stretch: --from WHEN --to-moment WHEN", code=2)
    if options.to == "parquet":
        require_pyarrow()
        if options.output == "-":
            raise UserError("a Parquet file cannot go to standard output", "-o FILE", code=2)


def _moment(found: Recorded, when: str | None) -> Place:
    return found.at if when is None else place_at(when, found.tape)


def _stretch(found: Recorded, options: argparse.Namespace) -> Stretch:
    tape = found.tape
    assert tape.start is not None
    assert tape.end is not None
    first = tape.start if options.first is None else place_at(options.first, tape, "--from")
    last = tape.end if options.last is None else place_at(options.last, tape, "--to-moment")
    if last < first:
        raise UserError("--to-moment is before --from", "--from is the earlier of the two", code=2)
    return Stretch(tape, first, last)


def _place(options: argparse.Namespace, source: Path) -> Path:
    """The file to write; in a folder it is called as the recording is."""
    place = Path(options.output)
    return place / f"{source.stem}{ENDINGS[options.to]}" if place.is_dir() else place


def _write(pieces: Iterator[str], options: argparse.Namespace, source: Path) -> None:
    if options.output == "-":
        # A file's bytes whatever the terminal's encoding is.
        for piece in pieces:
            sys.stdout.buffer.write(piece.encode(errors="replace"))
        return
    place = _place(options, source)
    with whole_file(place, AGAIN) as file:
        for piece in pieces:
            file.write(piece.encode(errors="replace"))
    print(place)
