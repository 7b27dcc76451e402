"""Tokens proposed for a request are computed with its next one, kept as far as they were right, and else given back."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.memory.window import Windows
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.requests.request import Request
from tests.engine.driving import BLOCK, Drive, FakeRunner


class Guessing(FakeRunner):
    """Proposes ``width`` tokens for each that draws one; each of them is right with the odds ``right``."""

    width, right = 3, 0.5

    def run(self, items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        output = super().run(items, copies)
        tokens = iter(output.tokens)
        proposed = {}
        for item in items:
            drawn = [next(tokens) for _ in item.drawing]
            if not drawn or item.candidates:
                continue
            kept = []
            for place, token in enumerate(drawn if item.proposed else drawn[:1]):
                kept.append(token)
                if place == len(item.proposed) or item.proposed[place] != token:
                    break
            proposed[item.request.num] = self._guess(item.request, kept)
        return replace(output, proposed=proposed)

    def _guess(self, request: Request, after: list[int]) -> list[int]:
        odds, guess = random.Random(len(request.token_ids)), []
        for _ in range(self.width):
            token = self.token(request, [*after, *guess])
            guess.append(token if odds.random() < self.right else token + 100)
        return guess


def drive(guessing: float | None, blocks: int = 40, windows: Windows = (None,), **policies: object) -> Drive:
    made = Drive(blocks, windows=windows, **policies)
    if guessing is not None:
        made.runner = Guessing(made.pool)
        made.runner.right = guessing
    return made


def outputs(made: Drive) -> dict[int, list[int]]:
    made.run_out()
    return {num: request.token_ids[request.prompt_tokens :] for num, request in made.requests.items()}


@pytest.mark.parametrize("right", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("windows", [(None,), (6,), (None, 6)])
@pytest.mark.parametrize("capacity", ["max_utilization", "guaranteed_no_evict"])
def test_guesses_change_how_fast_tokens_come_and_nothing_else(right: float, windows: Windows, capacity: str) -> None:
    runs = []
    for guessing in (None, right):
        made = drive(guessing, 60, windows, capacity=capacity, partial_reuse="copy")
        for num in range(1, 5):
            made.add(num, prompt=list(range(5 * num)), max_tokens=17)
        runs.append(outputs(made))
        assert made.pool.available == made.pool.total
        assert made.scheduler.totals.decode_tokens == 4 * 17
        assert made.scheduler.totals.recomputed_tokens == 0
    assert runs[0] == runs[1]


def test_right_guesses_are_all_kept() -> None:
    made = drive(1.0)
    made.add(1, prompt=5, max_tokens=9)
    made.step()
    for length in (5, 9):
        made.step()
        assert made.requests[1].output_tokens == length
    assert made.requests[1].finish_reason == "length"


def test_of_wrong_guesses_kv_and_blocks_are_given_back() -> None:
    made = drive(0.0)
    request = made.add(1, prompt=BLOCK - 1, max_tokens=20)
    made.step()
    plan = made.scheduler.schedule(made.now)
    assert plan.items[0].count == 4
    assert len(request.block_table) == 2, "the guesses reach into a second block"
    output = made.runner.run(plan.items, plan.copies)
    made.scheduler.commit(plan, output, made.now)
    assert request.computed_tokens == BLOCK
    assert len(request.block_table) == 1
    assert made.pool.available == made.pool.total - 1
    assert made.scheduler.ledger_violations() == []


def test_nobody_is_preempted_for_a_guess() -> None:
    made = drive(1.0, blocks=4)
    first, second = made.add(1, prompt=7, max_tokens=6), made.add(2, prompt=7, max_tokens=6)
    made.steps(2)
    assert first.preemptions == second.preemptions == 0
    assert made.scheduler.totals.preemptions == 0


def test_guesses_keep_within_the_budget_and_the_limit_of_tokens() -> None:
    made = drive(1.0, token_budget=8)
    request = made.add(1, prompt=5, max_tokens=3)
    made.step()
    made.add(2, prompt=8, max_tokens=2)
    plan = made.step()
    assert plan.items[0].count == 2, "one token is the last that may be sampled behind the one that is"
    assert sum(item.count for item in plan.items) <= 8
    assert request.output_tokens == 3


def test_guesses_for_a_preempted_request_are_forgotten() -> None:
    made = drive(1.0)
    request = made.add(1, prompt=5, max_tokens=20)
    made.step()
    assert request.proposed
    made.scheduler.preempt(request, made.now, "test")
    assert not request.proposed
    made.run_out()
    assert request.output_tokens == 20
