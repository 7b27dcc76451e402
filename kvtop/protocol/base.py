"""What every message of the protocol has in common: versions, limits, and the base model."""

from functools import cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

PROTOCOL_MAJOR = 1
PROTOCOL_MINOR = 3
PROTOCOL_VERSION = f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}"

MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Longest line a viewer accepts from an engine: a keyframe of a million blocks fits, each of them unlike its neighbours."""

MAX_COMMAND_BYTES = 64 * 1024
"""Longest line an engine accepts from a peer."""


class ProtocolError(ValueError):
    """A line that is not a valid message. The text names the place and what was expected there."""


class VersionError(ProtocolError):
    """The other side speaks a version that this one cannot. The text names both."""


class Message(BaseModel):
    """Base of every line and of its parts.

    Immutable; fields a newer minor version added are ignored; NaN and infinities are refused,
    because JSON has no spelling for them and a viewer could not tell them from a measurement.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """As `model_construct`, several times faster: for messages of which hundreds are made in an iteration.

        What ``fields`` leaves out is None, whatever its default is; nothing is checked.
        """
        message = cls.__new__(cls)
        # What pydantic keeps of an instance; `model_construct` sets the same four.
        object.__setattr__(message, "__dict__", {**_nothing(cls), **fields})
        object.__setattr__(message, "__pydantic_fields_set__", set(fields))
        object.__setattr__(message, "__pydantic_extra__", None)
        object.__setattr__(message, "__pydantic_private__", None)
        return message


@cache
def _nothing(kind: type[Message]) -> dict[str, None]:
    """Every field of ``kind``, in its order, as None."""
    return dict.fromkeys(kind.model_fields)


def parse_version(text: str) -> tuple[int, int]:
    """``"1.4"`` -> ``(1, 4)``. Raises `VersionError` for anything else."""
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal() and len(text) <= 16):
        raise VersionError(f"protocol version {text[:32]!r} is not MAJOR.MINOR")
    return int(major), int(minor)
