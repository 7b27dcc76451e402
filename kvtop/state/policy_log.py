"""Which policy was changed when, to what and by whom."""

from collections import deque
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, NamedTuple

from kvtop.protocol import Event, PolicyValue
from kvtop.state.changes import LogEntry

KEPT: Final = 64


class PolicyChange(NamedTuple):
    """``at``: seconds of the history's clock; ``uid`` and ``pid`` None: nobody commanded it, or the engine does not say."""

    axis: str
    old: PolicyValue | None
    new: PolicyValue | None
    at: float
    wall: float | None
    iteration: int | None
    uid: int | None
    pid: int | None


class PolicyLog:
    """The latest `KEPT` changes, oldest first."""

    def __init__(self) -> None:
        self.changes: deque[PolicyChange] = deque(maxlen=KEPT)

    def take(
        self,
        before: Mapping[str, PolicyValue],
        after: Mapping[str, PolicyValue],
        events: Iterable[LogEntry],
        *,
        at: float,
        wall: float,
        iteration: int,
        ahead: bool = False,
    ) -> None:
        """What a frame at ``at`` told: events say who changed it and when by the time of day; an engine that tells none
        still shows that a value is another than ``before``. ``ahead``: its events may be younger than ``at``."""
        told = set()
        for event in events:
            if isinstance(event, Event) and event.kind == "policy" and event.axis is not None:
                told.add(event.axis)
                # Events of a keyframe may be older than it by hours, never younger.
                ago = wall - event.wall
                if not isfinite(ago) or (ago < 0 and not ahead):
                    ago = 0.0
                self.changes.append(
                    PolicyChange(
                        event.axis, event.old, event.new, at - ago, event.wall, event.iteration, event.uid, event.pid
                    )
                )
        for axis, value in after.items():
            if before and axis in before and before[axis] != value and axis not in told:
                self.changes.append(PolicyChange(axis, before[axis], value, at, wall, iteration, None, None))

    def latest(self, axis: str) -> PolicyChange | None:
        return next((change for change in reversed(self.changes) if change.axis == axis), None)

    def copy(self) -> "PolicyLog":
        twin = PolicyLog()
        twin.changes = self.changes.copy()
        return twin
