"""The pool as one bar across, and in numbers: is memory the limit?"""

from kvtop.state import EngineState
from kvtop.views.block_states import STATES, in_bar, role_of, state_of, taken, used
from kvtop.views.exposure import not_exposed
from kvtop.views.fit import Part, Span, cut, fit, line, part
from kvtop.views.format import count, percent, size, size_of
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.memory import beside, memory_forms
from kvtop.views.rows import Role, Row, clean

BRIEF_BAR = 12
"""Cells of a bar that stands beside the numbers."""


def capacity_rows(state: EngineState, width: int, glyphs: Glyphs = UNICODE) -> list[Row]:
    """Two rows: the bar by state and the numbers; a share alone where only that is exposed."""
    levels = _levels(state)
    if levels is None:
        return glyphs.rows(_share_only(state, width, glyphs))
    counts, total = levels
    return glyphs.rows([line(_bar(state, counts, total, width, glyphs), width), _numbers(state, counts, total, width)])


def brief_row(state: EngineState, width: int, glyphs: Glyphs = UNICODE) -> Row:
    """Numbers and bar side by side, for terminals with few rows; where nothing is exposed, that."""
    cells, room = BRIEF_BAR, max(0, width - BRIEF_BAR - 1)
    levels = _levels(state)
    if levels is None:
        if state.gauges.get("kv_usage") is None:
            return glyphs.rows(_share_only(state, width, glyphs)[:1])[0]
        bar, numbers = _share_only(state, cells, glyphs)[0], _share_only(state, room, glyphs)[1]
    else:
        counts, total = levels
        bar = line(_bar(state, counts, total, cells, glyphs), cells)
        numbers = _numbers(state, counts, total, room)
    row = Row(f"{numbers.text} {bar.text}", numbers.roles + bytes((Role.TEXT,)) + bar.roles)
    return glyphs.rows([cut(row, width)])[0]


def used_span(state: EngineState) -> Span:
    """``KV used 254/256 99%``, for a row of which that is only the beginning."""
    levels = _levels(state)
    usage = state.gauges.get("kv_usage") if levels is None else used(levels[0]) / levels[1]
    gone = usage if levels is None else taken(levels[0]) / levels[1]
    counted = "" if levels is None else f"{count(used(levels[0]))}/{count(levels[1])} "
    return f"KV used {counted}{percent(usage)}", Role.DIM if gone is None else _crowded(gone)


def _crowded(gone: float) -> int:
    """The role of a share that cannot be had, whatever keeps it."""
    return Role.BAD if gone >= 0.95 else Role.WARN if gone >= 0.8 else Role.STRONG


def _levels(state: EngineState) -> tuple[dict[str, int], int] | None:
    """Blocks by state and the pool; from the blocks themselves, else from gauges, else None."""
    counts = state.counts()
    if counts is not None and state.blocks is not None and state.blocks.device:
        return counts, state.blocks.device
    total = state.gauges.get("kv_blocks_total")
    # Promised blocks are among the free and cached ones.
    known = {s.name: state.gauges.get(f"kv_blocks_{s.name}") for s in STATES if s.counts_as != "promised"}
    exposed = {name: int(value) for name, value in known.items() if value is not None}
    if not total or "active" not in exposed:
        return None
    return exposed, int(total)


def bar_cells(counts: list[int], total: int, width: int) -> list[int]:
    """Shares of ``width`` cells: what is not zero gets at least one, the largest gives way, remainders fill up."""
    exact = [min(count, total) * width / total for count in counts]
    cells = [max(int(value), 1 if value > 0 else 0) for value in exact]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    while sum(cells) < width:
        short = [value - cell for value, cell in zip(exact, cells, strict=True)]
        if max(short) <= 0:
            break
        cells[short.index(max(short))] += 1
    return cells


def _bar(state: EngineState, counts: dict[str, int], total: int, width: int, glyphs: Glyphs) -> list[Span]:
    names = in_bar([name for name in counts if counts[name] and name != "free"])
    free = max(0, counts.get("free", total - sum(counts[name] for name in names)))
    cells = bar_cells([*(counts[name] for name in names), free], total, max(1, width))
    spans: list[Span] = [(glyphs.state(name) * n, role_of(name)) for name, n in zip(names, cells, strict=False)]
    reserved = min(cells[-1], round(state.gauges.get("kv_blocks_reserved", 0) * width / total))
    spans.append((glyphs.state("reserved") * reserved, role_of("reserved")))
    spans.append((glyphs.state("free") * (cells[-1] - reserved), role_of("free")))
    return spans


def _numbers(state: EngineState, counts: dict[str, int], total: int, width: int) -> Row:
    held, gone = used(counts), taken(counts)
    share = percent(held / total)
    crowded = _crowded(gone / total)
    parts = [
        part(
            20,
            (("KV used ", Role.TEXT), (f"{count(held)}/{count(total)} {share}", crowded)),
            (("used ", Role.TEXT), (f"{count(held)}/{count(total)} {share}", crowded)),
            ((f"{count(held)}/{count(total)} {share}", crowded),),
            ((share, crowded),),
        )
    ]
    for name in ("shared", "cached", "free"):
        if name in counts:
            parts.append(_named(name, counts[name], total))
    reserved = state.gauges.get("kv_blocks_reserved")
    if reserved is not None:
        parts.append(_named("reserved", int(reserved), total))
    parts += [_named(name, counts[name], total) for name in in_bar(counts) if counts[name] and not state_of(name).usual]
    parts.append(_bytes(state, held, total))
    return beside(fit(parts, width), memory_forms(state.hello))


def _named(name: str, number: int, total: int) -> Part:
    entry, role = state_of(name), role_of(name)
    name = clean(name, 24)
    short = entry.short or name
    return part(
        entry.priority,
        ((f"{name} ", Role.TEXT), (f"{count(number)} {percent(number / total)}", role)),
        ((f"{name} ", Role.TEXT), (count(number), role)),
        ((f"{short} ", Role.TEXT), (count(number), role)),
        "",
    )


def _bytes(state: EngineState, used: int, total: int) -> Part:
    geometry = state.hello.geometry if state.hello else None
    used_bytes = state.gauges.get("kv_bytes_used")
    if geometry is None or geometry.bytes_per_token is None or geometry.block_size is None:
        return part(10, f"{size(used_bytes)}" if used_bytes is not None else "", "", role=Role.DIM)
    block = geometry.bytes_per_token * geometry.block_size
    whole = size_of(block * used if used_bytes is None else used_bytes, block * total)
    return part(10, whole, "", role=Role.DIM)


def _share_only(state: EngineState, width: int, glyphs: Glyphs) -> list[Row]:
    usage = state.gauges.get("kv_usage")
    if usage is None:
        return [line([(not_exposed(state, "KV memory"), Role.DIM)], width), line([], width)]
    filled = max(1 if usage > 0 else 0, min(width, round(usage * width)))
    role = Role.BAD if usage >= 0.95 else Role.WARN if usage >= 0.8 else role_of("active")
    bar: list[Span] = [
        (glyphs.state("active") * filled, role),
        (glyphs.state("free") * (width - filled), role_of("free")),
    ]
    total = state.gauges.get("kv_blocks_total")
    parts = [
        part(9, (("KV used ", Role.TEXT), (percent(usage), role))),
        part(5, f"of {count(total)} blocks", "") if total else part(5, ""),
        part(7, not_exposed(state, "blocks by state"), "", role=Role.DIM),
    ]
    return [line(bar, width), fit(parts, width)]
