"""The colours of roles, one set a colour depth and paper.

Text (every role below `Role.HEAT0` but borders) has a contrast of at least 4.5 to its paper, cells and borders of 3,
whichever way a terminal mixes the sixteen. Ramps are made by hand for each set, for reducing a 24-bit ramp to 16
colours by distance makes it jump back and forth; they move away from the paper, whose colour is that of nothing.
"""

from dataclasses import dataclass, replace

from kvtop.term.depth import ColourDepth
from kvtop.term.paper import Paper
from kvtop.term.sgr import PLAIN, Look
from kvtop.views.block_states import ALL, role_of
from kvtop.views.rows import Role


@dataclass(frozen=True)
class Colours:
    """``named``: of `Role` up to its borders. Ramps begin with the oldest, and with the fewest references. ``bar``: the
    background of text under the cursor, and ``bright`` and ``black``: inks for it and for cells there."""

    named: dict[int, Look]
    owners: tuple[Look, ...]
    heat: tuple[Look, ...]
    share: tuple[Look, ...]
    bar: str
    bright: str
    black: str


def _indexed(*colours: int) -> tuple[Look, ...]:
    return tuple(Look(f"38;5;{colour}") for colour in colours)


def _basic(*colours: int) -> tuple[Look, ...]:
    return tuple(Look(str(colour)) for colour in colours)


def _with(attribute: str, looks: tuple[Look, ...]) -> tuple[Look, ...]:
    return tuple(look._replace(attrs=(attribute,)) for look in looks)


def _named(
    dim: Look, title: Look, good: Look, warn: Look, bad: Look, border: Look, *, bold_key: bool
) -> dict[int, Look]:
    return {
        Role.TEXT: PLAIN,
        Role.DIM: dim,
        Role.STRONG: Look(attrs=("1",)),
        Role.TITLE: title._replace(attrs=("1",)),
        Role.GOOD: good,
        Role.WARN: warn,
        Role.BAD: bad,
        Role.ACCENT: title,
        Role.KEY: warn._replace(attrs=("1",)) if bold_key else warn,
        Role.BORDER: border,
    }


_INDEXED_DARK = Colours(
    named=_named(*_indexed(245, 37, 35, 172, 203, 243), bold_key=True),
    owners=_indexed(39, 208, 76, 170, 220, 44, 203, 141, 107, 211, 33, 179),
    heat=_indexed(161, 197, 203, 209, 215, 222, 229, 231),
    share=_indexed(31, 33, 39, 45, 117, 123, 159, 195),
    bar="48;5;24",
    bright="38;5;231",
    black="38;5;16",
)
_INDEXED_LIGHT = Colours(
    named=_named(*_indexed(242, 24, 22, 94, 160, 244), bold_key=True),
    owners=_indexed(26, 94, 22, 127, 58, 23, 160, 57, 60, 161, 18, 88),
    heat=_indexed(137, 167, 132, 161, 125, 89, 53, 16),
    share=_indexed(33, 32, 27, 26, 24, 20, 18, 17),
    bar="48;5;24",
    bright="38;5;231",
    black="38;5;16",
)
# Most terminals that have sixteen colours brighten what is bold: on light paper that is left to blue.
_SIXTEEN_DARK = Colours(
    named=_named(*_basic(37, 36, 32, 93, 91, 36), bold_key=True),
    owners=(*_basic(96, 93, 92, 95, 36, 32, 91, 97, 37), *_with("1", _basic(92, 95, 36))),
    heat=_basic(35, 35, 91, 91, 95, 95, 93, 97),
    share=_basic(94, 94, 36, 36, 37, 96, 96, 97),
    bar="44",
    bright="97",
    black="30",
)
_SIXTEEN_LIGHT = Colours(
    named=_named(PLAIN, *_basic(34, 34, 35, 31, 90), bold_key=False),
    owners=(
        *_basic(34, 31, 35, 94, 30),
        *_with("3", _basic(34, 31, 35, 94, 30)),
        *_with("1", _basic(34, 94)),
    ),
    heat=_basic(91, 91, 35, 35, 31, 31, 34, 30),
    share=_basic(91, 91, 94, 94, 31, 34, 34, 30),
    bar="44",
    bright="97",
    black="30",
)
# Of high contrast: 7 for text; of 256 colours, 4.5 for borders and ramps. Where sixteen are mixed so that no red has that,
# what is bad is underlined.
_STRONG_INDEXED_DARK = replace(
    _INDEXED_DARK,
    named=_named(*_indexed(251, 80, 78, 220, 210, 248), bold_key=True),
    heat=_indexed(204, 209, 211, 215, 222, 223, 229, 231),
    share=_indexed(33, 39, 75, 45, 117, 123, 159, 195),
)
_STRONG_INDEXED_LIGHT = replace(
    _INDEXED_LIGHT,
    named=_named(*_indexed(238, 18, 22, 53, 88, 240), bold_key=True),
    heat=_indexed(161, 160, 126, 125, 124, 89, 53, 16),
    share=_indexed(27, 26, 25, 24, 20, 19, 18, 17),
)
_UNDERLINED = ("1", "4")
_STRONG_SIXTEEN_DARK = replace(
    _SIXTEEN_DARK,
    named=_named(
        dim=Look("37"),
        title=Look("96"),
        good=Look("92"),
        warn=Look("93"),
        bad=Look("97", attrs=_UNDERLINED),
        border=Look("37"),
        bold_key=True,
    ),
)
_STRONG_SIXTEEN_LIGHT = replace(
    _SIXTEEN_LIGHT,
    named=_named(
        dim=PLAIN,
        title=PLAIN,
        good=Look("34"),
        warn=Look("34", attrs=("3",)),
        bad=Look(attrs=_UNDERLINED),
        border=Look("30"),
        bold_key=False,
    ),
)
_SETS = {
    (True, Paper.DARK): (_INDEXED_DARK, _STRONG_INDEXED_DARK),
    (True, Paper.LIGHT): (_INDEXED_LIGHT, _STRONG_INDEXED_LIGHT),
    (False, Paper.DARK): (_SIXTEEN_DARK, _STRONG_SIXTEEN_DARK),
    (False, Paper.LIGHT): (_SIXTEEN_LIGHT, _STRONG_SIXTEEN_LIGHT),
}


def colours(depth: ColourDepth, paper: Paper, strong: bool = False) -> Colours:
    """The set of a depth that has colours."""
    return _SETS[depth is not ColourDepth.ANSI16, paper][strong]


def state_looks(depth: ColourDepth, paper: Paper) -> dict[int, Look]:
    """The looks of block states by their role."""
    looks = {}
    for state in ALL:
        if depth is ColourDepth.NONE:
            look = Look(attrs=state.attrs)
        elif depth is ColourDepth.ANSI16:
            *attrs, colour = str(state.basic if paper is Paper.DARK else state.basic_light).split(";")
            look = Look(colour, "", tuple(attrs))
        else:
            look = Look(f"38;5;{state.colour if paper is Paper.DARK else state.colour_light}")
        looks[role_of(state.name)] = look
    return looks
