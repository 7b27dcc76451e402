"""The columns of a table of seconds: their names end with their units."""

from collections.abc import Callable
from datetime import UTC, datetime
from math import isfinite
from typing import Literal, NamedTuple

from kvtop.views.second import Second

Cell = int | float | str | None


class Column(NamedTuple):
    name: str
    kind: Literal["int", "float", "text"]
    of: Callable[[int, Second], Cell]
    """The cell, of a run and a second of it; None is unknown."""


def _field(name: str) -> Callable[[int, Second], Cell]:
    def of(_: int, second: Second) -> Cell:
        number: int | float | None = getattr(second, name)
        return number if number is not None and isfinite(number) else None

    return of


COLUMNS: tuple[Column, ...] = (
    Column("time_utc", "text", lambda _, second: utc(second.wall)),
    Column("wall_unix_s", "float", _field("wall")),
    Column("run", "int", lambda run, _: run),
    Column("iteration", "int", _field("iteration")),
    Column("kv_used_blocks", "int", _field("kv_used")),
    Column("kv_total_blocks", "int", _field("kv_total")),
    Column("running_requests", "int", _field("running")),
    Column("waiting_requests", "int", _field("waiting")),
    Column("prefill_tokens_per_s", "float", _field("prefill_per_s")),
    Column("decode_tokens_per_s", "float", _field("decode_per_s")),
    Column("preemptions_total", "int", _field("preemptions")),
    Column("ttft_p50_s", "float", _field("ttft_p50")),
    Column("ttft_p95_s", "float", _field("ttft_p95")),
    Column("tpot_p50_s", "float", _field("tpot_p50")),
    Column("tpot_p95_s", "float", _field("tpot_p95")),
)


def cells(run: int, second: Second) -> list[Cell]:
    """In the order of `COLUMNS`."""
    return [column.of(run, second) for column in COLUMNS]


def utc(wall: float) -> str | None:
    """ISO 8601; None for a date that no calendar has."""
    try:
        at = datetime.fromtimestamp(wall, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
