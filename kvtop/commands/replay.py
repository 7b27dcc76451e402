"""``kvtop replay FILE``: the screen on a recording."""

import argparse
from pathlib import Path

from kvtop.commands.alarms import alarm_settings
from kvtop.commands.preferences import preferences
from kvtop.commands.service_level import level_of
from kvtop.commands.settings_options import chosen
from kvtop.commands.tty import require_screen, restored, signals_raise
from kvtop.errors import UserError
from kvtop.record import Place, Recording, RecordingError, Tape
from kvtop.record.when import WhenError, place_of


def run(options: argparse.Namespace) -> int:
    choice = chosen(options)
    alarm_settings(choice)
    level_of(choice)
    tape = opened(Path(options.file))
    at = None if options.at is None else place_at(options.at, tape)
    require_screen()

    wanted = preferences(choice)
    from kvtop.app.app import run as show
    from kvtop.sources.replay import ReplaySource

    source = ReplaySource(tape, str(options.file), speed=options.speed, at=at)
    with signals_raise(), restored():
        return show(
            source,
            preferences=wanted,
            read_only="this is a recording, and what it shows is over",
        )


def opened(path: Path) -> Recording:
    """Raises `UserError` for what cannot be shown."""
    try:
        tape = Recording(path)
    except RecordingError as error:
        raise UserError(str(error), "kvtop record NAME makes one") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", "kvtop replay FILE") from None
    if tape.start is None:
        tape.close()
        raise UserError(f"{path}: nothing whole is in it that could be shown", "kvtop record NAME makes another")
    return tape


def place_at(when: str, tape: Tape, option: str = "--at") -> Place:
    """The moment that ``when``, the value of ``option``, means in ``tape``. Raises `UserError` where it means none."""
    try:
        return place_of(when, tape)
    except WhenError as error:
        raise UserError(f"{option} {error}", f"{option} +0 is its start", code=2) from None
