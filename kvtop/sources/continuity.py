"""Whether frames follow one another without a hole, and what to do when they do not."""

from collections.abc import Sequence

from kvtop.protocol.events import Event
from kvtop.protocol.frames import Gap, IterationFrame, Keyframe


class Continuity:
    """Lets frames through that build on what the viewer has; without that, only events, until a keyframe comes."""

    def __init__(self) -> None:
        self._position: int | None = None
        self._asked = False
        self._want = False

    def take(self, frame: IterationFrame | Keyframe | Gap) -> Sequence[IterationFrame | Keyframe | Gap]:
        """What the viewer may apply."""
        if isinstance(frame, Keyframe):
            self._position = frame.seq
            self._asked = self._want = False
            return [frame]
        if isinstance(frame, Gap):
            self._position = None  # the protocol promises a keyframe next
            return [frame]
        first = frame.seq - frame.merged + 1
        if self._position is None:
            self._ask()
            return _only_events(first, frame.seq, "frames before a keyframe", frame.events)
        if first == self._position + 1:
            self._position = frame.seq
            return [frame]
        if frame.seq <= self._position:
            return []
        hole = Gap(
            first=self._position + 1, last=frame.seq, reason=f"hole before frame {first}", events=list(frame.events)
        )
        self.lost()
        return [hole]

    @property
    def position(self) -> int | None:
        """Seq of the latest frame that was let through; None where a keyframe is needed."""
        return self._position

    def lost(self) -> None:
        """Frames that were let through did not reach the viewer: it needs a keyframe."""
        self._position = None
        self._asked = False
        self._ask()

    def wants_keyframe(self) -> bool:
        """True once for each time that a keyframe has to be asked for."""
        want, self._want = self._want, False
        return want

    def _ask(self) -> None:
        if not self._asked:
            self._asked = self._want = True


def _only_events(first: int, last: int, reason: str, events: list[Event]) -> list[Gap]:
    return [Gap(first=first, last=last, reason=reason, events=list(events))] if events else []
