"""What one or more frames changed, so that a screen redraws that and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtop.protocol import Event

Indices = npt.NDArray[np.int64]
NO_BLOCKS: Indices = np.empty(0, dtype=np.int64)


class Marker(NamedTuple):
    """A line in the event log that the viewer wrote itself: frames missed, link lost, engine restarted, a clock that
    jumped, an alarm that began or ended."""

    kind: Literal["gap", "link", "restart", "clock", "alarm"]
    wall: float | None
    iteration: int | None
    severity: str
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

    @classmethod
    def together(cls, parts: "Sequence[Changes]") -> "Changes":
        """What ``parts`` changed one after the other."""
        news = [part for part in parts if part]
        if len(news) == 1:
            return news[0]
        together = cls()
        blocks = []
        for part in news:
            together.full |= part.full
            together.hello |= part.hello
            together.policy |= part.policy
            together.link |= part.link
            together.numbers |= part.numbers
            together.requests |= part.requests
            together.events += part.events
            if len(part.blocks):
                blocks.append(part.blocks)
        if blocks:
            together.blocks = blocks[0] if len(blocks) == 1 else np.unique(np.concatenate(blocks))
        return together
