"""All that is known of one request, in a few rows below the table."""

from kvtop.state import EngineState, RequestRow
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Span, blank, exactly, wrap
from kvtop.views.format import UNKNOWN, called, clock, count, plural, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.lifeline import titled_lifeline
from kvtop.views.rows import Role, Row, RowBuilder, clean


def request_detail_rows(
    state: EngineState, row: RequestRow | None, width: int, height: int, now: float, glyphs: Glyphs = UNICODE
) -> list[Row]:
    """A rule, then what is known of ``row`` over the other rows, its lifeline below; what is not is left out. None: how to choose one."""
    rows = [RowBuilder().add("─" * width, Role.BORDER).row(width)]
    if row is None:
        chosen = not_exposed(state, "requests") if state.requests is None else "no request selected: j and k select one"
        rows += wrap([(chosen, Role.DIM)], width, height - 1)
    else:
        mono = state.mono_now(now)
        rows += wrap(_facts(row, mono), width, height - 2)
        rows.append(titled_lifeline(row.life, mono, width))
    return glyphs.rows(exactly(rows or [blank(width)], width, height))


def _facts(row: RequestRow, mono: float | None) -> list[Span]:
    spans: list[Span] = [(called(row.name), Role.STRONG)]
    times = [
        (name, value)
        for name, value in (
            ("waited", row.queue_time(mono)),
            ("prefill", row.prefill_time(mono)),
            ("decode", row.decode_time(mono)),
            ("ttft", row.ttft_s),
            ("tpot", row.tpot_s),
        )
        if value is not None
    ]
    facts: list[tuple[str, str]] = [
        ("", clean(row.state or UNKNOWN, 32)),
        ("class", clean(row.label, 32) if row.label else ""),
        ("arrived", clock(row.arrival) if row.arrival is not None else ""),
        ("priority", count(row.priority) if row.priority is not None else ""),
        ("prompt", _tokens(row.prompt_tokens)),
        ("cached", _tokens(row.cached_tokens)),
        ("computed", _tokens(row.computed_tokens)),
        ("output", _output(row)),
        ("holds", plural(row.block_count, "block") if row.block_count is not None else ""),
        ("reserved", plural(row.reserved_blocks, "block") if row.reserved_blocks else ""),
        ("pinned", plural(row.pinned_blocks, "block") if row.pinned_blocks else ""),
        ("in", clean(row.tier, 32) if row.tier else ""),
        *((name, seconds(value)) for name, value in times),
        ("preempted", plural(row.preemptions, "time") if row.preemptions is not None else ""),
        ("recomputed", _tokens(row.recomputed_tokens)),
        ("given up", seconds(row.lost_s) if row.lost_s else ""),
        ("KV as", clean(row.cache_dtype, 32) if row.cache_dtype else ""),
        ("attention", clean(row.attention_mode, 32) if row.attention_mode else ""),
        ("end:", clean(row.finish_reason, 32) if row.finish_reason else ""),
    ]
    for name, value in facts:
        if value:
            spans += [("·", Role.DIM), (name, Role.DIM), (value, Role.TEXT)]
    return spans


def _tokens(number: int | None) -> str:
    return "" if number is None else plural(number, "token")


def _output(row: RequestRow) -> str:
    if row.output_tokens is None:
        return ""
    most = "" if row.max_tokens is None else f" of {count(row.max_tokens)}"
    return f"{count(row.output_tokens)}{most} tokens"
