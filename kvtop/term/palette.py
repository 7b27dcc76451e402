"""How roles look at a colour depth.

The ramps are made by hand for each depth: reducing a 24-bit ramp to 16 colours by distance makes it jump back and
forth in brightness. Truecolor terminals get the same indexed colours as 256-colour ones, because ``38;5;n`` is half
the bytes of ``38;2;r;g;b`` and the first screens are read over SSH. Backgrounds are painted for highlights only, so a
terminal with light paper stays readable.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from rich.color import Color
from rich.style import Style

from kvtop.term.depth import ColourDepth
from kvtop.term.sgr import PLAIN, Look
from kvtop.views.block_states import ALL, BlockState, role_of
from kvtop.views.rows import HEAT_STEPS, HIGHLIGHT, OWNERS, Role

LOOK_SHIFT = 21
"""A screen cell is one 32-bit number: a code point in the low bits (21 hold all of Unicode), its look above."""

_Roles = dict[int, Look]

OWNERS_256 = (39, 208, 76, 170, 220, 44, 203, 141, 107, 211, 31, 179)
HEAT_256 = (53, 89, 125, 161, 203, 209, 216, 230)
SHARE_256 = (24, 31, 38, 45, 81, 123, 159, 195)

OWNERS_16 = (94, 33, 32, 35, 93, 36, 91, 95, 92, 31, 34, 96)
# Rising in both usual sets of the sixteen colours (VGA's and xterm's), which rules out most of them.
HEAT_16 = (34, 34, 31, 35, 91, 91, 93, 97)
SHARE_16 = (34, 34, 94, 94, 36, 36, 96, 97)


def _states() -> list[tuple[int, BlockState]]:
    """The states of blocks by their role."""
    return [(role_of(state.name), state) for state in ALL]


def _indexed(colour: int, *attrs: str) -> Look:
    return Look(f"38;5;{colour}", "", attrs)


def _roles_256() -> _Roles:
    looks: _Roles = {
        Role.TEXT: PLAIN,
        Role.DIM: _indexed(245),
        Role.STRONG: Look(attrs=("1",)),
        Role.TITLE: _indexed(37, "1"),
        Role.GOOD: _indexed(35),
        Role.WARN: _indexed(172),
        Role.BAD: _indexed(196),
        Role.ACCENT: _indexed(37),
        Role.KEY: _indexed(172, "1"),
        Role.BORDER: _indexed(240),
    }
    looks |= {place: _indexed(state.colour) for place, state in _states()}
    return _with_ramps(looks, _indexed, OWNERS_256, HEAT_256, SHARE_256)


def _basic(colour: int, *attrs: str) -> Look:
    return Look(str(colour), "", attrs)


def _roles_16() -> _Roles:
    looks: _Roles = {
        Role.TEXT: PLAIN,
        Role.DIM: _basic(90),
        Role.STRONG: Look(attrs=("1",)),
        Role.TITLE: _basic(36, "1"),
        Role.GOOD: _basic(32),
        Role.WARN: _basic(33),
        Role.BAD: _basic(91),
        Role.ACCENT: _basic(36),
        Role.KEY: _basic(33, "1"),
        Role.BORDER: _basic(90),
    }
    looks |= {place: _basic(state.basic) for place, state in _states()}
    return _with_ramps(looks, _basic, OWNERS_16, HEAT_16, SHARE_16)


def _with_ramps(
    looks: _Roles,
    look: Callable[[int], Look],
    owners: tuple[int, ...],
    heat: tuple[int, ...],
    share: tuple[int, ...],
) -> _Roles:
    roles = dict(looks)
    for first, colours in ((Role.OWNER0, owners), (Role.HEAT0, heat), (Role.SHARE0, share)):
        roles.update({first + i: look(colour) for i, colour in enumerate(colours)})
    return roles


def _roles_mono() -> _Roles:
    dim, bold = Look(attrs=("2",)), Look(attrs=("1",))
    roles: _Roles = {
        Role.TEXT: PLAIN,
        Role.DIM: dim,
        Role.STRONG: bold,
        Role.TITLE: bold,
        Role.WARN: bold,
        Role.BAD: Look(attrs=("1", "4")),
        Role.KEY: bold,
        Role.BORDER: dim,
    }
    roles |= {place: Look(attrs=state.attrs) for place, state in _states()}
    for i in range(OWNERS):
        roles[Role.OWNER0 + i] = (PLAIN, bold, dim)[i % 3]
    for i in range(HEAT_STEPS):
        roles[Role.HEAT0 + i] = roles[Role.SHARE0 + i] = (dim, PLAIN, bold)[i * 3 // HEAT_STEPS]
    return roles


def _is_map(role: int) -> bool:
    return role >= Role.STATE0


def _lit_256(role: int, look: Look) -> Look:
    """A map cell turns white on its own colour; text keeps its colour on a dark bar."""
    if _is_map(role):
        return Look("38;5;231", look.fg.replace("38;", "48;", 1), ("1",))
    fg = "38;5;231" if look.fg in ("", "38;5;240", "38;5;245") else look.fg
    return Look(fg, "48;5;24", look.attrs)


def _lit_16(role: int, look: Look) -> Look:
    if _is_map(role):
        return Look("97", str(int(look.fg) % 10 + 40) if look.fg != "90" else "44", ("1",))
    return Look("97" if look.fg in ("", "34", "90") else look.fg, "44", ("1",))


def _lit_mono(role: int, look: Look) -> Look:
    return Look(attrs=("1", "7"))


class Palette:
    """Look and rich style of every role byte at one colour depth.

    Make one for an app: rich remembers in a `Style` the codes of the colour system that first rendered it, so a style
    shared between apps of two depths shows the first one's colours.

    Attributes:
        depth: The colour depth.
        looks: 256 looks, one a role byte; bytes that are no role look like `Role.TEXT`.
        cell_bits: ``uint32[256]``: the look's number, shifted into place, for each role byte. Roles that look the same
            share a number (that of the first of them), so cells that look the same are equal.
        plain: ``bool[256]``: whether a space in that role is just paper.
    """

    def __init__(self, depth: ColourDepth) -> None:
        self.depth = depth
        if depth is ColourDepth.NONE:
            roles, lit = _roles_mono(), _lit_mono
        elif depth is ColourDepth.ANSI16:
            roles, lit = _roles_16(), _lit_16
        else:
            roles, lit = _roles_256(), _lit_256
        looks = [roles.get(byte, PLAIN) for byte in range(HIGHLIGHT)]
        looks += [lit(byte, look) if byte in roles else lit(Role.TEXT, PLAIN) for byte, look in enumerate(looks)]
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
