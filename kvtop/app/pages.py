"""What fills a pager: the block table of one request, for as long as its run goes on."""

from collections.abc import Callable

from kvtop.app.feed import Feed
from kvtop.views.block_table import block_table_rows, header_rows, table_length
from kvtop.views.glyphs import Glyphs
from kvtop.views.rows import Role
from panels.dialogs.pager import Content, Page
from panels.dialogs.wrapping import wrapped


def block_table(feed: Feed, num: int, now: Callable[[], float], glyphs: Glyphs) -> Content:
    """Pages of the table of request ``num``, as it is when each is asked for. ``now``: the viewer's monotonic clock."""
    run = feed.shown.run

    def content(width: int, first: int, height: int) -> Page:
        state = feed.shown
        if state.run != run:
            over = "the engine has been restarted: the run that this request was in is over"
            return Page(wrapped(over, width, Role.BAD), 1)
        rows = block_table_rows(state, num, width, height, now(), glyphs, offset=first)
        return Page(rows, table_length(state, num), fixed=header_rows(state))

    return content
