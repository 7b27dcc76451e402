"""Cells that change flash, in steps, and no more of them than a frame has bytes for."""

import numpy as np

from kvtop.views.block_map import BlockMap
from kvtop.views.flash import FLASH_STEPS, MOST, STEP_S, Flash
from kvtop.views.rows import HIGHLIGHT, Role
from tests.views.scene import LATER, MONO, iteration, scene
from tests.views.test_block_map import drawn


def flashing(blockmap: BlockMap) -> list[tuple[int, int]]:
    """Cell and step of those that are bright."""
    roles = b"".join(row.roles for row in blockmap.rows())
    return [(x, role - Role.FLASH0 + 1) for x, role in enumerate(roles) if Role.FLASH0 <= role < HIGHLIGHT]


def test_a_cell_that_changed_is_brightest_then_less_bright_then_as_the_others() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    blockmap.flash.on = True
    plain = blockmap.row(1)
    changes = state.apply(iteration(15, MONO + 5, blocks=[(20, 1, 2, 1, 1, 3, 0, 0)]), LATER)
    assert blockmap.update(changes, LATER) == {1}
    assert flashing(blockmap) == [(20, 2)]
    assert blockmap.row(1).text[4] == "■", "a full block in reverse would be a hole"
    assert blockmap.tick(LATER + 0.5 * STEP_S) == set()
    assert blockmap.tick(LATER + 1.5 * STEP_S) == {1}
    assert flashing(blockmap) == [(20, 1)]
    assert blockmap.tick(LATER + FLASH_STEPS * STEP_S) == {1}
    assert flashing(blockmap) == []
    assert not blockmap.flash.going
    assert blockmap.row(1).text[4] == "█" != plain.text[4]


def test_nothing_flashes_unless_it_is_wanted_nor_when_everything_is_drawn_anew() -> None:
    state = scene()
    blockmap = drawn(state, 16, 4)
    for on, block in ((False, 20), (True, 21)):
        blockmap.flash.on = on
        changes = state.apply(iteration(15 + on, MONO + 5 + on, blocks=[(block, 1, 2, 1, 1, 3, 0, 0)]), LATER)
        blockmap.update(changes, LATER)
        assert bool(flashing(blockmap)) is on
    blockmap.mode = "owner"
    assert flashing(blockmap) == []


def test_of_many_the_weightiest_flash_and_no_more_than_there_are_bytes_for() -> None:
    flash = Flash()
    flash.fit(100)
    flash.on = True
    weights = np.ones(100, dtype=np.int64)
    weights[[90, 50]] = 8
    flash.begin(np.arange(100), weights, 1.0)
    assert np.flatnonzero(flash.steps).tolist() == [*range(MOST - 2), 50, 90]


def test_a_clock_that_goes_back_and_a_flash_turned_off_leave_nothing_bright() -> None:
    for on, now in ((True, 0.5), (False, 1.1)):
        flash = Flash()
        flash.fit(9)
        flash.on = True
        flash.begin(np.array([4]), np.ones(1, dtype=np.int64), 1.0)
        flash.on = on
        assert flash.fade(now).tolist() == [4]
        assert not flash.steps.any()
        assert not flash.going
