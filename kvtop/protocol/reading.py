"""An engine's lines as a viewer reads them: what a newer minor version or a mistake put there is borne as far as can be.

A text that is too long is cut, a list that has more places than it should loses the last, and any other value that cannot
be is left out, with the smallest thing around it that can do without: a field that may be absent, one item of a list.
Names of states, kinds, codes and the like are texts here, so unknown ones are no mistake: they are shown as they are.
Engines are held to the strict models by their tests; `decode_frame` is those.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from kvtop.protocol.base import Message, ProtocolError
from kvtop.protocol.codec import AnyFrame, check_version, parse_object
from kvtop.protocol.commands import Reply
from kvtop.protocol.frames import Bye, Fault, Gap, IterationFrame, Keyframe
from kvtop.protocol.hello import Hello

_MODELS: dict[str, type[Message]] = {
    "hello": Hello,
    "keyframe": Keyframe,
    "iteration": IterationFrame,
    "gap": Gap,
    "fault": Fault,
    "bye": Bye,
    "reply": Reply,
}

_FREQUENT: tuple[tuple[bytes, type[IterationFrame] | type[Keyframe]], ...] = (
    (b'{"type":"iteration",', IterationFrame),
    (b'{"type":"keyframe",', Keyframe),
)
"""What comes twenty times a second, and what has a hundred thousand items, as our engine writes them."""

MAX_MENDS = 20_000
"""Mistakes in one line beyond which it is of no use."""

MAX_ROUNDS = 16
"""Mending one mistake may show another: a list item is left out when it lacks what was left out of it."""


_Gone = dict[tuple[int, int], tuple[list[Any], int]]
"""Items to be left out of lists, each once: the list and the place."""


class Reading(NamedTuple):
    """``frame``: None for a type this version does not know. ``mended``: mistakes in it; ``note``: the first of them."""

    frame: AnyFrame | None
    mended: int = 0
    note: str = ""


def read_frame(line: bytes) -> Reading:
    """An engine's line, mended where it has to be. Raises `ProtocolError` where nothing can be made of it, and for a hello
    of another major version."""
    for start, kind_of in _FREQUENT:
        if line.startswith(start):
            # In one go where nothing is wrong with it.
            with suppress(ValidationError):
                return Reading(kind_of.model_validate_json(line))
    raw, kind = parse_object(line)
    model = _MODELS.get(kind)
    if model is None:
        return Reading(None)
    if model is Hello and isinstance(version := raw.get("protocol"), str):
        # Before anything else in it is believed: of another version it may mean anything.
        check_version(version, "the engine")
    mended, note = 0, ""
    for _ in range(MAX_ROUNDS):
        try:
            return Reading(model.model_validate(raw), mended, note)  # type: ignore[arg-type]
        except ValidationError as error:
            if mended + error.error_count() > MAX_MENDS:
                raise ProtocolError(f"{kind}: {error.error_count()} mistakes, {_said(kind, _first(error))}") from None
            found = error.errors(include_url=False, include_input=False)
            note = note or _said(kind, found[0])
            mended += len(found)
            if not _mend(raw, found):
                break
    raise ProtocolError(note)


def _first(error: ValidationError) -> ErrorDetails:
    return error.errors(include_url=False, include_input=False)[0]


def _said(kind: str, mistake: ErrorDetails) -> str:
    place = ".".join(str(part)[:64] for part in (kind, *mistake["loc"]))
    return f"{place}: {mistake['msg']}"[:500]


def _mend(raw: dict[str, Any], found: Sequence[ErrorDetails]) -> bool:
    """Changes ``raw`` so that none of these mistakes is in it any more. False where that would leave nothing of it."""
    gone: _Gone = {}
    for mistake in found:
        holders = _holders(raw, mistake["loc"])
        holder, key = holders[-1]
        longest = (mistake.get("ctx") or {}).get("max_length")
        if mistake["type"] in ("string_too_long", "too_long") and isinstance(longest, int):
            holder[key] = holder[key][:longest]
        elif mistake["type"] == "missing":
            # It cannot be made up: what lacks it goes as a whole.
            if len(mistake["loc"]) == 1:
                return False
            _leave_out(_holders(raw, mistake["loc"][:-1]), gone)
        else:
            _leave_out(holders, gone)
    for items, place in sorted(gone.values(), key=lambda pair: -pair[1]):
        del items[place]
    return True


def _leave_out(holders: list[tuple[Any, Any]], gone: _Gone) -> None:
    holder, key = holders[-1]
    while isinstance(holder, list) and len(holders) > 1 and isinstance(holders[-2][0], list):
        # A list within a list is a tuple, of which every place has its meaning.
        holders = holders[:-1]
        holder, key = holders[-1]
    if isinstance(holder, list):
        gone[id(holder), key] = (holder, key)
    else:
        holder.pop(key, None)


def _holders(raw: dict[str, Any], loc: Sequence[int | str]) -> list[tuple[Any, Any]]:
    """The way to a value: what holds it and under which key or place, from the outside. Ends where ``loc`` goes on with
    names of types, and before what is not there."""
    way: list[tuple[Any, Any]] = []
    value: Any = raw
    for part in loc:
        if isinstance(value, list):
            there = isinstance(part, int) and part < len(value)  # a tuple that is too short lacks its last places
        else:
            there = isinstance(value, dict) and part in value
        if not there:
            break
        way.append((value, part))
        value = value[part]
    return way or [(raw, loc[0] if loc else "")]
