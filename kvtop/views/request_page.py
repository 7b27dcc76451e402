"""All about one request: what it did when, what preemptions cost it, who shares its prefix, its events, its block table."""

from collections.abc import Iterator
from itertools import islice, pairwise

from kvtop.protocol import Event
from kvtop.state import EngineState, RequestRow
from kvtop.views.block_table import block_table_rows, header_rows, table_length
from kvtop.views.cells import owner_role
from kvtop.views.events import event_row
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import fit, line, part
from kvtop.views.format import UNKNOWN, called, clock, count, part_of, plural, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.lifeline import legend, titled_lifeline, window_text
from kvtop.views.rows import Role, Row, clean

MOST_RELATIVES = 8
MOST_EVENTS = 20
"""Lines for each, at most; how many more there are is said."""


def request_page_rows(
    state: EngineState, num: int, width: int, height: int, now: float, glyphs: Glyphs = UNICODE, *, first: int = 0
) -> tuple[list[Row], int, int]:
    """``height`` rows of it from line ``first`` on, how many lines there are, and how many rows of these stay on top.

    The request itself is always on top, with its lifeline, or, once one has scrolled down to its block table, with the
    titles of that.
    """
    request = state.request(num)
    if request is None:
        rows = block_table_rows(state, num, width, 1, now, glyphs)
        rows += glyphs.rows(_own_events(state, num, width))
        return rows[first : first + height], len(rows), 0
    about = _about(state, request, width, now)
    top = header_rows(state) - 1
    total = len(about) + 1 + max(1, table_length(state, num))
    if first > len(about):
        rows = block_table_rows(state, num, width, height, now, glyphs, offset=first - len(about) - 1)
        return rows, total, top + 1
    shown = glyphs.rows([titled_lifeline(request.life, state.mono_now(now), width), *about[first:]])
    table = block_table_rows(state, num, width, max(top, height - len(shown)), now, glyphs)
    return [*table[:top], *shown, *table[top:]][:height], total, top + 1


def _about(state: EngineState, request: RequestRow, width: int, now: float) -> list[Row]:
    mono = state.mono_now(now)
    return [
        line([(" " * (len(window_text()) + 2), Role.TEXT), *legend(request.life)], width),
        _times(request, mono, width),
        _cost(request, width),
        *_relatives(state, request, width),
        *_own_events(state, request.num, width),
    ]


def _times(request: RequestRow, mono: float | None, width: int) -> Row:
    progress = ""
    if request.state == "prefill" and request.computed_tokens is not None and request.prompt_tokens:
        whole = request.prompt_tokens + (request.output_tokens or 0)
        progress = f"prefill at {part_of(request.computed_tokens, whole, 11)} tokens"
    return fit(
        [
            part(90, progress, "", role=Role.ACCENT),
            part(80, f"waited {seconds(request.queue_time(mono))}"),
            part(79, f"prefill {seconds(request.prefill_time(mono))}"),
            part(78, f"decode {seconds(request.decode_time(mono))}"),
            part(60, f"ttft {seconds(request.ttft_s)}", ""),
            part(50, f"arrived {clock(request.arrival)}" if request.arrival is not None else "", ""),
            part(40, f"class {clean(request.label, 24)}" if request.label else "", ""),
        ],
        width,
    )


def _cost(request: RequestRow, width: int) -> Row:
    """What preemptions cost it so far."""
    if request.preemptions is None:
        return line([("preemptions: not told", Role.DIM)], width)
    if not request.preemptions:
        return line([("never preempted", Role.DIM)], width)
    return fit(
        [
            part(99, f"preempted {plural(request.preemptions, 'time')}", role=Role.WARN),
            part(90, f"{plural(request.recomputed_tokens, 'token')} computed again"),
            part(80, f"{seconds(request.lost_s)} since its admissions given up", f"{seconds(request.lost_s)} given up"),
        ],
        width,
    )


# -- prefix relatives -----------------------------------------------------------------------------------------------


def _relatives(state: EngineState, request: RequestRow, width: int) -> list[Row]:
    """Who else holds blocks of its table, those with the most first, and how much of its prefix was there before it."""
    if state.blocks is None:
        return [line([(f"shares blocks with: {not_exposed(state, 'blocks')}", Role.DIM)], width)]
    found = _sharing(state, request)
    rows = [_prefix(state, request, bool(found), width)]
    for other, places in found[:MOST_RELATIVES]:
        rows.append(_relative(state, request, other, places, width))
    if len(found) > MOST_RELATIVES:
        rows.append(line([(f"  and {plural(len(found) - MOST_RELATIVES, 'other request')}", Role.DIM)], width))
    return rows


def _sharing(state: EngineState, request: RequestRow) -> list[tuple[RequestRow, list[int]]]:
    """The other requests, each with the places of its own table that it shares."""
    blocks = state.blocks
    if blocks is None or state.requests is None:
        return []
    shared = {block for block in request.held if block < blocks.total and blocks.refs[block] > 1}
    holders = state.requests.holding(shared) if shared else {}
    places: dict[int, list[int]] = {}
    for place, block in enumerate(request.table):
        for other in holders.get(block, ()):
            if other.num != request.num:
                places.setdefault(other.num, []).append(place)
    most_first = sorted(places, key=lambda num: (-len(places[num]), num))
    return [(state.requests[num], places[num]) for num in most_first]


def _prefix(state: EngineState, request: RequestRow, shared: bool, width: int) -> Row:
    cached = request.cached_tokens
    if cached is None:
        text = "prefix: not told how much of it was found at its admission"
    elif cached:
        text = f"prefix: {plural(cached, 'token')} were there when it was admitted last"
        if not shared and request.table:
            text += "; of those who had them none holds them now"
    else:
        text = "prefix: nothing of it was there when it was admitted last" if request.table else "prefix: none held"
    if shared:
        text += "; blocks shared with"
    elif request.table:
        text += "; no block is shared"
    return line([(text, Role.TITLE if shared else Role.DIM)], width)


def _relative(state: EngineState, request: RequestRow, other: RequestRow, places: list[int], width: int) -> Row:
    geometry = state.hello.geometry if state.hello else None
    groups = geometry.group_count if geometry else 1
    logical = sorted({place // groups for place in places})
    tokens = f", tokens {logical[0] * geometry.block_size}…" if geometry and geometry.block_size else ""
    if tokens and geometry and geometry.block_size:
        tokens += str((logical[-1] + 1) * geometry.block_size - 1)
    whole = all(b - a == 1 for a, b in pairwise(logical))
    where = f"logical {logical[0]}" + (f"…{logical[-1]}" if len(logical) > 1 else "") + ("" if whole else " in parts")
    kin = "arrived before it" if other.num < request.num else "arrived after it"
    if request.group is not None and other.group == request.group:
        kin = "of the same prompt"
    return fit(
        [
            part(99, ((f"  {called(other.name, 24)}", owner_role(other.num)),)),
            part(90, f"{plural(len(places), 'block')}"),
            part(70, where + tokens, where, ""),
            part(80, kin, ""),
            part(60, clean(other.state or UNKNOWN, 16), ""),
        ],
        width,
    )


# -- its events -----------------------------------------------------------------------------------------------------


def _own_events(state: EngineState, num: int, width: int) -> list[Row]:
    """What happened to it, or because of it, the oldest first."""
    if not state.has("events"):
        return [line([(f"its events: {not_exposed(state, 'events')}", Role.DIM)], width)]
    found = list(islice(_events_of(state, num), MOST_EVENTS + 1))
    if not found:
        return [line([("its events: none that is still known", Role.DIM)], width)]
    more = "" if len(found) <= MOST_EVENTS else f", the latest {count(MOST_EVENTS)}"
    rows = [line([(f"its events{more}", Role.TITLE)], width)]
    return rows + [event_row(entry, width) for entry in found[:MOST_EVENTS][::-1]]


def _events_of(state: EngineState, num: int) -> Iterator[Event]:
    """From the newest back."""
    return (
        entry
        for entry in state.events.latest()
        if isinstance(entry, Event) and (entry.request == num or entry.by == num)
    )
