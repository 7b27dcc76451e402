"""Rows and batches that fail in between whatever else may happen, with tiers and without: the books agree, and nobody goes on
from what was computed wrongly."""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from engine.requests.request import FinishReason, Request, RequestState
from tests.engine.driving import make_request
from tests.engine.machine import SchedulerMachine
from tests.engine.scheduling.test_stateful import COMMON
from tests.engine.tiers.machine import TieredMachine


class FailingMachine(SchedulerMachine):
    @rule(which=st.integers(0, 99))
    @precondition(lambda self: self.scheduler.running)
    def a_row_fails(self, which: int) -> None:
        self.scheduler.resume()
        plan = self.scheduler.schedule(self.now)
        if not plan.items:
            return
        output = self.runner.run(plan.items, plan.copies)
        failed = plan.items[which % len(plan.items)].request
        # What it computed is wrong; the runner notices whoever goes on from that.
        self.runner.spoil([block for block in failed.held if not self.pool.is_read_by_others(block)])
        finished = self.scheduler.commit(plan, replace(output, failures={failed.num: "it failed"}), self.now)
        assert failed in finished
        assert failed.finish_reason is FinishReason.ERROR
        self._ask_again(failed)

    def _ask_again(self, failed: Request) -> None:
        """Somebody has the same prompt, and would find what was computed for it."""
        prompt, salt = failed.token_ids[: failed.prompt_tokens], failed.cache_salt
        request = make_request(self.arrived, prompt, 3, arrival=self.now, cache_salt=salt)
        self.arrived += 1
        self.scheduler.add(request, self.now)
        self.known.append(request)

    @rule(copied=st.booleans())
    @precondition(lambda self: self.scheduler.running)
    def a_batch_fails(self, copied: bool) -> None:
        self.scheduler.resume()
        plan = self.scheduler.schedule(self.now)
        if copied:
            self.runner.run((), plan.copies)
        hit = [item.request for item in plan.items] if copied else list(self.scheduler.running)
        self.scheduler.abandon(plan, "it failed", self.now, copied=copied)
        assert all(request.state is RequestState.FINISHED for request in hit)


class FailingTieredMachine(FailingMachine, TieredMachine):
    """With tiers below."""


@pytest.mark.parametrize(("machine", "examples"), [(FailingMachine, 30), (FailingTieredMachine, 10)])
def test_books_agree_whatever_fails(machine: type[SchedulerMachine], examples: int) -> None:
    run_state_machine_as_test(machine, settings=settings(COMMON, max_examples=examples, stateful_step_count=30))
