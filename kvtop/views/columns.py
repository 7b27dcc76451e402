"""The columns of the requests table: what each shows, how wide, how it sorts, and who goes first when it gets narrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from kvtop.state import RequestRow, RequestTable
from kvtop.state.request_row import WAITING_STATES
from kvtop.views.block_states import role_of
from kvtop.views.cells import owner_role
from kvtop.views.format import UNKNOWN, count, part_of, seconds
from kvtop.views.lifeline import lifeline, window_text
from kvtop.views.rows import Role, Row, clean

Cell = tuple[str, int]
"""Text and its role."""

SortKey = float | str | None
"""None sorts last, whatever the direction."""


@dataclass(frozen=True)
class Column:
    """``weight``: where room is short, the heaviest columns get it first. Text is right-aligned unless ``left``.

    ``phase``: the key is the time in this phase, and grows with the clock while a request is in it. ``key`` None: there is
    no order by it. ``strip``: draws all its cells, each with a role of its own, in so many as it is given.
    """

    name: str
    title: str
    width: int
    weight: int
    cell: Callable[[RequestRow, float | None], Cell]
    key: Callable[[RequestRow, float | None], SortKey] | None
    left: bool = False
    phase: str | None = None
    strip: Callable[[RequestRow, float | None, int], Row] | None = None


STATE_ROLE = {
    "waiting": Role.WARN,
    "preempted": Role.BAD,
    "swapped": role_of("reserved"),
    "loading": role_of("transfer"),
    "prefill": Role.ACCENT,
    "decode": Role.GOOD,
    "finished": Role.DIM,
}
_STATE_RANK = {"decode": 0, "prefill": 1, "loading": 2, "swapped": 3, "preempted": 4, "waiting": 5, "finished": 6}


def _plain(name: str) -> Callable[[RequestRow, float | None], Cell]:
    def cell(row: RequestRow, _mono: float | None) -> Cell:
        return count(getattr(row, name)), Role.TEXT

    return cell


def _by(name: str) -> Callable[[RequestRow, float | None], SortKey]:
    def key(row: RequestRow, _mono: float | None) -> SortKey:
        value: SortKey = getattr(row, name)
        return value

    return key


def _id(row: RequestRow, _mono: float | None) -> Cell:
    return clean(row.name), owner_role(row.num)


def _state(row: RequestRow, _mono: float | None) -> Cell:
    if row.state is None:
        return UNKNOWN, Role.DIM
    shown = "done" if row.finished else row.state
    if row.state == "swapped" and row.tier:
        shown = f"swap {row.tier}"
    return clean(shown), STATE_ROLE.get(row.state, Role.TEXT)


_PROGRESS = 9
"""Cells for how far a prefill has come."""


def _computed(row: RequestRow, _mono: float | None) -> Cell:
    """During prefill of how many: the prompt, and after a preemption the outputs so far besides."""
    if row.state == "prefill" and row.computed_tokens is not None and row.prompt_tokens:
        return part_of(row.computed_tokens, row.prompt_tokens + (row.output_tokens or 0), _PROGRESS), Role.ACCENT
    return count(row.computed_tokens), Role.TEXT


def _output(row: RequestRow, _mono: float | None) -> Cell:
    if row.max_tokens is None:
        return count(row.output_tokens), Role.TEXT
    return f"{count(row.output_tokens)}/{count(row.max_tokens)}", Role.TEXT


def _blocks(row: RequestRow, _mono: float | None) -> Cell:
    held = row.block_count
    if row.pinned_blocks:
        return f"{count(held)} {count(row.pinned_blocks)}p", role_of("pinned")
    if row.reserved_blocks:
        return f"{count(held)}+{count(row.reserved_blocks)}", Role.TEXT
    return count(held), Role.TEXT


def _preemptions(row: RequestRow, _mono: float | None) -> Cell:
    return count(row.preemptions), Role.WARN if row.preemptions else Role.DIM


def _cached(row: RequestRow, _mono: float | None) -> Cell:
    return count(row.cached_tokens), role_of("cached") if row.cached_tokens else Role.DIM


def _sample(row: RequestRow, _mono: float | None) -> Cell:
    """``2/4`` of several samples of one prompt, ``beam 2/4`` of a beam search."""
    if row.sibling is None:
        return "", Role.DIM
    return f"{'' if row.score is None else 'beam '}{row.sibling}/{row.siblings}", Role.TEXT


def _group_key(row: RequestRow, _mono: float | None) -> SortKey:
    """Groups together, in the order of their members; requests that have none last."""
    return None if row.sibling is None or row.group is None else row.group + row.sibling / 1e6


def _score(row: RequestRow, _mono: float | None) -> Cell:
    return ("", Role.DIM) if row.score is None else (f"{row.score:.3f}", Role.TEXT)


def _wait(row: RequestRow, mono: float | None) -> Cell:
    return seconds(row.queue_time(mono)), Role.WARN if row.state in WAITING_STATES else Role.TEXT


def _prefill(row: RequestRow, mono: float | None) -> Cell:
    return seconds(row.prefill_time(mono)), Role.TEXT


def _decode(row: RequestRow, mono: float | None) -> Cell:
    return seconds(row.decode_time(mono)), Role.TEXT


def _text(name: str) -> Callable[[RequestRow, float | None], Cell]:
    def cell(row: RequestRow, _mono: float | None) -> Cell:
        value = getattr(row, name)
        return (clean(value), Role.TEXT) if value else (UNKNOWN, Role.DIM)

    return cell


def _lost(row: RequestRow, _mono: float | None) -> Cell:
    return seconds(row.lost_s), Role.WARN if row.lost_s else Role.DIM


def _life(row: RequestRow, mono: float | None, width: int) -> Row:
    return lifeline(row.life, mono, width)


def _duration(name: str) -> Callable[[RequestRow, float | None], Cell]:
    def cell(row: RequestRow, _mono: float | None) -> Cell:
        return seconds(getattr(row, name)), Role.TEXT

    return cell


COLUMNS = (
    Column("id", "id", 8, 100, _id, lambda row, _: row.name, left=True),
    Column("state", "state", 9, 95, _state, lambda row, _: _STATE_RANK.get(row.state or "", 7), left=True),
    Column("priority", "pri", 3, 60, _plain("priority"), _by("priority")),
    Column("prompt", "prompt", 6, 80, _plain("prompt_tokens"), _by("prompt_tokens")),
    Column("cached", "cached", 6, 70, _cached, _by("cached_tokens")),
    Column("computed", "computed", _PROGRESS, 65, _computed, _by("computed_tokens")),
    Column("output", "output", 9, 78, _output, _by("output_tokens")),
    Column("blocks", "blocks", 6, 90, _blocks, lambda row, _: row.block_count),
    Column("wait", "wait", 5, 76, _wait, lambda row, mono: row.queue_time(mono), phase="queue"),
    Column("prefill", "prefill", 7, 44, _prefill, lambda row, mono: row.prefill_time(mono), phase="prefill"),
    Column("decode", "decode", 6, 51, _decode, lambda row, mono: row.decode_time(mono), phase="decode"),
    Column("preempted", "pre", 3, 77, _preemptions, _by("preemptions")),
    Column("life", window_text(), 20, 47, lambda _row, _mono: ("", Role.DIM), None, left=True, strip=_life),
    Column("ttft", "ttft", 5, 40, _duration("ttft_s"), _by("ttft_s")),
    Column("tpot", "tpot", 5, 39, _duration("tpot_s"), _by("tpot_s")),
    Column("recomputed", "recomp", 6, 45, _plain("recomputed_tokens"), _by("recomputed_tokens")),
    Column("lost", "lost", 5, 46, _lost, _by("lost_s")),
    Column("end", "end", 6, 35, _text("finish_reason"), _by("finish_reason"), left=True),
    Column("sample", "sample", 10, 49, _sample, _group_key),
    Column("score", "score", 8, 48, _score, _by("score")),
    Column("label", "label", 12, 30, _text("label"), _by("label"), left=True),
)

_BY_NAME = {column.name: column for column in COLUMNS}

NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)
"""What a user can choose from, in the order in which they stand where nobody has chosen."""

SORTED: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.key is not None)
"""Those that one can sort by."""

ALWAYS = "id"


def choose(names: Sequence[str]) -> tuple[str, ...]:
    """These columns in this order, with the id before them where it is not among them: without it no row says whose it is.

    Raises ValueError, in a sentence that names them all, where one is no column or stands there twice.
    """
    wanted = [name.strip().lower() for name in names]
    for place, name in enumerate(wanted):
        if name not in NAMES:
            said = f"there is no column {clean(name, 32)!r}" if name else "a column has no name"
            raise ValueError(f"{said}; columns are {', '.join(NAMES)}")
        if name in wanted[:place]:
            raise ValueError(f"the column {name} is there twice")
    if not wanted:
        raise ValueError(f"no column is named; columns are {', '.join(NAMES)}")
    return tuple(wanted) if ALWAYS in wanted else (ALWAYS, *wanted)


ID_WIDEST = 24


Columns = tuple[tuple[Column, int], ...]
"""Each with its width."""


def columns_for(width: int, requests: RequestTable | None = None, chosen: tuple[str, ...] = NAMES) -> Columns:
    """Those of the ``chosen`` columns that fit ``width`` with one blank between, in that order; what is left over widens the
    id. The same object each time.

    Those of samples and beams are there only while one of ``requests`` has something to say in them.
    """
    siblings, scored = requests is not None and requests.siblings > 0, requests is not None and requests.scored > 0
    return _fitting(width, siblings, scored, chosen)


@lru_cache(maxsize=64)
def _fitting(width: int, siblings: bool, scored: bool, chosen: tuple[str, ...]) -> Columns:
    empty = {name for name, there in (("sample", siblings), ("score", scored)) if not there}
    wanted = [_BY_NAME[name] for name in chosen if name not in empty]
    shown: list[Column] = []
    spare = width + 1
    # One that is too wide leaves its room to lighter ones that are not.
    for column in sorted(wanted, key=lambda c: -c.weight):
        if column.width < spare or not shown:
            shown.append(column)
            spare -= column.width + 1
    shown.sort(key=wanted.index)
    grown = max(0, min(spare, ID_WIDEST - _BY_NAME[ALWAYS].width))
    return tuple((c, c.width + (grown if c.name == ALWAYS else 0)) for c in shown)
