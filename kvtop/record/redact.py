"""Leaves out of lines what an engine says of prompts and generated text, before they are recorded."""

from typing import Any

from pydantic_core import from_json, to_json

from kvtop.protocol.codec import AnyFrame
from kvtop.protocol.frames import TEXT_FIELDS
from kvtop.protocol.hello import Hello

TEXT = "text"
"""The capability of an engine that tells them."""

_MARKS = tuple(f'"{name}"'.encode() for name in sorted(TEXT_FIELDS))


def without_text(line: bytes, frame: AnyFrame | None) -> tuple[bytes, AnyFrame | None]:
    """``line`` (``frame``: what it says) without prompts and generated text, and the frame of that line."""
    if isinstance(frame, Hello):
        if TEXT not in frame.capabilities:
            return line, frame
        raw = from_json(line)
        raw["capabilities"] = [name for name in frame.capabilities if name != TEXT]
        return _line(raw), frame.model_copy(update={"capabilities": raw["capabilities"]})
    if not any(mark in line for mark in _MARKS):
        return line, frame
    raw = from_json(line)
    _strip(raw)
    return _line(raw), frame


def _strip(value: Any) -> None:
    """Wherever they stand: a newer engine may have them elsewhere."""
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for name in TEXT_FIELDS & value.keys():
                del value[name]
            waiting += value.values()
        elif isinstance(value, list):
            waiting += (item for item in value if isinstance(item, dict | list))


def _line(raw: Any) -> bytes:
    return to_json(raw, inf_nan_mode="constants") + b"\n"
