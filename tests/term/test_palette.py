"""Palettes, each depth in a process of its own: a rich style keeps the codes of the depth that first rendered it."""

import json
import re
import subprocess
import sys

import pytest

from kvtop.term.depth import ColourDepth
from kvtop.term.palette import Palette
from kvtop.term.paper import Paper
from kvtop.term.sgr import Look
from kvtop.views.block_states import STATES, role_of
from kvtop.views.rows import HEAT_STEPS, HIGHLIGHT, OWNERS, Role

COLOURED = [depth for depth in ColourDepth if depth is not ColourDepth.NONE]
RAMPS = [Role.HEAT0, Role.SHARE0]

# The sixteen colours as two kinds of terminal mix them.
VGA = "000000 aa0000 00aa00 aa5500 0000aa aa00aa 00aaaa aaaaaa 555555 ff5555 55ff55 ffff55 5555ff ff55ff 55ffff ffffff"
XTERM = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)

RENDER = """
import io, json, sys
from rich.console import Console
from kvtop.term.depth import ColourDepth
from kvtop.term.palette import Palette
from kvtop.term.paper import Paper
depth = ColourDepth(sys.argv[1])
palette = Palette(depth, Paper(sys.argv[2]))
system = {"truecolor": "truecolor", "256": "256"}.get(depth.value, "standard")
console = Console(color_system=system, force_terminal=True, file=io.StringIO(), _environ={})
shown = {}
for byte in range(256):
    with console.capture() as capture:
        console.print("x", style=palette.style(byte), end="")
    shown[byte] = [capture.get(), palette.sgr(byte)]
print(json.dumps(shown))
"""


def luminance(hexadecimal: str) -> float:
    """WCAG 2 relative luminance of an sRGB colour."""
    channels = [int(hexadecimal[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def indexed(params: str) -> str:
    """The colour of ``38;5;n`` in xterm's cube and grey ramp."""
    n = int(params.removeprefix("38;5;"))
    if n >= 232:
        return f"{8 + 10 * (n - 232):02x}" * 3
    levels = (0, 95, 135, 175, 215, 255)
    cube = n - 16
    return "".join(f"{levels[i]:02x}" for i in (cube // 36, cube // 6 % 6, cube % 6))


def basic(params: str, colours: str) -> str:
    code = int(params)
    return colours.split()[code % 10 + (8 if code >= 90 else 0)]


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


def halfway(one: str, other: str) -> str:
    """How dim text is drawn: mixed with its ground."""
    return "".join(f"{(int(one[i : i + 2], 16) + int(other[i : i + 2], 16)) // 2:02x}" for i in (0, 2, 4))


# The usual papers, and the ink a terminal with such a paper writes with by itself.
PAPERS = {
    Paper.DARK: {"000000": "aaaaaa", "1e1e1e": "d4d4d4"},
    Paper.LIGHT: {"ffffff": "000000", "fdf6e3": "333333"},
}
BRIGHTER = {str(code): str(code + 60) for code in range(30, 38)}


def ways(depth: ColourDepth, paper: Paper) -> list[tuple[str, str, str]]:
    """The sixteen colours (empty: not needed), the paper and the terminal's own ink, each way that they come together."""
    if depth is ColourDepth.ANSI16:
        # Those who mix sixteen colours have plain paper.
        plain, ink = next(iter(PAPERS[paper].items()))
        return [(VGA, plain, ink), (XTERM, plain, ink)]
    return [("", ground, ink) for ground, ink in PAPERS[paper].items()]


def shown_as(params: str, colours: str) -> str:
    """The colour of the SGR parameters of one colour."""
    return indexed(params.replace("48;", "38;")) if ";" in params else basic(params, colours)


def contrasts(look: Look, colours: str, paper: str, own_ink: str) -> list[float]:
    """Of a look, in each way that a terminal may draw it: some draw bold in the brighter twin of a basic colour."""
    inks = [look.fg]
    if "1" in look.attrs and look.fg in BRIGHTER:
        inks.append(BRIGHTER[look.fg])
    ground = shown_as(look.bg, colours) if look.bg else paper
    drawn = [shown_as(ink, colours) if ink else own_ink for ink in inks]
    if "2" in look.attrs:
        drawn = [halfway(ink, ground) for ink in drawn]
    return [contrast(ink, ground) for ink in drawn]


def is_text(role: int) -> bool:
    """States and owners are named in their colours too; ramps and borders are shapes."""
    return role < Role.HEAT0 and role != Role.BORDER


STRONG = [False, True]


@pytest.mark.parametrize("strong", STRONG)
@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", list(ColourDepth))
def test_text_and_cells_can_be_read_on_their_paper(depth: ColourDepth, paper: Paper, strong: bool) -> None:
    """WCAG 2: a contrast of 4.5 for text, of 3 for shapes; under the cursor too. Where it is to be high, 7 for text that is
    not a name in the colour of its cells, and of 256 colours 4.5 for shapes."""
    palette = Palette(depth, paper, strong)
    faint = []
    for role in range(HIGHLIGHT):
        for lit in (0, HIGHLIGHT):
            for colours, ground, ink in ways(depth, paper):
                least = min(contrasts(palette.looks[role | lit], colours, ground, ink))
                # A cell under the cursor is a letter or a shape on its colour.
                wanted = 4.5 if is_text(role) and not (lit and role >= Role.STATE0) else 3.0
                if strong and is_text(role) and role < Role.STATE0:
                    wanted = 7.0
                elif strong and depth is not ColourDepth.ANSI16 and not lit:
                    wanted = 4.5
                if least < wanted:
                    faint.append((role, bool(lit), ground, colours[:13], round(least, 2)))
    assert not faint


def away_from_paper(ramp: list[float], paper: Paper) -> list[float]:
    return ramp if paper is Paper.DARK else [-bright for bright in ramp]


@pytest.mark.parametrize("first", RAMPS)
@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("strong", STRONG)
def test_ramps_of_256_colours_move_away_from_the_paper(first: Role, paper: Paper, strong: bool) -> None:
    looks = Palette(ColourDepth.INDEXED, paper, strong).looks[first : first + HEAT_STEPS]
    ramp = away_from_paper([luminance(indexed(look.fg)) for look in looks], paper)
    assert ramp == sorted(ramp)
    assert len(set(ramp)) == HEAT_STEPS


@pytest.mark.parametrize("first", RAMPS)
@pytest.mark.parametrize("colours", [VGA, XTERM])
@pytest.mark.parametrize("paper", list(Paper))
def test_ramps_of_16_colours_never_turn_back_to_the_paper(first: Role, colours: str, paper: Paper) -> None:
    looks = Palette(ColourDepth.ANSI16, paper).looks[first : first + HEAT_STEPS]
    ramp = away_from_paper([luminance(basic(look.fg, colours)) for look in looks], paper)
    assert ramp == sorted(ramp)
    assert len(set(ramp)) >= 5


@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", list(ColourDepth))
def test_rich_and_the_strips_own_encoding_agree(depth: ColourDepth, paper: Paper) -> None:
    command = [sys.executable, "-c", RENDER, depth.value, paper.value]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    shown: dict[str, list[str]] = json.loads(run.stdout)
    for byte, (text, params) in shown.items():
        codes = re.fullmatch(r"(?:\x1b\[([0-9;]*)m)?x(?:\x1b\[0m)?", text)
        assert codes, byte
        assert sorted((codes[1] or "").split(";")) == sorted(params.split(";")), byte


def test_without_colour_there_is_no_colour_code() -> None:
    palette = Palette(ColourDepth.NONE)
    for byte in range(256):
        assert set(palette.sgr(byte).split(";")) <= {"", "1", "4", "7"}, byte


@pytest.mark.parametrize("strong", STRONG)
@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", list(ColourDepth))
def test_only_highlights_paint_the_background(depth: ColourDepth, paper: Paper, strong: bool) -> None:
    palette = Palette(depth, paper, strong)
    for byte in range(HIGHLIGHT):
        assert palette.looks[byte].leaves_blanks_alone or byte in (role_of("pinned"), Role.BAD, Role.FLASH0 + 1), byte
        assert not palette.looks[byte].bg
        lit = palette.looks[byte | HIGHLIGHT]
        assert lit.bg or "7" in lit.attrs, byte


@pytest.mark.parametrize("depth", list(ColourDepth))
def test_text_is_in_the_terminals_own_colours(depth: ColourDepth) -> None:
    assert Palette(depth).sgr(Role.TEXT) == ""


@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", COLOURED)
def test_owners_and_block_states_can_be_told_apart(depth: ColourDepth, paper: Paper) -> None:
    palette = Palette(depth, paper)
    assert len({palette.sgr(Role.OWNER0 + i) for i in range(OWNERS)}) == OWNERS
    states = [role_of(state.name) for state in STATES]
    assert len({palette.sgr(state) for state in states}) == len(states)


@pytest.mark.parametrize("strong", STRONG)
@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", list(ColourDepth))
def test_what_is_bad_stands_out_from_what_is_not(depth: ColourDepth, paper: Paper, strong: bool) -> None:
    palette = Palette(depth, paper, strong)
    assert palette.looks[Role.BAD] not in (
        palette.looks[role] for role in Role if role != Role.BAD and role < Role.STATE0
    )


@pytest.mark.parametrize("strong", STRONG)
@pytest.mark.parametrize("paper", list(Paper))
@pytest.mark.parametrize("depth", list(ColourDepth))
def test_a_highlight_changes_every_role(depth: ColourDepth, paper: Paper, strong: bool) -> None:
    palette = Palette(depth, paper, strong)
    for role in Role:
        assert palette.looks[role] != palette.looks[role | HIGHLIGHT], role
