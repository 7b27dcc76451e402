"""Tiers under thousands of random operations with copies that come late, out of order or not at all."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.test_stateful import COMMON
from tests.engine.tiers.machine import TieredMachine


def test_books_and_contents_agree_after_every_operation() -> None:
    run_state_machine_as_test(TieredMachine, settings=settings(COMMON, max_examples=100))
