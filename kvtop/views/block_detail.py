"""The block under the cursor: what it holds, for whom, where in their sequences, since when."""

from kvtop.protocol import Geometry
from kvtop.state import BlockArrays, EngineState
from kvtop.views.block_states import role_of
from kvtop.views.cells import owner_role
from kvtop.views.exposure import message_rows, not_exposed
from kvtop.views.fit import Part, Span, fit, part
from kvtop.views.format import age, called, count, plural
from kvtop.views.glyphs import UNICODE, Glyphs
from kvtop.views.rows import Role, Row, clean

NAMED_OWNERS = 8


def block_detail_rows(
    state: EngineState,
    block: int | None,
    width: int,
    now: float,
    glyphs: Glyphs = UNICODE,
    *,
    cell: range | None = None,
) -> list[Row]:
    """Two rows: the block itself, then its owners. ``cell``: all blocks of the cell it was picked from."""
    blocks = state.blocks
    if blocks is None:
        return message_rows(not_exposed(state, "blocks"), width, 2, glyphs)
    if block is None or not 0 <= block < blocks.total:
        return message_rows("no block chosen: move the cursor on the map", width, 2, glyphs)
    rows = [fit(_facts(state, blocks, block, now, cell), width), fit([_owners(state, blocks, block)], width)]
    return glyphs.rows(rows)


def block_line_row(
    state: EngineState, block: int, width: int, now: float, glyphs: Glyphs = UNICODE, *, cell: range | None = None
) -> Row:
    """The same in one row, for small screens: owners as ``name [logical]``."""
    blocks = state.blocks
    if blocks is None or not 0 <= block < blocks.total:
        return block_detail_rows(state, block, width, now, glyphs)[0]
    found = state.owners(block)
    groups = state.hello.geometry.group_count if state.hello else 1
    forms: list[list[Span]] = []
    for named in range(min(len(found), NAMED_OWNERS), 0, -1):
        spans: list[Span] = []
        for number, (row, place) in enumerate(found[:named]):
            spans.append((", " if number else "", Role.DIM))
            spans.append((called(row.name, 16), owner_role(row.num)))
            spans.append((f" [{place // groups}]", Role.TEXT))
        spans += [(f" +{count(len(found) - named)}", Role.DIM)] if named < len(found) else []
        forms.append(spans)
    unknown = not_exposed(state, "owners") if state.requests is None else "no owner"
    owners = part(48, *forms) if forms else part(48, unknown, "", role=Role.DIM)
    first, *others = _facts(state, blocks, block, now, cell)
    return glyphs.rows([fit([first, owners, *others], width)])[0]


def state_name(state: EngineState, code: int) -> str:
    """The name of a block's state code as the hello gives it."""
    names = state.state_names()
    return clean(names[code], 32) if code < len(names) else f"state {code}"


def tier_of(state: EngineState, block: int) -> str | None:
    """The tier a block belongs to; None where there is but one."""
    spans = state.tier_spans()
    return next((name for name, span in spans if block in span), None) if len(spans) > 1 else None


def _facts(state: EngineState, blocks: BlockArrays, block: int, now: float, cell: range | None) -> list[Part]:
    name = state_name(state, int(blocks.state[block]))
    mono = state.mono_now(now)
    size = state.hello.geometry.block_size if state.hello else None
    touched = None if mono is None else mono - float(blocks.touched[block])
    fill = count(int(blocks.fill[block])) + (f"/{count(size)}" if size else "")
    hashed = blocks.hash_of(block)
    parts = [
        part(99, ((f"block {block} ", Role.STRONG), (name, role_of(name)))),
        part(50, f"fill {fill} tokens", f"fill {fill}"),
        part(45, plural(int(blocks.refs[block]), "reference"), plural(int(blocks.refs[block]), "ref")),
        part(40, f"touched {age(touched)} ago", f"age {age(touched)}", ""),
        part(30, f"hash {hashed or 'none'}", f"hash {hashed[:8]}…" if hashed else "no hash", ""),
        *_place(state, blocks, block),
    ]
    if cell is not None and len(cell) > 1:
        parts.append(part(20, f"cell of blocks {cell.start}…{cell.stop - 1}", f"{len(cell)} in cell", ""))
    return parts


def _place(state: EngineState, blocks: BlockArrays, block: int) -> list[Part]:
    """Tier and KV group, where there are several."""
    geometry = state.hello.geometry if state.hello else Geometry()
    tier = tier_of(state, block)
    parts = [] if tier is None else [part(46, f"tier {clean(tier, 16)}", clean(tier, 16))]
    if geometry.group_count > 1 or len({pool.group for pool in geometry.pools}) > 1:
        parts.append(_group(geometry, int(blocks.group[block])))
    return parts


def _group(geometry: Geometry, number: int) -> Part:
    """A block holds tokens for the layers of one group only: which, and what they see."""
    if number >= len(geometry.groups):
        return part(24, f"group {number}", "")
    window = geometry.groups[number].window
    sees = "sees all tokens" if window is None else f"window of {count(window)} tokens"
    return part(
        47, f"group g{number}: {sees}", f"g{number} {'sees all' if window is None else f'window {count(window)}'}"
    )


def _owners(state: EngineState, blocks: BlockArrays, block: int) -> Part:
    if state.requests is None:
        return part(9, not_exposed(state, "owners"), role=Role.DIM)
    found = state.owners(block)
    holder = state.requests.get(int(blocks.owner[block]))
    if not found and holder is not None:
        return part(
            9,
            (
                (f"holds KV of {called(holder.name, 24)}", owner_role(holder.num)),
                (", which is swapped out" if holder.state == "swapped" else "", Role.DIM),
            ),
        )
    if not found:
        cached = blocks.hash_of(block) is not None
        return part(9, "no owner; its content can be found by its hash" if cached else "no owner", role=Role.DIM)
    geometry = state.hello.geometry if state.hello else Geometry()
    size, groups = geometry.block_size, geometry.group_count
    forms: list[list[Span]] = []
    for named in range(min(len(found), NAMED_OWNERS), 0, -1):
        for tokens in (True, False):
            spans: list[Span] = [("owned by ", Role.DIM) if len(found) == 1 else ("shared by ", Role.DIM)]
            for number, (row, place) in enumerate(found[:named]):
                logical = place // groups
                spans.append((", " if number else "", Role.DIM))
                spans.append((called(row.name, 24), owner_role(row.num)))
                span = f" (tokens {logical * size}…{(logical + 1) * size - 1})" if size and tokens else ""
                spans.append((f" logical {logical}{span}", Role.TEXT))
            if named < len(found):
                spans.append((f" and {count(len(found) - named)} more", Role.DIM))
            forms.append(spans)
    return part(9, *forms)
