"""What a definition of a number consists of: meaning, unit, window, and the facts that engines send."""

from dataclasses import dataclass
from typing import NamedTuple

from kvtop.protocol import Batch, Counters, Durations, Gauges, MemoryFacts, Message, RequestChange, TierLevel

RATE_WINDOW = 5.0
"""Seconds over which rates a second are taken."""

LONG_WINDOW = 60.0
"""Seconds over which what happens seldom is taken: shares of hits, latencies, rates a minute."""

# Where less has been seen, the screen names the shorter time, and a snapshot has it beside the rates.
LAST_5_S = f"mean of the last {RATE_WINDOW:g} s"
LAST_60_S = f"mean of the last {LONG_WINDOW:g} s"
OVER_60_S = f"last {LONG_WINDOW:g} s"
SINCE_START = "since the engine's start"

_SENT: dict[str, type[Message]] = {
    "gauges": Gauges,
    "counters": Counters,
    "durations": Durations,
    "batch": Batch,
    "tiers": TierLevel,
    "requests": RequestChange,
    "memory": MemoryFacts,
}
"""Where engines send numbers: the first part of a source."""


class Term(NamedTuple):
    """A word of the screen that is no number. ``name`` as the screen shows it."""

    name: str
    meaning: str

    @property
    def text(self) -> str:
        return self.meaning


@dataclass(frozen=True, slots=True)
class Number:
    """One number.

    Attributes:
        name: As the screen shows it; empty where it is in files only.
        unit: What it counts or measures.
        sources: The facts it comes from: ``gauges.running``, ``counters.evictions``, ``requests.queue_s`` …
        own: Its meaning, where it is not that of its one source.
        window: Over which time; empty for a level.
        file: Its name in a snapshot: a field at the top, or ``rates.prefill_tokens``, ``requests.queue_time`` …
        beside: What the screen shows with it.
    """

    name: str
    unit: str
    sources: tuple[str, ...]
    own: str = ""
    window: str = ""
    file: str = ""
    beside: str = ""

    @property
    def meaning(self) -> str:
        return self.own or sent_meaning(self.sources[0])

    @property
    def measure(self) -> str:
        """Unit and window: ``tokens/s, mean of the last 5 s``."""
        return f"{self.unit}, {self.window}" if self.window else self.unit

    @property
    def text(self) -> str:
        """For the help: all of it."""
        return f"{self.meaning} ({self.measure})" + (f"; {self.beside}" if self.beside else "")


class Section(NamedTuple):
    name: str
    entries: tuple[Number | Term, ...]


def sent_meaning(source: str) -> str:
    """The protocol's own definition of a field that engines send. Raises KeyError where there is no such field."""
    part, _, field = source.partition(".")
    said = _SENT[part].model_fields[field].description
    assert said is not None, f"{source} has no description"
    return said


_UNITS = (
    ("tokens", "tokens"),
    ("bytes", "bytes"),
    ("stall_ms", "milliseconds"),
    ("ms_per_block", "milliseconds"),
    ("blocks", "blocks"),
    ("promotions", "blocks"),
    ("evictions", "blocks"),
    ("drops", "blocks"),
    ("usage", "share"),
    ("iterations", "iterations"),
    ("preemptions", "times"),
    ("stalls", "times"),
    ("failures", "copies"),
    ("ledger_checks", "checks"),
    ("ledger_violations", "contradictions"),
)
"""Units by what is in a field's name, the first that is; what is in none of them counts requests."""


def unit_of(field: str) -> str:
    """The unit of a field that engines send, by its name."""
    return next((unit for part, unit in _UNITS if part in field), "requests")
