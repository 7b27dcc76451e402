"""Tiers under thousands of random operations with copies that come late, out of order or not at all."""

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine.memory.free_list import FreeListError
from engine.memory.pool import PoolError
from engine.tiers.books import BooksError
from tests.engine.scheduling.test_stateful import COMMON
from tests.engine.tiers.faults import TIER_FAULTS
from tests.engine.tiers.machine import TieredMachine


def test_books_and_contents_agree_after_every_operation() -> None:
    run_state_machine_as_test(TieredMachine, settings=settings(COMMON, max_examples=20, stateful_step_count=30))


@pytest.mark.parametrize("fault", TIER_FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    searching = settings(
        COMMON, max_examples=30, stateful_step_count=30, phases=[Phase.generate], report_multiple_bugs=False
    )
    with (
        TIER_FAULTS[fault](),
        pytest.raises((AssertionError, PoolError, FreeListError, BooksError, KeyError)),
    ):
        run_state_machine_as_test(TieredMachine, settings=searching)
