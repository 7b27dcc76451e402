"""Scheduler, pool and tables under thousands of random operations; and that planted faults do not get past the checks."""

from weakref import WeakKeyDictionary

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine.memory.free_list import FreeListError
from engine.memory.pool import PoolError
from engine.scheduling.audit import Audit
from engine.scheduling.scheduler import Scheduler
from tests.engine.faults import FAULTS
from tests.engine.machine import SchedulerMachine

COMMON = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    stateful_step_count=50,
)

ENOUGH = 60
"""Examples: within so many each planted fault is found. Most are within a dozen, but that differs with every change of the
machine; the rarest took 54."""


@pytest.mark.parametrize("examples", [ENOUGH, pytest.param(400, marks=pytest.mark.slow)])
def test_books_agree_after_every_operation(examples: int) -> None:
    run_state_machine_as_test(SchedulerMachine, settings=settings(COMMON, max_examples=examples))


_AUDITS: WeakKeyDictionary[Scheduler, Audit] = WeakKeyDictionary()


def by_audit(scheduler: Scheduler) -> list[str]:
    if scheduler not in _AUDITS:
        _AUDITS[scheduler] = Audit(scheduler.roster, scheduler.pins)
    return _AUDITS[scheduler].round()


@pytest.mark.parametrize("examples", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_an_audit_gives_no_false_alarm(examples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "ledger_violations", by_audit)
    run_state_machine_as_test(SchedulerMachine, settings=settings(COMMON, max_examples=examples))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_audits(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scheduler, "ledger_violations", by_audit)
    test_a_planted_fault_is_found(fault)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    searching = settings(COMMON, max_examples=ENOUGH, phases=[Phase.generate], report_multiple_bugs=False)
    with FAULTS[fault](), pytest.raises((AssertionError, PoolError, FreeListError, KeyError)):
        run_state_machine_as_test(SchedulerMachine, settings=searching)
