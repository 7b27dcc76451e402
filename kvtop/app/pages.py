"""What fills a pager: all about one request, for as long as its run goes on; what the numbers mean, and are."""

from collections.abc import Callable, Sequence

from kvtop.app.feed import Feed
from kvtop.views.definition import Section
from kvtop.views.glyphs import Glyphs
from kvtop.views.present import present
from kvtop.views.request_page import request_page_rows
from kvtop.views.rows import Role
from panels.dialogs.numbers_text import number_rows
from panels.dialogs.pager import Content, Page
from panels.dialogs.wrapping import wrapped


def request_page(feed: Feed, num: int, now: Callable[[], float], glyphs: Glyphs) -> Content:
    """Pages of all about request ``num``, as it is when each is asked for. ``now``: the viewer's monotonic clock."""
    run = feed.shown.run

    def content(width: int, first: int, height: int) -> Page:
        state = feed.shown
        if state.run != run:
            over = "the engine has been restarted: the run that this request was in is over"
            return Page(wrapped(over, width, Role.BAD), 1)
        return Page(*request_page_rows(state, num, width, height, now(), glyphs, first=first))

    return content


def numbers_page(
    feed: Feed, sections: Sequence[Section], num: Callable[[], int | None], now: Callable[[], float], glyphs: Glyphs
) -> Content:
    """Pages of these sections of the table of numbers, with what each is when it is asked for. ``num``: the request whose
    numbers are meant."""

    def content(width: int, first: int, height: int) -> Page:
        state, at = feed.shown, now()
        chosen = num()
        row = None if chosen is None else state.request(chosen)
        rows = number_rows(width, sections, lambda number: present(number, state, at, row), row)
        return Page(glyphs.rows(rows[first : first + height]), len(rows))

    return content
