"""``kvtop`` and ``kvtop attach NAME|SOCKET``: the screen on a running engine."""

import argparse

from kvtop.commands.target import control_of, find_engine
from kvtop.commands.tty import ascii_only, current_folder, paper, require_screen, restored, signals_raise
from kvtop.term.environment import prepare_environment


def run(options: argparse.Namespace) -> int:
    found = find_engine(options.target, ask=True)
    require_screen()

    prepare_environment()  # before Textual reads it
    from kvtop.app.app import run as show
    from kvtop.sources.socket import SocketSource

    source = SocketSource(found.path)
    with signals_raise(), restored():
        return show(
            source,
            control_of(found.path),
            snapshot_folder=current_folder(),
            ascii_only=ascii_only(options.ascii),
            paper=paper(options.paper),
        )
