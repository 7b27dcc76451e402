"""Whatever changes between two screens, what is sent for it turns the one into the other."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.term.cell_buffer import CellBuffer
from kvtop.term.depth import ColourDepth
from kvtop.term.look_table import LookTable
from kvtop.term.palette import Palette
from kvtop.term.strip import CellStrip
from kvtop.views.block_states import role_of
from kvtop.views.rows import HIGHLIGHT, Role
from tests.term.screen_of import differences, terminal, visible

WIDTH, HEIGHT = 17, 3
PALETTE = Palette(ColourDepth.INDEXED)
ROLES = [Role.TEXT, Role.STRONG, Role.BAD, Role.TITLE, Role.OWNER0, Role.OWNER0 + 3, role_of("free")]
ROLE_BYTES = [*ROLES, *(role | HIGHLIGHT for role in ROLES)]

row = st.tuples(
    st.text(alphabet="ab  █▒é·", min_size=WIDTH, max_size=WIDTH),
    st.lists(st.sampled_from(ROLE_BYTES), min_size=WIDTH, max_size=WIDTH).map(bytes),
)
screens = st.lists(st.lists(row, min_size=HEIGHT, max_size=HEIGHT), min_size=1, max_size=4)


def fresh() -> CellBuffer:
    return CellBuffer(WIDTH, HEIGHT, LookTable(PALETTE))


def put(buffer: CellBuffer, rows: list[tuple[str, bytes]]) -> None:
    for y, (text, roles) in enumerate(rows):
        buffer.put(y, 0, CellStrip(text, roles, PALETTE).cells)


def whole(rows: list[tuple[str, bytes]]) -> str:
    """The screen as the strips' own full encoding, row by row."""
    console: object = None
    return "".join(
        f"\x1b[{y + 1};1H" + CellStrip(text, roles, PALETTE).render(console)  # type: ignore[arg-type]
        for y, (text, roles) in enumerate(rows)
    )


@settings(max_examples=150, deadline=None)
@given(screens)
def test_changes_sent_one_after_the_other_show_what_a_full_repaint_shows(
    shown: list[list[tuple[str, bytes]]],
) -> None:
    buffer = fresh()
    ours, our_stream = terminal(WIDTH, HEIGHT)
    for rows in shown:
        put(buffer, rows)
        our_stream.feed(buffer.flush())
        theirs, their_stream = terminal(WIDTH, HEIGHT)
        their_stream.feed(whole(rows))
        assert not differences(visible(ours), visible(theirs))


def test_an_unchanged_screen_sends_nothing() -> None:
    buffer = fresh()
    rows = [("hello  world     ", bytes(WIDTH))] * HEIGHT
    put(buffer, rows)
    assert buffer.flush()
    put(buffer, rows)
    assert buffer.dirty
    assert buffer.flush() == ""


def test_the_ink_of_a_blank_is_not_worth_a_byte() -> None:
    buffer = fresh()
    put(buffer, [(" " * WIDTH, bytes([Role.BAD]) * WIDTH)] * HEIGHT)
    buffer.flush()
    put(buffer, [(" " * WIDTH, bytes([Role.GOOD]) * WIDTH)] * HEIGHT)
    assert buffer.flush() == ""


def test_what_nobody_has_put_is_left_alone() -> None:
    buffer = fresh()
    buffer.put(1, 4, CellStrip("mid", bytes(3), PALETTE).cells)
    assert buffer.flush() == "\x1b[2;5Hmid"
    buffer.distrust()
    assert buffer.flush() == "\x1b[2;5Hmid"


def test_distrusting_part_of_a_row_sends_that_part_again() -> None:
    buffer = fresh()
    put(buffer, [("abcdefghijklmnopq", bytes(WIDTH))] * HEIGHT)
    buffer.flush()
    buffer.distrust(1, 3, 4)
    assert buffer.flush() == "\x1b[2;4Hdefg"


def test_after_forgetting_only_new_cells_are_sent() -> None:
    buffer = fresh()
    put(buffer, [("abcdefghijklmnopq", bytes(WIDTH))] * HEIGHT)
    buffer.forget()
    assert not buffer.dirty
    buffer.put(2, 0, CellStrip("xy", bytes(2), PALETTE).cells)
    assert buffer.flush() == "\x1b[3Hxy"


def test_cells_outside_the_screen_are_cut_off() -> None:
    buffer = fresh()
    buffer.put(HEIGHT, 0, CellStrip("gone", bytes(4), PALETTE).cells)
    buffer.put(0, WIDTH - 2, CellStrip("cut", bytes(3), PALETTE).cells)
    assert buffer.flush() == f"\x1b[1;{WIDTH - 1}Hcu"


def test_64_random_changes_of_a_map_take_at_most_a_kilobyte() -> None:
    width, height = 200, 47
    random_ = random.Random(4)
    roles = [role_of("free"), role_of("cached"), role_of("shared"), *(Role.OWNER0 + i for i in range(12))]
    buffer = CellBuffer(width, height, LookTable(PALETTE))
    cells = [bytearray(random_.choices(roles, k=width)) for _ in range(height)]
    sizes = []
    for frame in range(30):
        touched = set(range(height)) if frame == 0 else set()
        for _ in range(64):
            y, x = random_.randrange(height), random_.randrange(width)
            cells[y][x] = random_.choice([role for role in roles if role != cells[y][x]])
            touched.add(y)
        for y in touched:
            buffer.put(y, 0, CellStrip("█" * width, bytes(cells[y]), PALETTE).cells)
        sizes.append(len(buffer.flush().encode()))
    assert max(sizes[1:]) <= 1024


def test_equal_cells_mean_equal_looks() -> None:
    strip = CellStrip("aa  ", bytes([Role.ACCENT, Role.ACCENT, Role.BAD, Role.TEXT | HIGHLIGHT]), PALETTE)
    a, b, blank, lit = strip.cells.tolist()
    assert a == b
    assert blank == 0x20
    assert lit != blank
    assert strip.cells.dtype == np.uint32
