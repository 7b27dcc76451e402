"""What ``s`` does: the snapshot of a state that stands still, and the screen as a picture beside it."""

import threading
from collections.abc import Callable
from pathlib import Path

from kvtop.errors import UserError
from kvtop.snapshot.files import write_snapshot
from kvtop.state import EngineState

Said = Callable[[str, str], None]
"""Takes what came of it in words, and a severity; called in the thread that wrote."""


def write_aside(state: EngineState, folder: Path, picture: Callable[[], str], now: float, said: Said) -> None:
    """Writes the files in a thread of its own: of a million blocks it takes seconds, and keys go on meanwhile.

    ``state`` stands still; ``picture`` makes the SVG; ``now``: the viewer's monotonic clock.
    """

    def write() -> None:
        try:
            written = write_snapshot(state, folder, picture(), now)
        except (UserError, ValueError, OSError) as error:
            said(f"no snapshot: {error}", "error")
        else:
            names = "\n".join(path.name for path in written)
            said(f"snapshot in {folder}\n{names}", "information")

    # Not a daemon: who presses s and then q gets the snapshot.
    threading.Thread(target=write, name="kvtop-snapshot").start()
