"""The waiting queue: how many, how long, why the head waits, who comes next."""

from kvtop.state import EngineState, RequestRow
from kvtop.views.block_states import role_of
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Part, exactly, fit, part
from kvtop.views.format import UNKNOWN, called, count, plural, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean
from kvtop.views.verdict import request_name, verdict_rows, waiting_count


def oldest_wait(state: EngineState, now: float) -> float | None:
    """Seconds that the longest waiting request has waited in all; None where it is not known."""
    mono = state.mono_now(now)
    return None if state.requests is None or mono is None else state.requests.longest_wait(mono)


def queue_title(state: EngineState, now: float) -> str:
    """``queue: 5 waiting, oldest 12.4s``; preempted ones are told apart."""
    waiting = waiting_count(state)
    if waiting is None:
        return "queue"
    text = f"queue: {count(waiting)} waiting"
    if preempted := state.gauges.get("preempted"):
        text += f" ({count(preempted)} preempted)"
    oldest = oldest_wait(state, now) if waiting else None
    return text if oldest is None else f"{text}, oldest {seconds(oldest)}"


def queue_rows(
    state: EngineState, width: int, height: int, now: float, glyphs: Glyphs = UNICODE, *, first: int = 0
) -> list[Row]:
    """The head's verdict, then who comes next, one a row; what did not fit is counted in the last row.

    ``first`` scrolls: so many of the waiting are left out at the front.
    """
    waiting = waiting_count(state)
    if waiting is None:
        return message_rows(not_exposed(state, "queue"), width, height, glyphs)
    rows = verdict_rows(state, width, glyphs, lines=2 if height > 1 else 1)
    if state.queue is None:
        rows.append(fit([part(1, not_exposed(state, "order of the queue"), role=Role.DIM)], width))
        return glyphs.rows(exactly(rows, width, height))
    room = max(0, height - len(rows))
    first = max(0, first)
    shown = state.queue.order[first : first + room]
    if first + len(shown) < waiting and len(shown) == room > 1:
        shown = shown[:-1]
    mono = state.mono_now(now)
    rows += [_waiting(state, num, place, width, mono) for place, num in enumerate(shown, first + 1)]
    if len(rows) < height and first + len(shown) < waiting:
        rows.append(fit([part(1, f"… and {count(waiting - first - len(shown))} more", role=Role.DIM)], width))
    return glyphs.rows(exactly(rows, width, height))


def _waiting(state: EngineState, num: int, place: int, width: int, mono: float | None) -> Row:
    row = state.request(num)
    who = request_name(state, num, width=24)
    head = part(9, ((f"{place:>3} ", Role.DIM), (who, Role.STRONG if place == 1 else Role.TEXT)))
    return fit([head, *(_facts(row, mono) if row else ())], width)


def _facts(row: RequestRow, mono: float | None) -> list[Part]:
    waited = seconds(row.queue_time(mono))
    parts = [part(8, f"waits {waited}", waited)]
    if row.state == "preempted":
        parts.append(part(7, ((f"preempted {count(row.preemptions)}x", Role.WARN),), (("preempted", Role.WARN),), ""))
    if row.state in ("swapped", "loading"):
        where = f"swapped to {clean(row.tier or 'another tier', 16)}"
        parts.append(part(7, ((where if row.state == "swapped" else "loading its KV", role_of("reserved")),), ""))
    if row.prompt_tokens is not None:
        output = f"+{count(row.max_tokens)}" if row.max_tokens is not None else ""
        parts.append(part(6, f"{count(row.prompt_tokens)}{output} tokens", f"{count(row.prompt_tokens)}{output}", ""))
    if row.priority is not None:
        parts.append(part(5, f"priority {count(row.priority)}", ""))
    if row.label and row.label not in row.name:
        parts.append(part(4, called(row.label, 16), ""))
    if row.reserved_blocks:
        parts.append(part(3, f"would take {plural(row.reserved_blocks, 'block')}", ""))
    return [p for p in parts if p.forms[0] and p.forms[0][0][0] != UNKNOWN]
