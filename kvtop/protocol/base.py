"""What every message of the protocol has in common: versions, limits, and the base model."""

from pydantic import BaseModel, ConfigDict

PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 1
PROTOCOL_VERSION = f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"

MAX_FRAME_BYTES = 64 * 1024 * 1024
"""Longest line a viewer accepts from an engine (a keyframe of a badly fragmented million-block pool fits)."""

MAX_COMMAND_BYTES = 64 * 1024
"""Longest line an engine accepts from a peer."""


class ProtocolError(ValueError):
    """A line that is not a valid message. The text names the place and what was expected there."""


class Message(BaseModel):
    """Base of every line and of its parts.

    Immutable; fields a newer minor version added are ignored; NaN and infinities are refused,
    because JSON has no spelling for them and a viewer could not tell them from a measurement.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


def parse_version(text: str) -> tuple[int, int]:
    """``"1.4"`` -> ``(1, 4)``. Raises `ProtocolError` for anything else."""
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal() and len(text) <= 16):
        raise ProtocolError(f"protocol version {text[:32]!r} is not MAJOR.MINOR")
    return int(major), int(minor)
