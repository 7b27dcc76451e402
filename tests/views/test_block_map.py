"""The map: one cell a block or several, kept up to date by changes alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtop.state import Changes, EngineState
from kvtop.views.block_map import BlockMap
from kvtop.views.block_states import ALL, role_of
from kvtop.views.cells import MODES
from kvtop.views.glyphs import ASCII, UNICODE, Glyphs
from kvtop.views.rows import HIGHLIGHT, Role, Row
from tests.state.model import ToyEngine
from tests.state.test_tiers import frame, two_tiers
from tests.views.scene import LATER, MONO, NOW, check_rows, gauges_only, hello, iteration, keyframe, scene


def drawn(state: EngineState, width: int, height: int, mode: str = "state", glyphs: Glyphs = UNICODE) -> BlockMap:
    blockmap = BlockMap(state, glyphs)
    blockmap.layout(state.blocks.total if state.blocks else 0, width, height)
    blockmap.mode = mode
    blockmap.update(Changes(full=True), LATER)
    return blockmap


def text(blockmap: BlockMap) -> list[str]:
    return check_rows(blockmap.rows(), blockmap.width, blockmap.height).split("\n")


def test_one_cell_a_block_by_state() -> None:
    blockmap = drawn(scene(), 32, 3)
    assert text(blockmap) == ["▓▓█████████░░░░░" + "·" * 16, "·" * 32, " " * 32]
    assert blockmap.row(0).roles[:3] == bytes((role_of("shared"), role_of("shared"), role_of("active")))
    assert blockmap.scale == "1 cell = 1 block"


def test_by_owner_letters_name_owners_and_capitals_shared_blocks() -> None:
    blockmap = drawn(scene(), 32, 2, "owner")
    assert text(blockmap)[0] == "BBbbbbccddd░░░░░" + "·" * 16
    roles = blockmap.row(0).roles
    assert roles[0] == roles[2] == Role.OWNER0 + 1
    assert roles[6] == Role.OWNER0 + 2


def test_by_sharing_digits_count_references() -> None:
    blockmap = drawn(scene(), 32, 2, "sharing")
    assert text(blockmap)[0] == "22111111111░░░░░" + "·" * 16
    assert blockmap.row(0).roles[:3] == bytes((Role.SHARE0 + 1, Role.SHARE0 + 1, Role.SHARE0))


def test_by_recency_the_newest_stands_highest_and_unknown_is_unknown() -> None:
    assert text(drawn(scene(), 32, 2, "recency"))[0] == "▅" * 11 + "▃" * 5 + "▁" * 16
    assert text(drawn(scene(ages=[]), 32, 2, "recency"))[0] == "?" * 32


def test_blocks_grow_old_once_a_second() -> None:
    state = scene()
    blockmap = drawn(state, 32, 2, "recency")
    state.apply(iteration(15, MONO + 4, blocks=[(63, 1, 2, 1, 1, 1, 0, 0)]), LATER)
    blockmap.update(Changes(blocks=np.array([63])), LATER)
    assert text(blockmap)[1][-1] == "█"
    assert blockmap.tick(LATER + 0.9) == set()
    assert blockmap.tick(LATER + 1.1) == {0, 1}
    assert text(blockmap)[1][-1] == "▆"
    assert drawn(state, 32, 2).tick(LATER + 100) == set()


def test_several_blocks_a_cell_show_the_weightiest() -> None:
    blocks = [
        (0, 3, 0, -1, 0, 0, 0, 0),
        (3, 1, 3, 1, 2, 16, 0, 0),
        (4, 2, 1, -1, 0, 16, 0, 0),
        (6, 58, 2, 1, 1, 16, 0, 0),
    ]
    blockmap = drawn(scene(blocks=blocks), 16, 1)
    assert blockmap.per_cell == 4
    assert blockmap.scale == "1 cell = 4 blocks"
    # One shared block outweighs three free ones; of two cached and two active the active show.
    assert text(blockmap) == ["▓" + "█" * 15]


def test_a_last_cell_with_fewer_blocks_counts_only_those() -> None:
    blocks = [(0, 63, 0, -1, 0, 0, 0, 0), (63, 1, 2, 1, 1, 16, 0, 0)]
    for mode, last in (("state", "█"), ("owner", "b"), ("sharing", "1")):
        blockmap = drawn(scene(blocks=blocks), 13, 1, mode)
        assert blockmap.per_cell == 5
        assert list(blockmap.blocks_at(12, 0)) == [60, 61, 62, 63]
        assert text(blockmap)[0][:12] == "·" * 12
        assert text(blockmap)[0][12] == (last if mode == "sharing" else "·")


def test_a_row_is_the_same_object_until_it_changes() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    before = blockmap.rows()
    changes = state.apply(iteration(15, MONO + 5, blocks=[(20, 1, 2, 1, 1, 3, 0, 0)]), LATER)
    assert blockmap.update(changes, LATER) == {1}
    after = blockmap.rows()
    assert [a is b for a, b in zip(before, after, strict=True)] == [True, False, True, True]
    assert after[1].text == "····█···········"


def test_a_change_that_does_not_show_changes_no_row() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    before = blockmap.rows()
    changes = state.apply(iteration(15, MONO + 5, blocks=[(5, 1, 2, 1, 1, 11, 0, 0)]), LATER)
    assert changes.blocks.tolist() == [5]
    assert blockmap.update(changes, LATER) == set()
    keyed = state.apply(keyframe(seq=15), LATER)
    assert blockmap.update(keyed, LATER) == set()
    assert all(a is b for a, b in zip(before, blockmap.rows(), strict=True))


def test_a_selected_requests_blocks_stand_out() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    assert blockmap.select(state.requests[2].table) == {0}  # type: ignore[index]
    lit = [x for x, role in enumerate(blockmap.row(0).roles) if role & HIGHLIGHT]
    assert lit == [0, 1, 6, 7]
    assert blockmap.select([0, 1, 6, 7]) == set()
    assert blockmap.select([40, 999, -1]) == {0, 2}
    assert blockmap.select(None) == {2}
    assert not any(role & HIGHLIGHT for row in blockmap.rows() for role in row.roles)


def test_the_cursor_moves_by_cells_and_stops_at_the_edges() -> None:
    blockmap = drawn(scene(), 10, 7)
    assert blockmap.cursor is None
    assert blockmap.move(1, 0) == {0}
    assert blockmap.cursor == 0
    assert blockmap.row(0).roles[0] == Role.KEY | HIGHLIGHT
    assert blockmap.move(0, -1) == set()
    assert blockmap.move(0, 1) == {0, 1}
    assert blockmap.cursor == 10
    assert not any(role & HIGHLIGHT for role in blockmap.row(0).roles)
    assert blockmap.move(-1, 0) == {0, 1}
    assert blockmap.cursor == 9
    blockmap.set_cursor(60)
    assert blockmap.move(0, 1) == set()
    blockmap.move(100, 0)
    assert blockmap.cursor == 63
    assert blockmap.set_cursor(None) == {6}


def test_within_a_cell_the_cursor_steps_by_blocks() -> None:
    blockmap = drawn(scene(), 16, 1)
    blockmap.set_cursor(4)
    assert blockmap.step(1) == set()
    assert blockmap.cursor == 5
    assert blockmap.move(1, 0) == {0}
    assert blockmap.cursor == 8


def test_cells_and_blocks_find_each_other() -> None:
    blockmap = drawn(scene(), 7, 3)
    assert blockmap.per_cell == 4
    for block in range(64):
        x, y = blockmap.cell_of(block)
        assert block in blockmap.blocks_at(x, y)
    assert blockmap.block_at(0, 1) == 28
    assert blockmap.block_at(6, 2) is None
    assert blockmap.block_at(7, 0) is None
    assert blockmap.block_at(-1, 0) is None


def test_blocks_not_exposed_are_said_not_drawn() -> None:
    blockmap = drawn(gauges_only(), 40, 3)
    assert text(blockmap)[0].rstrip() == "blocks: not exposed by vllm"
    blockmap.next_mode()
    blockmap.set_cursor(3)
    blockmap.select([1, 2])
    assert text(blockmap)[0].rstrip() == "blocks: not exposed by vllm"


def test_the_map_appears_with_the_first_keyframe() -> None:
    state = EngineState()
    blockmap = BlockMap(state)
    blockmap.layout(0, 32, 2)
    assert text(blockmap)[0].startswith("blocks: waiting for the engine")
    state.apply(hello(), NOW)
    changes = state.apply(keyframe(), NOW)
    assert blockmap.update(changes, NOW) == {0, 1}
    assert text(blockmap)[0].startswith("▓▓█")


def test_a_layout_ahead_of_the_first_keyframe_does_no_harm() -> None:
    state = EngineState()
    blockmap = BlockMap(state)
    blockmap.layout(64, 32, 2)
    blockmap.rows()
    state.apply(hello(), NOW)
    assert blockmap.update(state.apply(keyframe(), NOW), NOW) == {0, 1}
    assert text(blockmap)[0].startswith("▓▓█")


def test_a_state_unknown_here_is_shown_as_unknown_and_named_states_wherever_the_engine_puts_them() -> None:
    odd = hello(block_states=["active", "quantised", "free"])
    blocks = [(0, 1, 0, 1, 1, 16, 0, 0), (1, 1, 1, 1, 1, 16, 0, 0), (2, 62, 2, -1, 0, 0, 0, 0)]
    blockmap = drawn(scene(odd, blocks=blocks), 32, 2)
    assert text(blockmap)[0] == "█?" + "·" * 30
    assert blockmap.row(0).roles[1] == role_of("unknown")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_state_and_step_has_its_own_shape(glyphs: Glyphs) -> None:
    assert len({*glyphs.states, glyphs.unknown}) == len(ALL)
    assert len(set(glyphs.heat)) == 8
    if glyphs is ASCII:
        assert (glyphs.states + glyphs.heat + glyphs.unknown + glyphs.cursor).isascii()


shapes = st.tuples(st.integers(1, 12), st.integers(1, 5))


@settings(max_examples=120, deadline=None)
@given(
    total=st.integers(1, 70), seed=st.integers(0, 10_000), shape=shapes, mode=st.sampled_from(MODES),
    steps=st.integers(1, 12),
)  # fmt: skip
def test_kept_up_to_date_it_equals_one_drawn_from_scratch(
    total: int, seed: int, shape: tuple[int, int], mode: str, steps: int
) -> None:
    engine = ToyEngine(total, seed)
    state = EngineState()
    state.apply(engine.hello(), 0.0)
    state.apply(engine.keyframe(), 0.0)
    kept = BlockMap(state)
    kept.layout(total, *shape)
    kept.mode = mode
    before: list[Row] = kept.rows()
    for step in range(steps):
        now = float(step * 2)
        changes = state.apply(engine.step(), now)
        told = kept.update(changes, now) | kept.tick(now)
        after = kept.rows()
        assert {y for y, (a, b) in enumerate(zip(before, after, strict=True)) if a != b} <= told
        assert all(a is b for y, (a, b) in enumerate(zip(before, after, strict=True)) if y not in told)
        before = after
    fresh = BlockMap(state)
    fresh.layout(total, *shape)
    fresh.mode = mode
    fresh.update(Changes(full=True), float(2 * steps - 2))
    assert fresh.rows() == kept.rows()


def test_of_several_tiers_one_is_shown_and_blocks_keep_their_numbers() -> None:
    state = two_tiers()
    shown = BlockMap(state)
    shown.layout(len(shown.shown), 4, 3)
    assert (shown.tier_name, shown.total) == ("device", 8)
    assert [shown.row(y).text for y in range(3)] == ["██··", "····", "    "]
    assert shown.next_tier() == "host"
    shown.layout(len(shown.shown), 4, 3)
    assert shown.row(0).text == "░···"
    assert shown.counts()["cached"] == 1
    assert shown.next_tier() == "disk"
    shown.layout(len(shown.shown), 4, 3)
    assert shown.row(0).text == "◇◇··"
    assert (list(shown.blocks_at(1, 0)), shown.cell_of(13)) == ([13], (1, 0))
    shown.set_cursor(0)
    assert shown.cursor == 12
    shown.move(1, 0)
    assert shown.cursor == 13
    changes = state.apply(frame(2, 11.0, blocks=[(15, 1, 5, -1, 0, 4, 2, 0), (0, 1, 0, -1, 0, 0, 0, 0)]), 1.0)
    assert shown.update(changes, 1.0) == {0}
    assert shown.row(0).text == "◇▸·⇄"
    assert shown.next_tier() == "device"
    assert shown.update(changes, 1.0), "another tier is another picture"
    assert shown.row(0).text == "·█··"
    assert shown.cursor is None


def test_one_tier_of_blocks_has_no_name_and_is_shown_whole() -> None:
    shown = BlockMap(scene())
    assert shown.tier_name is None
    assert shown.next_tier() is None
    assert shown.shown == range(64)
