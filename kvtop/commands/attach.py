"""``kvtop`` and ``kvtop attach NAME|SOCKET``: the screen on a running engine."""

import argparse

from kvtop.commands.preferences import preferences
from kvtop.commands.settings_options import chosen
from kvtop.commands.target import control_of, find_engine
from kvtop.commands.tty import require_screen, restored, signals_raise


def run(options: argparse.Namespace) -> int:
    choice = chosen(options)
    found = find_engine(choice.settings.engine if options.target is None else options.target, ask=True)
    require_screen()

    wanted = preferences(choice)
    from kvtop.app.app import run as show
    from kvtop.sources.history import History
    from kvtop.sources.socket import SocketSource

    source = SocketSource(found.path, history=History())
    with signals_raise(), restored():
        return show(source, control_of(found.path), wanted)
