"""The engine's half of kvtop: frames go out to viewers, commands come in. Knows the protocol and no engine."""

from kvtop.publish.dispatch import PendingCommand
from kvtop.publish.dumps import Dumped, Dumps
from kvtop.publish.errors import PublishError
from kvtop.publish.flight import FlightLimits, FlightRecorder
from kvtop.publish.publisher import Publisher
from kvtop.publish.ring import EncodedKeyframe

__all__ = [
    "Dumped",
    "Dumps",
    "EncodedKeyframe",
    "FlightLimits",
    "FlightRecorder",
    "PendingCommand",
    "PublishError",
    "Publisher",
]
