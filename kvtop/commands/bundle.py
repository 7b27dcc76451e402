"""``kvtop bundle``: one file with the minutes around a moment, from a recording or an engine's flight recorder."""

import argparse
import os
import time
from pathlib import Path

from kvtop.bundle.bundle import Wanted, write_bundle
from kvtop.commands.recorded import screen_at
from kvtop.commands.replay import opened, place_at
from kvtop.commands.target import control_of, find_engine
from kvtop.errors import UserError, one_line
from kvtop.protocol import Dump
from kvtop.sources.control import ControlClient, ControlError
from kvtop.views.format import plural

DUMP_WITHIN_S = 30.0


def run(options: argparse.Namespace) -> int:
    place = Path(options.output)
    if place.exists() and not place.is_dir():
        raise UserError(f"{place} exists", "give another place: kvtop bundle … -o FILE")
    tape = opened(_recording(options.source))
    try:
        at = tape.end if options.at is None else place_at(options.at, tape)
        if at is None:
            raise UserError("nothing is recorded there")
        svg = None if options.no_svg or options.redact else screen_at(tape, at, options.size)
        screens = {} if svg is None else {"screen.svg": svg}
        wanted = Wanted(at, options.before, options.after, options.redact, screens)
        written, told = write_bundle(
            tape, wanted, place if place.suffix or place.is_dir() else place.with_suffix(".zip")
        )
    finally:
        tape.close()
    print(written)
    preempted = sum(victim.times for victim in told.victims)
    print(
        f"  {time.strftime('%H:%M:%S', time.localtime(told.began))} to {time.strftime('%H:%M:%S', time.localtime(told.ended))}:"
        f" {plural(preempted, 'preemption')} of {plural(len(told.victims), 'request')}"
    )
    for what in (*told.holes, *told.damage):
        print(f"  not all of it is there: {one_line(what)}")
    return 0


def _recording(source: str | None) -> Path:
    """The file to read: given, or written by an engine now."""
    if source is not None and Path(source).is_file():
        return Path(source)
    if source is not None and source.endswith(".kvtop"):
        raise UserError(f"{source}: no such file", "kvtop bundle FILE, or the name of an engine: kvtop ls")
    found = find_engine(source)
    run = None if found.hello is None else found.hello.engine.run
    try:
        reply = ControlClient(control_of(found.path)).send(Dump(id=f"bundle-{os.getpid()}", run=run), DUMP_WITHIN_S)
    except ControlError as error:
        raise UserError(str(error)) from None
    if not reply.ok:
        raise UserError(f"engine {found.name}: {one_line(reply.message)}")
    if reply.file is None:
        raise UserError(f"engine {found.name} did not say where it wrote: {one_line(reply.message)}")
    return Path(reply.file)
