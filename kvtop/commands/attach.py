"""``kvtop`` and ``kvtop attach NAME|SOCKET``: the screen on a running engine."""

import argparse

from kvtop.commands.alarms import alarm_settings
from kvtop.commands.preferences import preferences
from kvtop.commands.service_level import level_of
from kvtop.commands.settings_options import chosen
from kvtop.commands.target import control_of, find_engine
from kvtop.commands.tty import require_screen, restored, signals_raise
from kvtop.errors import UserError
from kvtop.settings.resolve import Chosen
from kvtop.sources.discover import Found


def run(options: argparse.Namespace) -> int:
    choice = chosen(options)
    alarm_settings(choice)  # what is typed wrong is wrong whatever engines there are
    level_of(choice)
    found = found_engine(options.target, choice)
    require_screen()

    wanted = preferences(choice)
    from kvtop.app.app import run as show
    from kvtop.sources.history import History
    from kvtop.sources.socket import SocketSource

    source = SocketSource(found.path, history=History())
    with signals_raise(), restored():
        return show(source, control_of(found.path), wanted)


def found_engine(target: str | None, choice: Chosen) -> Found:
    """The engine that was named, else that of the settings, else the only one. Raises `UserError`."""
    if target is not None or choice.settings.engine is None:
        return find_engine(target, ask=True)
    try:
        return find_engine(choice.settings.engine)
    except UserError as error:
        # Nobody has typed that name now.
        raise UserError(f"{choice.places['engine']}: engine: {error.message}", error.hint, error.code) from None
