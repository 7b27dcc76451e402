"""How near one can go: from the whole pool to blocks with what is in them; and finding a block."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtop.state import Changes, EngineState
from kvtop.views.find_block import found_block
from kvtop.views.rows import HIGHLIGHT
from kvtop.views.zoom import COUNTED, ZOOMS, Scale, Zoom, nearest, scales
from tests.views.scene import LATER, MONO, gauges_only, iteration, scene
from tests.views.test_block_map import drawn, text


@given(blocks=st.integers(1, 2_000_000), width=st.integers(20, 300), height=st.integers(1, 100))
def test_the_first_scale_shows_all_and_each_further_one_is_nearer(blocks: int, width: int, height: int) -> None:
    found = scales(blocks, width, height)
    whole = found[0]
    assert whole.zoom.per_row(width) * height * whole.per_cell >= blocks
    assert [scale.fineness for scale in found] == sorted({scale.fineness for scale in found})
    assert found[-1] == Scale(1, ZOOMS[-1])
    assert Scale(1, ZOOMS[0]) in found or whole.per_cell == 1
    for place, scale in enumerate(found):
        assert nearest(found, scale) == place
    assert nearest(found, None) == 0


def test_of_another_size_one_stays_about_as_near() -> None:
    found = scales(1000, 100, 5)
    assert [scale.per_cell for scale in found[:2]] == [2, 1]
    assert nearest(found, Scale(512, ZOOMS[0])) == 0
    assert nearest(found, Scale(1, ZOOMS[2])) == found.index(Scale(1, ZOOMS[2]))


def test_nearer_than_the_whole_it_scrolls_with_the_cursor_and_keeps_up() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    blockmap.layout(64, 8, 3, 1)
    assert (blockmap.lines, blockmap.in_sight) == (8, range(24))
    assert text(blockmap) == ["▓▓██████", "███░░░░░", "········"]
    assert (
        blockmap.update(state.apply(iteration(15, MONO + 5, blocks=[(60, 1, 2, 1, 1, 3, 0, 0)]), LATER), LATER) == set()
    )
    blockmap.set_cursor(23)
    assert blockmap.move(0, 1) == {0, 1, 2}
    assert blockmap.in_sight == range(8, 32)
    assert blockmap.cell_of(31) == (7, 2)
    assert list(blockmap.blocks_at(7, 2)) == [31]
    blockmap.set_cursor(63)
    assert blockmap.in_sight == range(40, 64)
    assert text(blockmap)[2] == "····█··▸"
    assert blockmap.update(state.apply(iteration(16, MONO + 6, blocks=[(61, 1, 2, 1, 1, 3, 0, 0)]), LATER), LATER) == {
        2
    }
    assert blockmap.select([40, 0]) == {0}
    blockmap.layout(64, 16, 4)
    assert blockmap.in_sight == range(64)


def test_a_large_block_tells_its_owner_and_its_tokens() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    blockmap.layout(64, 8, 3, 1, Zoom(COUNTED, 1))
    rows = [row.text for row in blockmap.rows()]
    assert rows[0] == "▓B 16 ▓B 16 █b 16 █b 16 █b 16 █b 10 █c 16 █c  2"
    assert rows[1] == "█d 16 █d 16 █d 16 ░░ 16 ░░ 16 ░░ 16 ░░ 16 ░░ 16"
    assert rows[2] == "····· ····· ····· ····· ····· ····· ····· ·····"
    # A token more changes no glyph of state, but what is told.
    changes = state.apply(iteration(15, MONO + 5, blocks=[(5, 1, 2, 1, 1, 11, 0, 0)]), LATER)
    assert blockmap.update(changes, LATER) == {0}
    assert "█b 11" in blockmap.row(0).text
    blockmap.select([3])
    assert [x for x, role in enumerate(blockmap.row(0).roles) if role & HIGHLIGHT] == [18, 19, 20, 21, 22]
    blockmap.layout(64, 8, 3, 1, ZOOMS[3])
    assert blockmap.row(0).text == "▓B█ ▓B█ █b█ ■b■ █b█ █b▅ █c█ █c▁"


def test_in_the_mode_of_tiers_all_are_there() -> None:
    from tests.state.test_tiers import two_tiers

    blockmap = drawn(two_tiers(), 8, 2)
    assert blockmap.total == 8
    blockmap.mode = "tier"
    blockmap.layout(len(blockmap.shown), 8, 2)
    assert blockmap.total == 16
    assert text(blockmap) == ["DD······", "H···II··"]
    assert not blockmap.show_tier_of(13)
    blockmap.mode = "state"
    assert (blockmap.total, blockmap.tier_name) == (8, "device")
    assert blockmap.show_tier_of(13)
    blockmap.update(Changes(), LATER)
    assert (blockmap.tier_name, blockmap.in_sight) == ("disk", range(12, 16))


@pytest.mark.parametrize(
    ("typed", "found"),
    [("0", 0), (" 63 ", 63), ("0x3F", 63), ("0,063", 63), ("64", "there is no block 64: they go from 0 to 63")],
)
def test_a_number_finds_its_block(typed: str, found: int | str) -> None:
    assert found_block(typed, scene()) == found


@pytest.mark.parametrize("typed", ["", "-1", "x", "0x", "0x-1", "1.5", "٣", "²", "1 2", "9" * 5000, "[b]"])
def test_what_is_no_number_is_told(typed: str) -> None:
    told = found_block(typed, scene())
    assert isinstance(told, str)
    assert len(told) < 100 or typed.startswith("9")


def test_without_blocks_there_is_none_to_find() -> None:
    for state in (gauges_only(), EngineState()):
        assert isinstance(found_block("0", state), str)
