"""The engine's half of kvtop: frames go out to viewers, commands come in. Knows the protocol and no engine."""

from kvtop.publish.dispatch import PendingCommand
from kvtop.publish.errors import PublishError
from kvtop.publish.publisher import Publisher
from kvtop.publish.ring import EncodedKeyframe

__all__ = ["EncodedKeyframe", "PendingCommand", "PublishError", "Publisher"]
