"""What ``s`` writes: the snapshot's JSON and the screen as SVG beside it."""

import time
from pathlib import Path

from kvtop.snapshot.document import default_stem, save, snapshot_document
from kvtop.state import EngineState


def write_snapshot(state: EngineState, folder: Path, svg: str | None, now: float) -> list[Path]:
    """Writes both files into ``folder`` and returns them. ``now`` is the viewer's monotonic clock.

    Raises UserError where the files cannot be written, ValueError where no engine has been heard yet.
    """
    wall = time.time()
    document = snapshot_document(state, wall, now)
    assert state.hello is not None
    return save(document, folder / f"{default_stem(state.hello.engine.name, wall)}.json", svg)
