"""What the real engine was recorded saying: the protocol's own lines, compressed, one file a scene (`tests.record`)."""

import gzip
from functools import cache
from pathlib import Path

from kvtop.protocol import AnyFrame, Hello, IterationFrame, Keyframe, decode_frame

FOLDER = Path(__file__).parent / "data" / "recordings"


@cache
def recorded(scene: str) -> tuple[AnyFrame, ...]:
    """All frames of a scene, in order: a hello, a keyframe, iterations; after a goodbye maybe another hello."""
    lines = gzip.decompress((FOLDER / f"{scene}.ndjson.gz").read_bytes()).splitlines()
    return tuple(decode_frame(line) for line in lines)


class RecordedEngine:
    """Tells a scene anew, one iteration a step. Its keyframe is the one the scene opens with."""

    def __init__(self, scene: str = "crowded") -> None:
        self._hello, self._keyframe, *self._frames = recorded(scene)
        self._told = 0

    def hello(self) -> Hello:
        assert isinstance(self._hello, Hello)
        return self._hello

    def keyframe(self) -> Keyframe:
        assert isinstance(self._keyframe, Keyframe)
        assert self._told == 0, "a recording has no later keyframe; use a LiveEngine"
        return self._keyframe

    def step(self) -> IterationFrame:
        assert self._told < len(self._frames), "the recording is over; use a LiveEngine"
        frame = self._frames[self._told]
        assert isinstance(frame, IterationFrame)
        self._told += 1
        return frame
