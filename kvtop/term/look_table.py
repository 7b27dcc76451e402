"""Numbers for looks, and the cells of any Textual strip."""

from typing import Final

import numpy as np
from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.style import Style
from textual.strip import Strip

from kvtop.term.depth import ColourDepth
from kvtop.term.palette import LOOK_SHIFT, Palette
from kvtop.term.sgr import PLAIN, Look, switch
from kvtop.term.strip import BLANK, Cells, CellStrip, paired

BLOCK_LOOK: Final = 2046
"""Cells of this "look" are part of a block: a stretch that is painted as one piece. The low bits number the block."""

UNKNOWN: Final = 0xFFFF_FFFF
"""A cell about which nothing is known. Its look, 2047, is nobody's."""

COLOUR_SYSTEMS: Final = {
    ColourDepth.TRUECOLOR: ColorSystem.TRUECOLOR,
    ColourDepth.INDEXED: ColorSystem.EIGHT_BIT,
    ColourDepth.ANSI16: ColorSystem.STANDARD,
    ColourDepth.NONE: ColorSystem.STANDARD,
}

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))
_STYLES_KEPT = 4096
_BLOCKS_KEPT = 4096


class TableFull(Exception):
    """More looks or blocks than numbers: start again with an empty table and a screen about which nothing is known."""


class LookTable:
    """Turns strips into cells: 32-bit numbers whose equality means that they look the same on the screen.

    The palette's role bytes have the look numbers 0 to 255; styles of other widgets get the next free ones. What does
    not fit one character a cell (wide or combining characters that our own views did not draw) becomes a *block*, painted as one piece. Control
    characters and terminal hyperlinks are left out.

    Raises:
        TableFull: From `cells`.
    """

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self.looks: list[Look] = list(palette.looks)
        self._numbers: dict[Look, int] = {}
        for number, look in enumerate(palette.looks):
            self._numbers.setdefault(look, number)
        self._styles: dict[Style, tuple[int, bool]] = {}
        self._block_numbers: dict[tuple[int, int, str], int] = {}
        self.blocks: list[tuple[int, int, str]] = []  # column, width, encoded text
        self._system = COLOUR_SYSTEMS[palette.depth]

    def cells(self, strip: Strip, x: int) -> Cells:
        """The cells of ``strip``, which stands at column ``x``."""
        if isinstance(strip, CellStrip) and strip.palette is self.palette:
            return strip.cells
        texts: list[str] = []
        numbers: list[int] = []
        inkless: list[bool] = []
        lengths: list[int] = []
        narrow = True
        for text, style, control in strip:
            if control:
                continue
            if not text.isprintable():
                # Rich gives control characters no width, so leaving them out keeps the columns.
                text = text.translate(_CONTROLS)
            narrow = narrow and (text.isascii() or cell_len(text) == len(text))
            number, plain = (0, True) if style is None else self._number(style)
            texts.append(text)
            lengths.append(len(text))
            numbers.append(number)
            inkless.append(plain)
        if not narrow:
            return self._block(x, strip.cell_length, texts, numbers)
        joined = "".join(texts)
        codes = np.frombuffer(joined.encode("utf-32-le", "replace"), dtype=np.uint32)
        cells = codes | np.repeat(np.array(numbers, dtype=np.uint32) << LOOK_SHIFT, lengths)
        cells[(codes == BLANK) & np.repeat(inkless, lengths)] = BLANK
        return cells if joined.isprintable() else paired(cells)

    def _number(self, style: Style) -> tuple[int, bool]:
        known = self._styles.get(style)
        if known is None:
            look = self._look(style)
            number = self._numbers.get(look)
            if number is None:
                number = len(self.looks)
                if number >= BLOCK_LOOK:
                    raise TableFull
                self.looks.append(look)
                self._numbers[look] = number
            if len(self._styles) >= _STYLES_KEPT:
                self._styles.clear()
            known = self._styles[style] = (number, look.leaves_blanks_alone)
        return known

    def _look(self, style: Style) -> Look:
        attrs = tuple(
            code
            for code, on in (
                ("1", style.bold),
                ("2", style.dim),
                ("3", style.italic),
                ("4", style.underline),
                ("5", style.blink or style.blink2),
                ("7", style.reverse),
                ("8", style.conceal),
                ("9", style.strike),
                ("21", style.underline2),
                ("53", style.overline),
            )
            if on
        )
        if self.palette.depth is ColourDepth.NONE:
            return Look(attrs=attrs) if attrs else PLAIN
        return Look(self._params(style.color, True), self._params(style.bgcolor, False), attrs)

    def _params(self, colour: Color | None, foreground: bool) -> str:
        if colour is None or colour.is_default:
            return ""
        return ";".join(colour.downgrade(self._system).get_ansi_codes(foreground))

    def _block(self, x: int, width: int, texts: list[str], numbers: list[int]) -> Cells:
        out: list[str] = []
        current = PLAIN
        for text, number in zip(texts, numbers, strict=True):
            look = self.looks[number]
            out += (switch(current, look), text)
            current = look
        out.append(switch(current, PLAIN))
        key = (x, width, "".join(out))
        number_of = self._block_numbers.get(key)
        if number_of is None:
            number_of = len(self.blocks)
            if number_of >= _BLOCKS_KEPT:
                raise TableFull
            self.blocks.append(key)
            self._block_numbers[key] = number_of
        return np.full(width, BLOCK_LOOK << LOOK_SHIFT | number_of, dtype=np.uint32)
