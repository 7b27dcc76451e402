"""What a filter of requests can name: each field's kind, unit and meaning, and where a request has its value."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from kvtop.state import RequestRow
from kvtop.state.request_row import WAITING_STATES

STATES: dict[str, frozenset[str]] = {
    "waiting": WAITING_STATES,
    "running": frozenset({"prefill", "decode"}),
    "done": frozenset({"finished"}),
    **{name: frozenset({name}) for name in ("prefill", "decode", "preempted", "swapped", "loading", "finished")},
}
"""What ``state:`` can ask for, and the engine's states that each stands for: all who wait are ``waiting``."""

COUNT, SECONDS, TEXT, STATE = "count", "seconds", "text", "state"


@dataclass(frozen=True)
class Field:
    """One name.

    Attributes:
        name: As it is printed.
        kind: `COUNT` and `SECONDS` are compared, `TEXT` and `STATE` looked for.
        meaning: With its unit.
        value: Of a request, its ended phases alone where it is a time; None: unknown.
        moving: By how much a time lies above the engine's clock (that is, below zero) while it grows with that; None while
            it stands still.
        others: Further names that mean the same.
    """

    name: str
    kind: str
    meaning: str
    value: Callable[[RequestRow], float | str | None]
    moving: Callable[[RequestRow], float | None] | None = None
    others: tuple[str, ...] = ()

    @property
    def compared(self) -> bool:
        return self.kind in (COUNT, SECONDS)

    @property
    def operators(self) -> tuple[str, ...]:
        if self.kind == SECONDS:
            return (">", ">=", "<", "<=")
        return (">", ">=", "<", "<=", "=") if self.kind == COUNT else (":", "~") if self.kind == TEXT else (":",)


def _age(row: RequestRow) -> float | None:
    """Known where its wait is: an engine that tells one phase tells all that have been."""
    return None if row.queue_s is None else row.queue_s + (row.prefill_s or 0.0) + (row.decode_s or 0.0)


def _older(row: RequestRow) -> float | None:
    grows = row.waits or row.state in ("prefill", "decode")
    if not grows or row.phase_since is None or (row.queue_s is None and not row.waits):
        return None
    return (_age(row) or (row.prefill_s or 0.0) + (row.decode_s or 0.0)) - row.phase_since


def _waiting(row: RequestRow) -> float | None:
    # Asked of each of ten thousand while one types: `RequestRow.behind_clock` would take twice as long.
    since = row.phase_since
    return None if since is None or row.state not in WAITING_STATES else (row.queue_s or 0.0) - since


def _prefilling(row: RequestRow) -> float | None:
    return None if row.state != "prefill" else row.behind_clock("prefill")


def _decoding(row: RequestRow) -> float | None:
    return None if row.state != "decode" else row.behind_clock("decode")


FIELDS: tuple[Field, ...] = (
    Field("state", STATE, f"what it does: {', '.join(STATES)}", attrgetter("state")),
    Field("id", TEXT, "its name", attrgetter("name")),
    Field("class", TEXT, "workload class or tenant", attrgetter("label"), others=("label",)),
    Field("end", TEXT, "why it ended: stop, length, abort, error", attrgetter("finish_reason")),
    Field("tier", TEXT, "where its KV is: device, host, disk", attrgetter("tier")),
    Field("prompt", COUNT, "tokens in the prompt", attrgetter("prompt_tokens")),
    Field("out", COUNT, "output tokens so far", attrgetter("output_tokens"), others=("output",)),
    Field("max", COUNT, "output tokens at most", attrgetter("max_tokens")),
    Field("cached", COUNT, "tokens it began with at its latest admission", attrgetter("cached_tokens")),
    Field("computed", COUNT, "tokens whose KV is in its blocks", attrgetter("computed_tokens")),
    Field("blocks", COUNT, "blocks in its table", attrgetter("block_count")),
    Field("pinned", COUNT, "of them pinned", attrgetter("pinned_blocks")),
    Field("preempt", COUNT, "times it was preempted", attrgetter("preemptions"), others=("preempted", "pre")),
    Field("recomp", COUNT, "tokens computed again", attrgetter("recomputed_tokens"), others=("recomputed",)),
    Field("prio", COUNT, "priority, smaller is more urgent", attrgetter("priority"), others=("priority", "pri")),
    Field("wait", SECONDS, "seconds waiting in all", attrgetter("queue_s"), _waiting),
    Field("prefill", SECONDS, "seconds in prefill", attrgetter("prefill_s"), _prefilling),
    Field("decode", SECONDS, "seconds in decode", attrgetter("decode_s"), _decoding),
    Field("age", SECONDS, "seconds since it arrived, until its end", _age, _older),
    Field("lost", SECONDS, "seconds given up by preemptions", attrgetter("lost_s")),
    Field("ttft", SECONDS, "seconds to its first token", attrgetter("ttft_s")),
    Field("tpot", SECONDS, "seconds per output token", attrgetter("tpot_s")),
)

NAMED: dict[str, Field] = {name: field for field in FIELDS for name in (field.name, *field.others)}
"""By every name they have."""
