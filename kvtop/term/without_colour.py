"""A line filter that leaves no colour at all."""

from functools import lru_cache

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter


class WithoutColour(LineFilter):
    """Drops colours and keeps bold, dim, underline and reverse.

    Textual's own filter for NO_COLOR sets default colours instead, which still sends a colour code with every segment.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(text, None if style is None else _bare(style), control) for text, style, control in segments]


@lru_cache(maxsize=2048)
def _bare(style: Style) -> Style:
    return style.without_color
