"""What ``s`` does: the snapshot of a state that stands still, and the screen as a picture beside it."""

import threading
from collections.abc import Callable
from pathlib import Path

from kvtop.alarms import Report
from kvtop.snapshot.files import write_snapshot
from kvtop.state import EngineState

Said = Callable[[str, str], None]
"""Takes what came of it in words, and a severity; called in the thread that wrote."""


class SnapshotWriter:
    """Writes files in threads of its own: of a million blocks it takes seconds, and keys go on meanwhile."""

    def __init__(self) -> None:
        self._writing: list[threading.Thread] = []
        self._turn = threading.Lock()

    def write(
        self,
        state: EngineState,
        folder: Path,
        picture: Callable[[], str],
        now: float,
        said: Said,
        alarms: Report | None = None,
    ) -> None:
        """``state`` stands still, ``alarms`` are those in it; ``picture`` makes the SVG; ``now``: the viewer's monotonic
        clock."""

        def write() -> None:
            try:
                # One at a time: with two at work the screen's thread has its turn only when neither wants one.
                with self._turn:
                    written = write_snapshot(state, folder, picture(), now, alarms=alarms)
            except Exception as error:  # Whatever it is: a traceback would be written across the screen.
                said(f"no snapshot: {str(error) or type(error).__name__}", "error")
            else:
                first, *others = written
                also = "".join(f" and {path.suffix}" for path in others)
                said(f"snapshot {first.name}{also} in {folder}", "information")

        thread = threading.Thread(target=write, name="kvtop-snapshot", daemon=True)
        self._writing = [*(other for other in self._writing if other.is_alive()), thread]
        thread.start()

    def finish(self) -> None:
        """Waits for what is being written: who presses s and then q gets the snapshot. The process does not wait by
        itself (see `kvtop.cli.entry`)."""
        for thread in self._writing:
            thread.join()
