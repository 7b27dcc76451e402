"""Textual's screen updates, put into a cell buffer."""

from textual._compositor import ChopsUpdate, LayoutUpdate

from kvtop.term.cell_buffer import CellBuffer


def absorb(buffer: CellBuffer, update: ChopsUpdate | LayoutUpdate) -> None:
    """Puts an update into ``buffer``.

    A line comes as *chops*, its parts between widget edges. Those that changed are put whole, where Textual would cut
    them at the dirty region: the buffer finds out what in them is new.

    Raises:
        kvtop.term.look_table.TableFull: Start again with an empty buffer.
    """
    table, put = buffer.table, buffer.put
    if isinstance(update, LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            x = update.region.x
            for strip in line:
                put(y, x, table.cells(strip, x))
                x += strip.cell_length
        return
    for y, first, last in update.spans:
        for end, (x, chop) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            # A chop that only touches the span may hold the widget below the one on top: Textual writes nothing of
            # it, so neither do we.
            if chop is not None and x < last and end > first:
                put(y, x, table.cells(chop, x), end)
