"""How roles look at a colour depth, on dark or light paper.

Truecolor terminals get the same indexed colours as 256-colour ones, because ``38;5;n`` is half the bytes of
``38;2;r;g;b`` and the first screens are read over SSH. Backgrounds are painted for highlights only: the paper is the
terminal's own.
"""

import numpy as np
import numpy.typing as npt
from rich.color import Color
from rich.style import Style

from kvtop.term.colours import Colours, colours, state_looks
from kvtop.term.contrast import worst_contrast
from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper
from kvtop.term.sgr import PLAIN, Look
from kvtop.views.rows import HEAT_STEPS, HIGHLIGHT, OWNERS, Role

LOOK_SHIFT = 21
"""A screen cell is one 32-bit number: a code point in the low bits (21 hold all of Unicode), its look above."""

_Roles = dict[int, Look]

TEXT_CONTRAST = 4.5
"""Below this, text under the cursor gives up its colour."""

STRONG_CONTRAST = 7.0
"""The same where contrast is to be high."""


_FLASH: _Roles = {Role.FLASH0: Look(attrs=("1",)), Role.FLASH0 + 1: Look(attrs=("1", "7"))}
"""In the terminal's own ink: of all the brightest on its paper."""


def _coloured(colours: Colours) -> _Roles:
    roles = dict(colours.named)
    ramps = ((Role.OWNER0, colours.owners), (Role.HEAT0, colours.heat), (Role.SHARE0, colours.share))
    for first, looks in ramps:
        roles.update({first + i: look for i, look in enumerate(looks)})
    return roles | _FLASH


def _mono() -> _Roles:
    """Nothing is dim: terminals mix that half and half with the paper, some with more of it, and not enough is left."""
    bold = Look(attrs=("1",))
    roles: _Roles = {
        Role.TEXT: PLAIN,
        Role.DIM: PLAIN,
        Role.STRONG: bold,
        Role.TITLE: bold,
        Role.WARN: bold,
        Role.BAD: Look(attrs=("1", "4")),
        Role.KEY: bold,
        Role.BORDER: PLAIN,
    }
    for i in range(OWNERS):
        roles[Role.OWNER0 + i] = (PLAIN, bold)[i % 2]
    for i in range(HEAT_STEPS):
        roles[Role.HEAT0 + i] = roles[Role.SHARE0 + i] = (PLAIN, bold)[i * 2 // HEAT_STEPS]
    return roles | _FLASH


def _lit(role: int, look: Look, colours: Colours, least: float) -> Look:
    """A map cell is inked on its own colour; text keeps its colour on a bar where that can be read."""
    if role < Role.STATE0 or not look.fg:
        readable = look.fg and worst_contrast(look.fg, colours.bar) >= least
        return Look(look.fg if readable else colours.bright, colours.bar, look.attrs)
    ground = look.fg.replace("38;", "48;", 1) if ";" in look.fg else str(int(look.fg) % 10 + 40)
    ink = max(colours.bright, colours.black, key=lambda ink: worst_contrast(ink, ground))
    return Look(ink, ground, ("1",) if ink == colours.bright else ())


class Palette:
    """Look and rich style of every role byte at one colour depth, on dark or light paper.

    Make one for an app: rich remembers in a `Style` the codes of the colour system that first rendered it, so a style
    shared between apps of two depths shows the first one's colours.

    Attributes:
        depth: The colour depth.
        paper: What it is made to be read on.
        strong: Whether text has a contrast of 7 to it, where it otherwise has one of 4.5.
        looks: 256 looks, one a role byte; bytes that are no role look like `Role.TEXT`.
        cell_bits: ``uint32[256]``: the look's number, shifted into place, for each role byte. Roles that look the same
            share a number (that of the first of them), so cells that look the same are equal.
        plain: ``bool[256]``: whether a space in that role is just paper.
    """

    def __init__(self, depth: ColourDepth, paper: Paper = Paper.DARK, strong: bool = False) -> None:
        self.depth = depth
        self.paper = paper
        self.strong = strong
        if depth is ColourDepth.NONE:
            roles = _mono() | state_looks(depth, paper)
            lit = dict.fromkeys(range(HIGHLIGHT), Look(attrs=("1", "7")))
        else:
            chosen = colours(depth, paper, strong)
            roles = _coloured(chosen) | state_looks(depth, paper)
            lit = {
                role: _lit(role, look, chosen, STRONG_CONTRAST if strong else TEXT_CONTRAST)
                for role, look in roles.items()
            }
        looks = [roles.get(byte, PLAIN) for byte in range(HIGHLIGHT)]
        looks += [lit.get(byte, lit[Role.TEXT]) for byte in range(HIGHLIGHT)]
        self.looks: tuple[Look, ...] = tuple(looks)
        first: dict[Look, int] = {}
        numbers = [first.setdefault(look, byte) for byte, look in enumerate(looks)]
        self.cell_bits: npt.NDArray[np.uint32] = np.array([number << LOOK_SHIFT for number in numbers], dtype=np.uint32)
        self.plain: npt.NDArray[np.bool_] = np.array([look.leaves_blanks_alone for look in looks])
        self._styles: dict[int, Style] = {}

    def sgr(self, role: int) -> str:
        """The SGR parameters of a role byte, as after a reset; empty for the terminal's default."""
        return self.looks[role].params

    def style(self, role: int) -> Style:
        """The rich style of a role byte, for screenshots and for what Textual composes itself."""
        style = self._styles.get(role)
        if style is None:
            style = self._styles[role] = _style(self.looks[role])
        return style


def _style(look: Look) -> Style:
    return Style(
        color=_colour(look.fg),
        bgcolor=_colour(look.bg),
        bold="1" in look.attrs or None,
        dim="2" in look.attrs or None,
        italic="3" in look.attrs or None,
        underline="4" in look.attrs or None,
        reverse="7" in look.attrs or None,
    )


def _colour(params: str) -> Color | None:
    if not params:
        return None
    if ";" in params:
        return Color.from_ansi(int(params.rpartition(";")[2]))
    code = int(params)
    return Color.from_ansi(code % 10 + (8 if code >= 90 else 0))
