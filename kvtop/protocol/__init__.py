"""The protocol between an engine and its viewers: messages, versions, encoding, merging."""

from kvtop.protocol.base import (
    MAX_COMMAND_BYTES,
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    Message,
    ProtocolError,
)
from kvtop.protocol.codec import AnyFrame, AnyInput, check_version, decode_frame, decode_input, encode
from kvtop.protocol.commands import (
    Abort,
    AnyCommand,
    Command,
    Pause,
    Preempt,
    Reply,
    RequestKeyframe,
    ResetPrefixCache,
    Resume,
    SetPolicy,
)
from kvtop.protocol.frames import (
    Batch,
    BlockAge,
    BlockHash,
    BlockRun,
    Bye,
    Counters,
    Durations,
    Event,
    Fault,
    Gap,
    Gauges,
    IterationFrame,
    Keyframe,
    Queue,
    RequestChange,
    Status,
    TierTraffic,
    Verdict,
)
from kvtop.protocol.hello import (
    BLOCK_STATES,
    ClientHello,
    EngineIdentity,
    Geometry,
    Hello,
    ModelFacts,
    PolicyAxis,
    PolicyValue,
    PoolFacts,
)
from kvtop.protocol.merge import merge_frames, merge_request

__all__ = [
    name
    for name in dir()
    if not name.startswith("_") and name not in {"base", "codec", "commands", "frames", "hello", "merge"}
]
