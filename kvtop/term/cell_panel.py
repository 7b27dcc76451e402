"""The base of every panel: rows in, strips out, only changed rows repainted."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from textual.filter import LineFilter
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from kvtop.term.palette import Palette
from kvtop.term.strip import CellStrip
from kvtop.views.rows import Row

if TYPE_CHECKING:
    from kvtop.term.front_buffer import FrontBufferApp

_EMPTY = Row("", b"")


class CellPanel(Widget):
    """A widget that shows rows of cells, cut or padded to its size.

    It paints its whole region itself: borders, padding, tint and opacity of CSS have no effect on it, so put those on
    a parent. Text is shown as it is; no markup is interpreted.
    """

    ALLOW_SELECT = False

    def __init__(
        self,
        rows: Sequence[Row] = (),
        *,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
        disabled: bool = False,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes, disabled=disabled)
        self._rows: list[Row] = list(rows)
        self._strips: dict[int, tuple[Row, CellStrip]] = {}
        self._drawn_for: tuple[int, Palette] | None = None

    @property
    def rows(self) -> Sequence[Row]:
        """What was last shown."""
        return self._rows

    @property
    def palette(self) -> Palette:
        return cast("FrontBufferApp[object]", self.app).palette

    @property
    def size(self) -> Size:
        """All of it: it has neither border nor padding to take off, which Textual works out anew each time it is asked."""
        return self.outer_size

    def show(self, rows: Sequence[Row]) -> int:
        """Shows ``rows`` from the top; rows below them are blank.

        Only rows that differ from what is shown are repainted.

        Returns:
            How many rows changed.
        """
        old, new = self._rows, list(rows)
        self._rows = new
        changed = [y for y, (a, b) in enumerate(zip(old, new, strict=False)) if a is not b and a != b]
        changed.extend(range(min(len(old), len(new)), max(len(old), len(new))))
        width, height = self.size
        visible = [y for y in changed if y < height]
        if visible and width:
            lines = [new[y] if y < len(new) else _EMPTY for y in visible]
            if not cast("FrontBufferApp[object]", self.app).paint(self, visible, lines):
                self.refresh(*(Region(0, y, width, 1) for y in visible))
        return len(changed)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """None: the palette already knows the terminal's colours."""
        return []

    def render_line(self, y: int) -> Strip:
        self._look_up()
        return self._line(y)

    def render_lines(self, crop: Region) -> list[Strip]:
        # Whatever is dirty of a panel, Textual asks for all of its lines: what is the same for them is looked up once.
        width = self._look_up()
        first, last = crop.column_span
        lines = [self._line(y) for y in crop.line_range]
        return lines if first <= 0 and last >= width else [line.crop(first, last) for line in lines]

    def _look_up(self) -> int:
        """Forgets strips of another width or palette; the present width."""
        width, palette = self.size.width, self.palette
        if self._drawn_for != (width, palette):
            self._strips.clear()
            self._drawn_for = (width, palette)
        return width

    def _line(self, y: int) -> Strip:
        row = self._rows[y] if y < len(self._rows) else _EMPTY
        drawn = self._strips.get(y)
        if drawn is not None and (drawn[0] is row or drawn[0] == row):
            return drawn[1]
        assert self._drawn_for is not None
        strip = CellStrip.from_row(row, *self._drawn_for)
        self._strips[y] = (row, strip)
        return strip
