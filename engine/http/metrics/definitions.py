"""What a metric is: its name, its meaning, and how its samples are found in one moment of the engine."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from engine.http.gate import Status
from engine.serving.histogram import Counted
from engine.serving.meter import Reading

Kind = Literal["gauge", "counter", "histogram"]

Labels = tuple[str, ...]
"""Values, in the order of their metric's labels."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What a scrape sees."""

    state: Status
    names: tuple[str, ...]
    """What the model may be called; empty before it is there."""
    reading: Reading | None
    """None before there is an engine."""
    responses: dict[tuple[str, str, int], int]
    """HTTP answers by route, method and status."""
    aborts: dict[str, int]
    """Answers whose client went away before their end, by route."""
    active: int
    """Requests that are being answered."""
    connections: int
    tasks: int
    """Of the server's event loop."""


@dataclass(frozen=True, slots=True)
class Metric:
    """``read`` gives samples by label values; none where the engine does not know.

    ``name`` is as Prometheus has it, with the ending _total of a counter. ``panel``: of the dashboard, where it has one.
    """

    name: str
    kind: Kind
    help: str
    read: Callable[[Moment], Iterable[tuple[Labels, float | Counted]]]
    labels: Labels = ()
    panel: str = ""

    @property
    def series(self) -> str:
        """What a query names: of a histogram its buckets."""
        return f"{self.name}_bucket" if self.kind == "histogram" else self.name


Samples = Iterable[tuple[Labels, float | Counted]]


def of_reading(read: Callable[[Reading], Samples]) -> Callable[[Moment], Samples]:
    """What is known only where there is an engine."""

    def found(moment: Moment) -> Samples:
        return () if moment.reading is None else read(moment.reading)

    return found


def only(value: float | Counted | None) -> Samples:
    """The one sample of a metric without labels."""
    return () if value is None else [((), value)]
