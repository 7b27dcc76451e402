"""One request's block table: logical block (and KV group, where there are several) -> physical block, and what that is."""

from collections import Counter

from kvtop.protocol import Geometry, KVGroup
from kvtop.state import BlockArrays, EngineState, RequestRow
from kvtop.state.request_row import NO_BLOCK
from kvtop.views.block_detail import state_name, tier_of
from kvtop.views.block_states import role_of
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Span, exactly, fit, line, part, wrap
from kvtop.views.format import called, count, fixed, percent, plural, size
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean

_HEADER_ROWS = 2
"""Rows above the table: the request in a line, and the titles of the columns."""

_WIDE = 100
"""From this width on hashes are shown in full, below it their first half."""


def header_rows(state: EngineState) -> int:
    """Rows above the table; one more, between those two, where there are several KV groups to name."""
    return _HEADER_ROWS + (_geometry(state).group_count > 1)


def _geometry(state: EngineState) -> Geometry:
    return state.hello.geometry if state.hello else Geometry()


def table_length(state: EngineState, num: int) -> int:
    """Places in the table of a request; 0 where there is none."""
    row = state.request(num)
    return len(row.table) if row else 0


def block_table_rows(
    state: EngineState, num: int, width: int, height: int, now: float, glyphs: Glyphs = UNICODE, *, offset: int = 0
) -> list[Row]:
    """The request, the column titles, then places of the table from ``offset`` on, one a row."""
    if state.requests is None:
        return message_rows(not_exposed(state, "requests"), width, height, glyphs)
    request = state.requests.get(num)
    if request is None:
        return message_rows(f"request #{count(num)} is gone", width, height, glyphs)
    rows = [_summary(state, request, width)]
    if _geometry(state).group_count > 1:
        rows.append(_groups(state, width))
    text = request.prompt_text is not None
    rows.append(_titles(width, len(state.tier_spans()) > 1, text))
    room = max(0, height - len(rows))
    first = max(0, min(offset, len(request.table) - room))
    shown = list(enumerate(request.table))[first : first + room]
    if not shown:
        rows += wrap([(_elsewhere(state, request), Role.DIM)], width, max(1, room))
    partners = _partners(state, request, [block for _, block in shown])
    groups = _geometry(state).group_count
    for place, block in shown:
        said = request.text_of(place // groups) if text else None
        rows.append(_entry(state, place, block, partners.get(block, []), width, said, text))
    return glyphs.rows(exactly(rows, width, height))


def _hash_width(width: int, text: bool) -> int:
    """Cells for the hash; on a narrow screen the text of the blocks, where it is exposed, stands in its place."""
    if width >= _WIDE:
        return 16
    return 0 if text else 8


def _text_width(width: int) -> int:
    return 40 if width >= _WIDE else 20


def _titles(width: int, several: bool, text: bool) -> Row:
    tier, hashed = "tier    " if several else "", _hash_width(width, text)
    titles = f"logical  tokens           block  {tier}state      fill  refs"
    titles += f"  {'hash':<{hashed}}" if hashed else ""
    titles += f"  {'text':<{_text_width(width)}}" if text else ""
    return line([(f"{titles}  shared by", Role.TITLE)], width)


def _summary(state: EngineState, request: RequestRow, width: int) -> Row:
    shared = 0
    states: Counter[str] = Counter()
    if state.blocks is not None:
        inside = [block for block in request.held if block < state.blocks.total]
        shared = int((state.blocks.refs[inside] > 1).sum()) if inside else 0
        states = Counter(state_name(state, int(code)) for code in state.blocks.state[inside]) if inside else Counter()
    cache_dtype = request.cache_dtype or _geometry(state).cache_dtype
    others = ", ".join(f"{count(n)} {name}" for name, n in states.most_common() if name not in ("active", "shared"))
    return fit(
        [
            part(99, ((called(request.name), Role.STRONG),)),
            part(90, clean(request.state or ""), ""),
            part(80, plural(len(request.held), "block")),
            part(79, _given_up(request), ""),
            part(70, f"{count(shared)} shared", ""),
            part(60, others, ""),
            part(50, f"{count(request.computed_tokens)} tokens computed", ""),
            part(75, _sample(state, request), ""),
            part(44, f"{count(request.pinned_blocks)} pinned" if request.pinned_blocks else "", ""),
            part(43, f"KV in {clean(request.tier, 16)}" if request.tier and not request.finished else "", ""),
            part(40, f"attention {clean(request.attention_mode, 32)}" if request.attention_mode else "", ""),
            part(30, f"KV {clean(cache_dtype, 32)}" if cache_dtype else "", ""),
        ],
        width,
    )


def _elsewhere(state: EngineState, request: RequestRow) -> str:
    """Where its KV is when nothing is in its table: the blocks of lower tiers held for it."""
    held = state.held_below(request.num)
    if not held:
        return "no blocks in its table"
    numbers = ", ".join(map(str, held[:64])) + (f" and {count(len(held) - 64)} more" if len(held) > 64 else "")
    return f"no blocks in its table; its KV is in {plural(len(held), 'block')} of {tier_of(state, held[0])}: {numbers}"


def _sample(state: EngineState, request: RequestRow) -> str:
    """Which of several that came from one prompt, and of whose; a beam with its score."""
    if not request.siblings or request.siblings < 2:
        return ""
    kind = "beam" if request.score is not None else "sample" if request.output_tokens else "output"
    place = "one" if request.sibling is None else f"{kind} {count(request.sibling)}"
    text = f"{place} of {count(request.siblings)}" + (f" {kind}s" if request.sibling is None else "")
    if request.group is not None and request.group != request.num:
        first = state.request(request.group)
        text += f" of {called(first.name, 24) if first else f'#{request.group}'}"
    return text if request.score is None else f"{text}, log-probability {request.score:.3f}"


def group_name(group: KVGroup) -> str:
    """What its layers see."""
    return "sees all" if group.window is None else f"window {count(group.window)}"


def _groups(state: EngineState, width: int) -> Row:
    """The KV groups, and what of the memory is lost because not all have equally many layers."""
    geometry = _geometry(state)
    parts = [
        part(
            90 - place,
            f"g{place} {group_name(group)}, {plural(group.layers, 'layer')}",
            f"g{place} {group_name(group)}",
        )
        for place, group in enumerate(geometry.groups[:16])
    ]
    if len(geometry.groups) > 16:
        parts.append(part(60, f"and {count(len(geometry.groups) - 16)} more groups"))
    lost = "no padding"
    if geometry.padding_share:
        lost = f"{percent(geometry.padding_share)} of KV is padding"
        if geometry.padding_bytes_per_token is not None:
            lost += f" ({size(geometry.padding_bytes_per_token)} a token)"
    parts.append(part(80, lost, f"padding {percent(geometry.padding_share)}"))
    return fit(parts, width)


def _given_up(request: RequestRow) -> str:
    """Blocks that slid out of the window of all layers that had their KV there."""
    gone = len(request.table) - len(request.held)
    return f"{count(gone)} given up before its window" if gone else ""


def _partners(state: EngineState, request: RequestRow, shown: list[int]) -> dict[int, list[str]]:
    """Names of the other requests that hold each of these blocks."""
    wanted = set(shown) - {NO_BLOCK}
    if state.blocks is not None:
        wanted = {block for block in wanted if block < state.blocks.total and state.blocks.refs[block] > 1}
    if not wanted or state.requests is None:
        return {}
    return {
        block: [other.name for other in rows if other.num != request.num]
        for block, rows in state.requests.holding(wanted).items()
    }


def _entry(
    state: EngineState, place: int, block: int, partners: list[str], width: int, said: str | None, text: bool
) -> Row:
    """``said``: what its tokens say, None where that is not known; ``text``: whether there is a column for it."""
    geometry = _geometry(state)
    size, (logical, group) = geometry.block_size, divmod(place, geometry.group_count)
    tokens = f"{logical * size}…{(logical + 1) * size - 1}" if size else "–"
    name = f"{logical}" if geometry.group_count == 1 else f"{logical} g{group}"
    spans: list[Span] = [(f"{name:>7}  {tokens:<13} {block:>8}  ", Role.TEXT)]
    blocks = state.blocks
    if block == NO_BLOCK:
        gone = "given up: no layer sees these tokens again"
        window = geometry.groups[group].window if group < len(geometry.groups) else None
        if window is not None:
            gone = f"given up: outside the window of {count(window)} tokens"
        return line([(f"{name:>7}  {tokens:<13} {'–':>8}  {gone}", Role.DIM)], width)
    if blocks is None or block >= blocks.total:
        spans.append((not_exposed(state, "blocks") if blocks is None else "beyond the pool", Role.DIM))
        return line(spans, width)
    spans += _physical(state, blocks, block, size, _hash_width(width, text))
    if text:
        spans.append((f"  {_one_line(said, _text_width(width))}", Role.TEXT if said is not None else Role.DIM))
    if partners:
        room = width - sum(len(text) for text, _ in spans) - 2
        spans.append((f"  {_in_room(partners, room)}", role_of("shared")))
    return line(spans, width)


def _in_room(names: list[str], room: int) -> str:
    """As many of ``names`` as ``room`` cells have room for, each as long as it can be, and how many more there are."""
    for width in (24, 16, 12, 8):
        text = ", ".join(called(name, width) for name in names)
        if len(text) <= room:
            return text
    for shown in range(min(len(names) - 1, room // 2), 0, -1):
        text = f"{', '.join(called(name, 8) for name in names[:shown])} +{len(names) - shown}"
        if len(text) <= room:
            return text
    return f"{len(names)} others" if len(names) > 1 else called(names[0], room)


def _physical(state: EngineState, blocks: BlockArrays, block: int, size: int | None, hashed: int) -> list[Span]:
    name = state_name(state, int(blocks.state[block]))
    fill = f"{count(int(blocks.fill[block]))}/{count(size)}" if size else count(int(blocks.fill[block]))
    tier = tier_of(state, block)
    place: list[Span] = [] if tier is None else [(f"{fixed(tier, 7)} ", Role.DIM if tier == "device" else Role.ACCENT)]
    return [
        *place,
        (fixed(name, 8), role_of(name)),
        (f"  {fill:>5}  {count(int(blocks.refs[block])):>4}", Role.TEXT),
        (f"  {(blocks.hash_of(block) or '–')[:hashed]:<{hashed}}" if hashed else "", Role.DIM),
    ]


def _one_line(said: str | None, width: int) -> str:
    """A block's text in ``width`` cells: line ends as a sign, its end cut."""
    if said is None:
        return "–".ljust(width)
    return fixed(said[: 4 * width].replace("\r\n", "\n").replace("\n", "↵").replace("\t", " "), width)
