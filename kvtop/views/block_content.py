"""Blocks drawn several cells wide: with room for it, each tells its owner and what is written to it."""

from kvtop.state import BlockArrays, EngineState
from kvtop.views.cells import fill_role, fill_steps, owner_letter, owner_role
from kvtop.views.format import count
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import Role, Row, RowBuilder
from kvtop.views.zoom import CONTENT, COUNTED, Zoom


def content_row(state: EngineState, blocks: range, row: Row, mode: str, zoom: Zoom, glyphs: Glyphs) -> Row:
    """``row``, a cell a block, as wide as ``zoom`` draws ``blocks``; blank where it goes on beyond them.

    From `CONTENT` cells on: the block's cell, its owner's letter (a capital where it is shared), and how full it is, from
    `COUNTED` on in tokens. A free block has none of these.
    """
    builder = RowBuilder()
    arrays = state.blocks
    for place, (glyph, role) in enumerate(zip(row.text, row.roles, strict=True)):
        builder.to(place * zoom.columns)
        if zoom.glyphs < CONTENT or arrays is None or place >= len(blocks):
            builder.add(glyph * zoom.glyphs, role)
            continue
        block = blocks[place]
        builder.add(glyph, role)
        owner = int(arrays.owner[block])
        if owner < 0:
            builder.add(glyph, role)
        elif mode == "owner":
            builder.add(" ")
        else:
            letter = owner_letter(owner)
            builder.add(letter.upper() if arrays.refs[block] > 1 else letter, owner_role(owner))
        _add_fill(builder, state, arrays, block, zoom, glyphs, Row(glyph, bytes((role,))))
    return builder.row()


def _add_fill(
    builder: RowBuilder, state: EngineState, arrays: BlockArrays, block: int, zoom: Zoom, glyphs: Glyphs, cell: Row
) -> None:
    room = zoom.glyphs - 2
    size = state.hello.geometry.block_size if state.hello else None
    free = arrays.owner[block] < 0 and not arrays.fill[block]
    if free or (zoom.glyphs < COUNTED and not size):
        builder.add(cell.text * room, cell.roles[0])
    elif zoom.glyphs < COUNTED:
        step = int(fill_steps(arrays.fill[block : block + 1], size or 1)[0])
        builder.add(glyphs.fill[step] * room, fill_role(step))
    else:
        text = count(int(arrays.fill[block]))
        builder.add(f"{text:>{room}}" if len(text) <= room else "+".rjust(room), Role.TEXT)
