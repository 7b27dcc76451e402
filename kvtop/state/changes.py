"""What one or more frames changed, so that a screen redraws that and nothing else."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.protocol import Event

Indices = npt.NDArray[np.int64]
NO_BLOCKS: Indices = np.empty(0, dtype=np.int64)


class Marker(NamedTuple):
    """A line in the event log that the viewer wrote itself: frames missed, link lost, engine restarted."""

    kind: Literal["gap", "link", "restart"]
    wall: float | None
    iteration: int | None
    severity: Literal["info", "warn", "error"]
    text: str


LogEntry = Event | Marker


@dataclass(slots=True)
class Changes:
    """``full``: everything may differ (a keyframe, a new engine). ``blocks``: sorted, each once."""

    full: bool = False
    blocks: Indices = field(default_factory=lambda: NO_BLOCKS)
    requests: set[int] = field(default_factory=set)
    events: list[LogEntry] = field(default_factory=list)
    hello: bool = False
    policy: bool = False
    link: bool = False
    numbers: bool = False
    """Gauges, counters, tiers, queue, verdict, status or batch were reported."""

    def __bool__(self) -> bool:
        return bool(
            self.full
            or self.hello
            or self.policy
            or self.link
            or self.numbers
            or self.requests
            or self.events
            or len(self.blocks)
        )

    def merge(self, later: "Changes") -> "Changes":
        """What this and then ``later`` changed."""
        if not len(later.blocks):
            blocks = self.blocks
        elif not len(self.blocks):
            blocks = later.blocks
        else:
            blocks = np.union1d(self.blocks, later.blocks)
        return Changes(
            full=self.full or later.full,
            blocks=blocks,
            requests=self.requests | later.requests,
            events=self.events + later.events,
            hello=self.hello or later.hello,
            policy=self.policy or later.policy,
            link=self.link or later.link,
            numbers=self.numbers or later.numbers,
        )
