from collections.abc import Sequence

import pytest
from rich.console import Console

from kvtop.term.depth import ColourDepth
from kvtop.term.palette import Palette
from kvtop.term.replay import Replay
from kvtop.term.strip import CellStrip, cells_of
from kvtop.views.block_states import role_of
from kvtop.views.rows import HIGHLIGHT, Role, Row

PALETTE = Palette(ColourDepth.INDEXED)
CONSOLE = Console(color_system="256", force_terminal=True, _environ={})


def strip(text: str, roles: Sequence[int] | None = None) -> CellStrip:
    return CellStrip(text, bytes(roles or [Role.TEXT] * len(text)), PALETTE)


def test_it_paints_what_its_segments_say() -> None:
    roles = [Role.TEXT, Role.BAD, Role.BAD, Role.TEXT, Role.TITLE, role_of("free") | HIGHLIGHT]
    ours = strip("ab  c█", roles)
    theirs = "".join(ours.render_style(s.style, s.text, CONSOLE._color_system) for s in ours)  # type: ignore[arg-type]
    assert Replay(6, 1).feed(ours.render(CONSOLE)).shown() == Replay(6, 1).feed(theirs).shown()


def test_a_plain_row_is_its_text() -> None:
    assert strip("plain text").render(CONSOLE) == "plain text"


def test_blanks_between_words_of_one_look_need_no_switch() -> None:
    roles = [Role.BAD, Role.TEXT, Role.BAD]
    assert strip("a b", roles).render(CONSOLE) == f"\x1b[{PALETTE.sgr(Role.BAD)}ma b\x1b[m"


def test_crop_and_divide_give_strips_that_still_know_their_roles() -> None:
    whole = strip("abcdef", [Role.TEXT, Role.BAD, Role.GOOD, Role.WARN, Role.KEY, Role.DIM])
    middle = whole.crop(1, 4)
    assert isinstance(middle, CellStrip)
    assert (middle.text, middle.roles) == ("bcd", bytes([Role.BAD, Role.GOOD, Role.WARN]))
    parts = whole.divide([2, 5, 6])
    assert [part.text for part in parts] == ["ab", "cde", "f"]
    assert [part.cell_length for part in parts] == [2, 3, 1]
    assert whole.crop(0, 6) is whole
    assert whole.divide([6]) == [whole]
    assert whole.crop(6, 9).cell_length == 0


def test_a_row_is_padded_or_cut_to_the_width_of_its_panel() -> None:
    row = Row("abc", bytes([Role.BAD] * 3))
    assert CellStrip.from_row(row, 5, PALETTE).text == "abc  "
    assert CellStrip.from_row(row, 5, PALETTE).roles == bytes([Role.BAD] * 3 + [0, 0])
    assert CellStrip.from_row(row, 2, PALETTE).text == "ab"


def test_escapes_in_a_name_never_reach_the_terminal() -> None:
    hostile = strip("\x1b[2J\x9b\x07ok")
    assert hostile.text == "?[2J??ok"
    assert "\x1b" not in hostile.render(CONSOLE)
    assert strip("a\ud800b").cells.tolist()[1] == ord("?")


def test_text_and_roles_must_be_of_one_length() -> None:
    with pytest.raises(ValueError, match="3 characters has 2 roles"):
        CellStrip("abc", b"\0\0", PALETTE)


def test_a_look_of_segments_is_that_of_the_palette() -> None:
    segments = list(strip("ab", [Role.TEXT, Role.OWNER0]))
    assert segments[0].style == PALETTE.style(Role.TEXT)
    assert segments[1].style is PALETTE.style(Role.OWNER0)


@pytest.mark.parametrize("width", [1, 4, 9])
def test_rows_put_on_the_screen_at_once_have_the_cells_of_their_strips(width: int) -> None:
    roles = bytes([Role.TEXT, Role.BAD, role_of("free") | HIGHLIGHT, role_of("pinned"), Role.TEXT])
    rows = [Row("ab  c", roles), Row("", b""), Row("x\x1b█", roles[:3]), Row("     ", roles)]
    cells = cells_of(rows, width, PALETTE)
    for row, line in zip(rows, cells, strict=True):
        assert line.tolist() == CellStrip.from_row(row, width, PALETTE).cells.tolist()


def test_what_textual_keeps_of_a_strip_is_there_when_it_asks() -> None:
    line = strip("abc")
    assert line.crop_extend(1, 5, None).text == "bc  "
    assert not hasattr(line, "no_such_thing")
