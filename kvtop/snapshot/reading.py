"""A snapshot's file as the state that it was written from, as far as it tells of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from kvtop.protocol import Hello, Keyframe
from kvtop.snapshot.document import PROTOCOL_NAMES, SCHEMA
from kvtop.state import EngineState

LARGEST = 1 << 29
"""Bytes of a snapshot that is read; one of a million blocks has fifty million."""


class SnapshotError(ValueError):
    """The file is no snapshot that could be read. One sentence, which names the place."""


def read_snapshot(path: Path) -> EngineState:
    """Raises `SnapshotError`, OSError."""
    if path.stat().st_size > LARGEST:
        raise SnapshotError(f"larger than {LARGEST >> 20} MiB: no snapshot is")
    try:
        document = json.loads(path.read_bytes(), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise SnapshotError(f"byte {error.start}: no UTF-8") from None
    except json.JSONDecodeError as error:
        raise SnapshotError(f"line {error.lineno}: no JSON: {error.msg}") from None
    except RecursionError:
        raise SnapshotError("no snapshot: nested too deep") from None
    except SnapshotError:
        raise
    except ValueError as error:  # a number of more digits than are read
        raise SnapshotError(f"no snapshot: {error}") from None
    return snapshot_state(document)


def snapshot_state(document: object) -> EngineState:
    """The state that a snapshot tells of; what it leaves out is unknown. Raises `SnapshotError`."""
    if not isinstance(document, dict) or not isinstance(document.get("schema"), str):
        raise SnapshotError("no snapshot: it has no schema")
    if document["schema"] != SCHEMA:
        raise SnapshotError(f"of the schema {document['schema'][:64]!r}, and {SCHEMA} can be read")
    try:
        hello = Hello.model_validate(_hello(document))
        keyframe = Keyframe.model_validate(_keyframe(document))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "top"
        raise SnapshotError(f"{place}: {first['msg']}") from None
    state = EngineState()
    state.apply(hello, 0.0)
    state.apply(keyframe, 0.0)
    return state


def _hello(document: Mapping[str, Any]) -> dict[str, Any]:
    blocks = document.get("blocks")
    told = {
        "engine": document.get("engine"),
        "model": document.get("model"),
        "geometry": document.get("geometry"),
        "memory": document.get("memory"),
        "device": document.get("device"),
        "limits": document.get("limits"),
        "workload": document.get("workload"),
        "capabilities": document.get("capabilities"),
        "axes": document.get("policy_axes"),
        "block_states": blocks.get("states") if isinstance(blocks, dict) else None,
    }
    return _known(told)


def _keyframe(document: Mapping[str, Any]) -> dict[str, Any]:
    blocks, requests = document.get("blocks"), document.get("requests")
    told = {
        "seq": 0,
        "iteration": document.get("iteration") or 0,
        "wall": document.get("wall"),
        "mono": document.get("mono"),
        "policy": document.get("policies"),
        "policy_id": document.get("policy_id"),
        "status": document.get("status") or {"state": "unknown"},
        "blocks": blocks.get("runs") if isinstance(blocks, dict) else blocks,
        "requests": [_request(row) for row in requests] if isinstance(requests, list) else requests,
        "gauges": document.get("gauges"),
        "counters": document.get("counters"),
        "queue": document.get("queue"),
        "verdict": document.get("verdict"),
    }
    return _known(told)


def _request(row: object) -> object:
    """As the protocol names it. Tables stay behind: only their lengths are compared."""
    if not isinstance(row, dict):
        return row
    told: dict[str, Any] = {PROTOCOL_NAMES.get(str(name), str(name)): value for name, value in row.items()}
    return _known(told | {"blocks": row.get("allocated_blocks")})


def _known(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value is not None}


def _no_number(text: str) -> NoReturn:
    raise SnapshotError(f"no snapshot: {text} is in it, which is no JSON")
