"""What every source of engine facts looks like to the viewer."""

from dataclasses import dataclass
from typing import Protocol

from kvtop.protocol.codec import AnyFrame
from kvtop.record.tape import Tape


@dataclass(frozen=True, slots=True)
class LinkUp:
    """The source reached its engine; the engine's hello comes next."""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The source lost its engine, or could not reach it. Comes once for each outage."""

    reason: str
    """A sentence without a full stop."""
    retrying: bool
    """Whether the source goes on trying by itself; if not, nothing more comes from it."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """``count`` things in what came could not be used as they were; ``note`` says what and where of the latest. The link goes
    on."""

    count: int
    note: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A frame of a recording, with the time at which it came by the recording's clock, in seconds."""

    frame: AnyFrame
    at: float


@dataclass(frozen=True, slots=True)
class Rewound:
    """What comes next does not follow what came before: a recording is read from another place on."""


Item = AnyFrame | LinkUp | LinkDown | Unusable | Recorded | Rewound


class Source(Protocol):
    """Where frames come from. All calls return at once; the work is done elsewhere."""

    @property
    def title(self) -> str:
        """What it is a source of, for the screen."""

    def start(self) -> None:
        """Begin. Called once."""

    def poll(self) -> list[Item]:
        """All that has come since the last call, in order."""

    def pace(self, fps: float) -> None:
        """So many frames a second are enough from now on; where the source can, what is between comes merged."""

    def request_keyframe(self) -> None:
        """Ask for everything anew, where the source can do that."""

    def tape(self) -> Tape | None:
        """What is recorded of it, to be looked back on; None where nothing is."""

    def close(self) -> None:
        """End; no items come after this. May be repeated."""
