"""Lines to messages and back. NDJSON: one JSON object a line, UTF-8, ``\\n`` at the end."""

from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from kvtop.protocol.base import PROTOCOL_MAJOR, PROTOCOL_VERSION, Message, ProtocolError, VersionError, parse_version
from kvtop.protocol.commands import COMMANDS, AnyCommand, Reply
from kvtop.protocol.frames import Bye, Fault, Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import ClientHello, Hello

AnyFrame = Hello | Keyframe | IterationFrame | Gap | Fault | Bye | Reply
AnyInput = ClientHello | AnyCommand

_FRAMES: TypeAdapter[Any] = TypeAdapter(Annotated[AnyFrame, Field(discriminator="type")])
_INPUTS: TypeAdapter[Any] = TypeAdapter(Annotated[ClientHello | AnyCommand, Field(discriminator="type")])
FRAME_TYPES = frozenset({"hello", "keyframe", "iteration", "gap", "fault", "bye", "reply"})
INPUT_TYPES = frozenset({"hello", *COMMANDS})


def encode(message: Message) -> bytes:
    """One line with its newline. Fields that are None are left out."""
    return message.model_dump_json(exclude_none=True).encode() + b"\n"


def parse_object(line: bytes) -> tuple[dict[str, Any], str]:
    """A line as it stands, and its ``type``. Raises `ProtocolError` where it is no JSON object with one."""
    try:
        raw = from_json(line)
    except ValueError as error:
        raise ProtocolError(f"not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise ProtocolError(f"expected a JSON object, found {type(raw).__name__}")
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise ProtocolError("no field 'type'")
    return raw, kind


def _decode(line: bytes, adapter: TypeAdapter[Any], known: frozenset[str]) -> Any:
    raw, kind = parse_object(line)
    if kind not in known:
        return None
    try:
        return adapter.validate_python(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "line"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise ProtocolError(f"{place}: {first['msg']}{more}") from None


def decode_frame(line: bytes) -> AnyFrame | None:
    """An engine's line. None for a type this version does not know. Raises `ProtocolError`."""
    frame: AnyFrame | None = _decode(line, _FRAMES, FRAME_TYPES)
    return frame


def decode_input(line: bytes) -> AnyInput | None:
    """A peer's line to an engine. None for an unknown type. Raises `ProtocolError`."""
    message: AnyInput | None = _decode(line, _INPUTS, INPUT_TYPES)
    return message


def check_version(theirs: str, who: str) -> None:
    """Raises `VersionError` unless ``theirs`` has our major version. ``who`` is named in the message."""
    if parse_version(theirs)[0] != PROTOCOL_MAJOR:
        raise VersionError(
            f"{who} speaks protocol {theirs}, this side speaks {PROTOCOL_VERSION}; use the same kvtop version on both sides"
        )
