"""The tiers of KV memory in a table: what each holds, what flows, what it spared, what went wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from kvtop.protocol import TierLevel
from kvtop.state import EngineState
from kvtop.state.tiers import total_name
from kvtop.views.block_states import STATES, in_bar, role_of
from kvtop.views.capacity import bar_cells
from kvtop.views.definition import LONG_WINDOW, RATE_WINDOW
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Span, exactly, fit, line, part
from kvtop.views.format import UNKNOWN, Number, count, percent, plural, rate, seconds
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, RowBuilder, clean

FLOW_WINDOW, HIT_WINDOW = RATE_WINDOW, LONG_WINDOW
WINDOWS = f"MB/s {FLOW_WINDOW:g}s · hit {HIT_WINDOW:g}s"
"""What flow and hits are taken over; the other figures of the table are levels, or totals since the start."""

_BAR_WIDEST = 40


@dataclass(frozen=True, slots=True)
class _Figures:
    """One tier as the table shows it."""

    state: EngineState
    level: TierLevel
    mono: float | None

    def per_second(self, total: str, window: float) -> float | None:
        return self.state.tier_rates.per_second(total_name(self.level, total), self.mono, window)


@dataclass(frozen=True, slots=True)
class _Column:
    """``weight``: the lightest are left out first."""

    title: str
    width: int
    weight: int
    cell: Callable[[_Figures], tuple[str, int]]


def has_tiers(state: EngineState) -> bool:
    """Whether the engine keeps KV anywhere but in one tier."""
    return len(state.tier_spans()) > 1 or len({level.tier for level in state.tiers}) > 1


def table_height(state: EngineState) -> int:
    """Rows of the whole table; 0 where the engine has but one tier."""
    if not has_tiers(state):
        return 0
    return 1 + max(len(state.tiers), len(state.tier_spans()))


def no_lower_tiers(state: EngineState) -> str | None:
    """Why there is nothing to say of lower tiers, as a sentence; None where the engine has some."""
    if has_tiers(state):
        return None
    return "all KV of this engine is on its device" if state.tier_spans() else not_exposed(state, "lower tiers")


def tiers_title(state: EngineState) -> str:
    """``tiers: 212 blocks kept below the device's 256 (+83%)``: complete blocks that lower tiers hold for it."""
    kept = kept_below(state)
    return f"tiers: {kept}" if kept else "tiers"


def kept_below(state: EngineState) -> str:
    """What of it the title says; empty where that is unknown."""
    spans = state.tier_spans()
    device = len(spans[0][1]) if spans else 0
    lower = [level for level in state.tiers if not spans or level.tier != spans[0][0]]
    held = [(level.blocks_cached or 0) + (level.blocks_held or 0) for level in lower if level.blocks_cached is not None]
    if not held or not device:
        return ""
    return f"{plural(sum(held), 'block')} kept below the device's {count(device)} (+{percent(sum(held) / device)})"


def figures_of(state: EngineState, now: float, *titles: str) -> str:
    """``device 212/256, host 12/64``: of the columns with these titles, for each tier; empty where no tier is known."""
    columns = [column for column in _COLUMNS if column.title in titles]
    mono = state.mono_now(now)
    every = [_Figures(state, level, mono) for level in state.tiers]
    return ", ".join(f"{_name(one)[0]} {' / '.join(column.cell(one)[0] for column in columns)}" for one in every)


def tier_rows(state: EngineState, width: int, height: int, now: float, glyphs: Glyphs = UNICODE) -> list[Row]:
    """Column titles, a row for each tier in the order of the hello, and where there is room what the bar means.

    Without room for the titles each row names its figures itself.
    """
    if not state.tiers:
        return message_rows(not_exposed(state, "contents and flow of tiers"), width, height, glyphs)
    columns, bar = _columns(width)
    figures = [_Figures(state, level, state.mono_now(now)) for level in state.tiers]
    if height <= len(figures):
        shown = figures if len(figures) <= height else figures[: max(0, height - 1)]
        rows = [_spelled(one, width) for one in shown]
        if len(shown) < len(figures):
            rows.append(line([(f"… and {count(len(figures) - len(shown))} more", Role.DIM)], width))
        return glyphs.rows(exactly(rows, width, height))
    rows = [_titles(columns, bar, width), *(_row(one, columns, bar, width, glyphs) for one in figures)]
    if len(rows) < height:
        rows.append(_legend(width, glyphs))
    return glyphs.rows(exactly(rows, width, height))


# -- a row ------------------------------------------------------------------------------------------------------------


def contents(state: EngineState, level: TierLevel) -> dict[str, int] | None:
    """Blocks of a tier by the name of their state; those held for swapped requests are *reserved*. None: unknown."""
    spans = state.tier_spans()
    if spans and level.tier == spans[0][0] and (counts := state.counts()) is not None:
        return counts
    if level.blocks_total is None or level.blocks_free is None:
        return None
    parts = {
        "cached": level.blocks_cached or 0,
        "reserved": level.blocks_held or 0,
        "transfer": level.blocks_transfer or 0,
        "free": level.blocks_free,
    }
    other = level.blocks_total - sum(parts.values())
    return parts | ({"active": other} if other > 0 else {})


def _name(figures: _Figures) -> tuple[str, int]:
    level = figures.level
    groups = {other.group for other in figures.state.tiers}
    return clean(level.tier, 16) + (f" g{level.group}" if len(groups) > 1 else ""), Role.STRONG


def _filled(figures: _Figures) -> tuple[str, int]:
    total, free = figures.level.blocks_total, figures.level.blocks_free
    used = None if total is None or free is None else max(0, total - free)
    return f"{count(used)}/{count(total)}", Role.TEXT


def _flow(total: str) -> Callable[[_Figures], tuple[str, int]]:
    def cell(figures: _Figures) -> tuple[str, int]:
        flow = figures.per_second(total, FLOW_WINDOW)
        return rate(None if flow is None else flow / 1e6), role_of("transfer") if flow else Role.DIM

    return cell


def _milliseconds(figures: _Figures) -> tuple[str, int]:
    level = figures.level
    return f"{rate(level.ms_per_block_in)}/{rate(level.ms_per_block_out)}", Role.TEXT


def _hit(figures: _Figures) -> tuple[str, int]:
    """Share of the prompt tokens looked up in this tier that were found there."""
    hits, misses = figures.per_second("hit_tokens", HIT_WINDOW), figures.per_second("miss_tokens", HIT_WINDOW)
    looked_up = None if hits is None or misses is None else hits + misses
    return (percent(hits / looked_up), Role.STRONG) if hits is not None and looked_up else (UNKNOWN, Role.DIM)


def _stalls(figures: _Figures) -> tuple[str, int]:
    stalls, ms = figures.level.stalls, figures.level.stall_ms
    spent = f" {seconds(ms / 1000)}" if stalls and ms is not None else ""
    return count(stalls) + spent, Role.WARN if stalls else Role.DIM


def _total(name: str, alarming: int = Role.TEXT) -> Callable[[_Figures], tuple[str, int]]:
    def cell(figures: _Figures) -> tuple[str, int]:
        value: Number = getattr(figures.level, name)
        return count(value), alarming if value else Role.DIM

    return cell


def _prefetched(figures: _Figures) -> tuple[str, int]:
    """Blocks brought to the device ahead of their request that were hit since, of all those brought."""
    brought, used = figures.level.prefetched_blocks, figures.level.prefetch_used_blocks
    return f"{count(used)}/{count(brought)}", Role.TEXT if brought else Role.DIM


_COLUMNS = (
    _Column("tier", 7, 100, _name),
    _Column("filled", 9, 95, _filled),
    _Column("held", 5, 45, _total("blocks_held", role_of("reserved"))),
    _Column("in", 5, 90, _flow("bytes_in")),
    _Column("out", 5, 89, _flow("bytes_out")),
    _Column("ms/block", 9, 70, _milliseconds),
    _Column("hit", 4, 80, _hit),
    _Column("hits", 6, 50, _total("hit_tokens")),
    _Column("stalls", 9, 75, _stalls),
    _Column("drops", 5, 60, _total("drops", Role.WARN)),
    _Column("fails", 5, 78, _total("failures", Role.BAD)),
    _Column("ahead", 11, 40, _prefetched),
)
_BAR_LEAST = 8


def _columns(width: int) -> tuple[list[_Column], int]:
    """The columns that fit beside a bar, and the bar's width."""
    shown = list(_COLUMNS)
    while len(shown) > 1 and sum(column.width + 1 for column in shown) + _BAR_LEAST > width:
        shown.remove(min(shown, key=lambda column: column.weight))
    return shown, min(_BAR_WIDEST, max(0, width - sum(column.width + 1 for column in shown)))


def _titles(columns: list[_Column], bar: int, width: int) -> Row:
    builder = RowBuilder().add(columns[0].title.ljust(columns[0].width), Role.TITLE)
    builder.add(f" {'contents'[:bar]:<{bar}}", Role.TITLE)
    for column in columns[1:]:
        builder.add(f" {column.title:>{column.width}}", Role.TITLE)
    return builder.row(width)


def _row(figures: _Figures, columns: list[_Column], bar: int, width: int, glyphs: Glyphs) -> Row:
    text, role = columns[0].cell(figures)
    builder = RowBuilder().add(text[: columns[0].width].ljust(columns[0].width), role).add(" ")
    for shape, shade in _bar(figures, bar, glyphs):
        builder.add(shape, shade)
    for column in columns[1:]:
        text, role = column.cell(figures)
        if len(text) > column.width:
            # Rather its first number whole than two of them cut.
            text = text.split(" ")[0].split("/")[0][: column.width]
        builder.add(f" {text:>{column.width}}", role)
    return builder.row(width)


def _spelled(figures: _Figures, width: int) -> Row:
    """A tier without column titles above it."""
    level = figures.level
    flow_in, flow_out = _flow("bytes_in")(figures), _flow("bytes_out")(figures)
    parts = [
        part(99, (_name(figures), (" ", Role.TEXT), _filled(figures))),
        part(90, (("in ", Role.DIM), flow_in, (" out ", Role.DIM), flow_out, (" MB/s", Role.DIM)), ""),
        part(80, (("hit ", Role.DIM), _hit(figures)), ""),
        part(70, (("stalls ", Role.DIM), _stalls(figures)), ""),
        part(60, (("drops ", Role.DIM), _total("drops", Role.WARN)(figures)), ""),
        part(75, (("fails ", Role.DIM), _total("failures", Role.BAD)(figures)), ""),
    ]
    if level.ms_per_block_in is not None or level.ms_per_block_out is not None:
        parts.append(part(50, (_milliseconds(figures), (" ms/block", Role.DIM)), ""))
    return fit(parts, width)


def _bar(figures: _Figures, width: int, glyphs: Glyphs) -> list[Span]:
    counts = contents(figures.state, figures.level)
    total = 0 if counts is None else sum(counts.values())
    if counts is None or not total or not width:
        return [("?".ljust(width)[:width], Role.DIM)]
    names = in_bar(counts)
    cells = bar_cells([counts[name] for name in names], total, width)
    return [(glyphs.state(name) * n, role_of(name)) for name, n in zip(names, cells, strict=True) if n]


def _legend(width: int, glyphs: Glyphs) -> Row:
    shown = [
        part(9 - place, ((glyphs.state(s.name), role_of(s.name)), (f" {s.below}", Role.DIM)), "")
        for place, s in enumerate(sorted((s for s in STATES if s.below), key=lambda s: -s.bar))
    ]
    return fit([*shown, part(3, "in, out: MB/s", "", role=Role.DIM)], width, separator="  ")
