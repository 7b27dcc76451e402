"""Whatever is chosen on two axes at once, the tokens stay the same: greedy outputs under a covering array of policies.

On the random model in every run of the suite; on the real one, against the golden continuations, by `make slow`.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core import Engine
from engine.memory.pool import BlockPool
from engine.memory.window import parse_windows
from engine.model.load import LoadedModel, random_model, with_windows
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.scheduling.beam_steps import add_beams
from engine.scheduling.forking import add_samples
from engine.scheduling.scheduler import Scheduler
from engine.tiers.opening import open_tiers
from tests.engine.covering import Value, all_pairs, covering_array, pairs_of
from tests.engine.golden import CASES
from tests.engine.served import make_request, make_runner

AXES: dict[str, Sequence[Value]] = {
    "preempt_action": ("recompute", "swap", "swap_disk"),
    "victim": ("latest", "lowest_priority", "most_blocks", "fewest_outputs", "longest_remaining"),
    "requeue": ("front", "back", "by_priority"),
    "preempt_bound": (0, 2),
    "resume_gate": (1.0, 0.7),
    "eviction": ("lru", "fifo", "mru", "lfu", "slru", "priority", "leaf_first"),
    "free_order": ("tail_first", "head_first"),
    "offload": ("off", "on_evict", "on_fill", "by_reuse", "by_priority"),
    "prefetch": ("off", "queue_head"),
    "tier_full": ("drop", "block"),
    "partial_reuse": ("off", "copy", "exclusive"),
    "prefix_cache": (True, False),
    "compaction": ("off", "when_idle", "continuous"),
    "token_budget": (16, 64),
    "samples": (1, 2, "beams"),
    "window": ("full", "21", "13,full"),
}
OF_THE_ENGINE = ("samples", "window")
"""Axes that are no policies."""
ARRAY = covering_array(AXES)
BLOCK = 8


class Outcome:
    """What happened over all rows; a row in which nothing was contended proves nothing."""

    def __init__(self) -> None:
        self.preemptions = self.swaps = self.loads = self.copies = self.forks = self.slid = self.searches = 0


def serve(
    model: LoadedModel, work: Sequence[Request], row: dict[str, Value], folder: Path, blocks: int, outcome: Outcome
) -> dict[int, list[int]]:
    """Outputs by num (of siblings too) under the policies of ``row``, with small host and disk tiers.

    ``blocks`` for every KV group.
    """
    policies = {axis: value for axis, value in row.items() if axis not in OF_THE_ENGINE}
    model = with_windows(model, parse_windows(str(row["window"]), model.config.layers))
    blocks *= len(model.decoder.groups)
    runner = make_runner(model, blocks=blocks, block_size=BLOCK)
    pool = BlockPool(blocks, BLOCK, windows=model.decoder.groups.windows)
    tiers = open_tiers(pool, runner.cache.parts, host_blocks=blocks // 2, disk_blocks=blocks, disk_path=folder / "kv")
    assert tiers is not None
    scheduler = Scheduler(pool, PolicySet.of({"max_running": 8} | policies), max_model_len=512, tiers=tiers)
    engine = Engine(scheduler, runner)
    everyone = list(work)
    for request in work:
        if row["samples"] == 2:
            add_samples(request, [request.num + 1000])
            everyone += request.samples
            outcome.forks += 1
        elif row["samples"] == "beams" and request.num % 2:
            add_beams(request, [request.num + 1000, request.num + 2000])
            everyone += request.samples
            outcome.searches += 1
    try:
        for request in work:
            scheduler.add(request, engine.clock())
        for _ in range(20_000):
            if not scheduler.requests:
                break
            step = engine.step()
            assert scheduler.ledger_violations() == []
            if step is not None:
                outcome.preemptions += len(step.plan.preempted)
                outcome.copies += len(step.plan.copies)
            while tiers.news:
                kind = tiers.news.popleft().kind
                outcome.swaps += kind == "swap_in"
                assert kind != "load_failed"
        assert not scheduler.requests, "requests are left that never end"
        outcome.slid += scheduler.totals.dropped_blocks
        outcome.loads += sum(level.blocks_out for level in tiers.levels)
    finally:
        tiers.close()
    return {request.num: request.token_ids[request.prompt_tokens :] for request in everyone}


def test_the_array_covers_every_pair() -> None:
    assert set().union(*(pairs_of(row) for row in ARRAY)) == all_pairs(AXES)
    assert len(ARRAY) < 60


def _work() -> list[Request]:
    """Eight requests, four of which begin alike, up to within a block."""
    head = [7 * i % 199 for i in range(27)]
    prompts = [(head if n % 2 else []) + [(31 * n + 13 * i) % 211 for i in range(10 + 5 * n)] for n in range(8)]
    return [make_request(n, prompt, 24) for n, prompt in enumerate(prompts)]


@pytest.fixture(scope="module")
def tiny() -> LoadedModel:
    return random_model(seed=3)


@pytest.fixture(scope="module")
def expected(
    tiny: LoadedModel, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[Value, Value], dict[int, list[int]]]:
    """By window and samples: what a run says in which nothing is contended; two samples say what one does."""
    said = {}
    for window in AXES["window"]:
        for samples in (1, "beams"):
            calm: dict[str, Value] = {"token_budget": 512, "window": window, "samples": samples}
            said[window, samples] = serve(tiny, _work(), calm, tmp_path_factory.mktemp("calm"), 256, Outcome())
    return said


def test_windows_and_beams_change_what_is_said(
    expected: dict[tuple[Value, Value], dict[int, list[int]]],
) -> None:
    """Otherwise the rows that have some would prove nothing."""
    assert all(expected["full", 1] != said for case, said in expected.items() if case != ("full", 1))
    assert any(expected["full", 1][num] != expected["full", "beams"][num] for num in range(8))


def test_no_pair_of_choices_changes_a_token(
    tiny: LoadedModel, expected: dict[tuple[Value, Value], dict[int, list[int]]], tmp_path: Path
) -> None:
    """One test for all rows: what they were like together is looked at too, wherever tests run."""
    outcome, different = Outcome(), []
    for number, row in enumerate(ARRAY):
        folder = tmp_path / str(number)
        folder.mkdir()
        outputs = serve(tiny, _work(), row, folder, 26, outcome)
        beams = row["samples"] == "beams"
        said = expected[row["window"], "beams" if beams else 1]
        different += [
            f"request {num} under {row}"
            for num, output in outputs.items()
            if output != said[num if beams else num % 1000]
        ]
    assert different == []
    # The rows were contended; else they would prove nothing.
    assert outcome.preemptions > len(ARRAY)
    assert outcome.swaps > 10
    assert outcome.loads > 100
    assert outcome.copies > 50
    assert outcome.forks > 10
    assert outcome.searches > 10
    assert outcome.slid > 100


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ARRAY)))
def test_golden_continuations_hold_under_every_pair_of_choices(
    smollm: LoadedModel, number: int, tmp_path: Path
) -> None:
    cases = [case for case in CASES if len(case.prompt_ids) < 100][:6]
    work = [make_request(n, case.prompt_ids, min(16, len(case.required))) for n, case in enumerate(cases)]
    # The golden texts are those of a model that sees all.
    outputs = serve(smollm, work, ARRAY[number] | {"window": "full"}, tmp_path, 24, Outcome())
    greedy = {num: output for num, output in outputs.items() if ARRAY[number]["samples"] != "beams" or num % 2 == 0}
    for num, output in greedy.items():
        assert output == cases[num % 1000].required[: len(output)], f"{cases[num % 1000].prompt} under {ARRAY[number]}"
