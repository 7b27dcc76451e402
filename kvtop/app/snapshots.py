"""What ``s`` and ``S`` do: the snapshot of a state that stands still, and an incident bundle, in threads of their own."""

import threading
from collections.abc import Callable
from pathlib import Path

from kvtop.alarms import Report
from kvtop.record import Place, Tape
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
                    written = write_snapshot(state, folder, picture(), now, None, alarms)
            except Exception as error:  # Whatever it is: a traceback would be written across the screen.
                said(f"no snapshot: {str(error) or type(error).__name__}", "error")
            else:
                first, *others = written
                also = "".join(f" and {path.suffix}" for path in others)
                said(f"snapshot {first.name}{also} in {folder}", "information")

        self._begin(write)

    def bundle(self, tape: Tape, place: Place, folder: Path, picture: Callable[[], str], said: Said) -> None:
        """An incident bundle of what was recorded around ``place``. ``tape`` is closed in the end."""

        def write() -> None:
            from kvtop.bundle.bundle import Wanted, write_bundle

            try:
                with self._turn:
                    written, _ = write_bundle(tape, Wanted(place, screens={"screen.svg": picture()}), folder)
            except Exception as error:  # as above
                said(str(error) or f"no bundle: {type(error).__name__}", "error")
            else:
                said(f"bundle {written.name} in {folder}", "information")
            finally:
                tape.close()

        self._begin(write)

    def _begin(self, write: Callable[[], None]) -> None:
        thread = threading.Thread(target=write, name="kvtop-snapshot", daemon=True)
        self._writing = [*(other for other in self._writing if other.is_alive()), thread]
        thread.start()

    def finish(self) -> None:
        """Waits for what is being written: who presses s and then q gets the snapshot. The process does not wait by
        itself (see `kvtop.cli.entry`)."""
        for thread in self._writing:
            thread.join()
