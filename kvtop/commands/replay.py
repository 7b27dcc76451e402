"""``kvtop replay FILE``: the screen on a recording."""

import argparse
from datetime import datetime, timedelta
from pathlib import Path

from kvtop.commands.preferences import preferences
from kvtop.commands.settings_options import chosen
from kvtop.commands.tty import require_screen, restored, signals_raise
from kvtop.errors import UserError
from kvtop.record import Place, Recording, RecordingError, Tape

WHENS = "14:03:59, 2026-11-30T14:03:59, +90, -90, it:1234"


def run(options: argparse.Namespace) -> int:
    choice = chosen(options)
    tape = opened(Path(options.file))
    at = None if options.at is None else place_of(options.at, tape)
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


def place_of(when: str, tape: Tape) -> Place | None:
    """The moment that ``when`` means in ``tape``. Raises `UserError` where it means none."""
    spans = tape.spans()
    start, end = spans[0].wall_first, spans[-1].wall_last
    text = when.strip()
    if text.startswith("it:") and text[3:].isdecimal():
        return tape.at_iteration(int(text[3:]))
    if text[:1] in ("+", "-"):
        seconds = _seconds(text[1:])
        if seconds is not None:
            return tape.at_wall(start + seconds if text[0] == "+" else end - seconds)
    if (wall := _wall(text, end)) is not None:
        if wall < start - 1.0:
            raise UserError(f"--at {when}: the recording begins only at {_shown(start)}", "--at +0 is its start")
        return tape.at_wall(wall)
    raise UserError(f"--at {when!r} is no moment", f"as in {WHENS}", code=2)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0.0 <= seconds < 1e9 else None


def _wall(text: str, end: float) -> float | None:
    """A date and time, or a time of day: the latest that is not behind ``end``. Unix seconds."""
    last = datetime.fromtimestamp(end)
    for form in ("%H:%M:%S", "%H:%M"):
        try:
            at = datetime.strptime(text, form).time()
        except ValueError:
            continue
        moment = datetime.combine(last.date(), at)
        return (moment if moment <= last else moment - timedelta(days=1)).timestamp()
    try:
        return datetime.fromisoformat(text).timestamp() if text[:4].isdecimal() and "T" in text else None
    except (ValueError, OverflowError):
        return None


def _shown(wall: float) -> str:
    return datetime.fromtimestamp(wall).isoformat(sep=" ", timespec="seconds")
