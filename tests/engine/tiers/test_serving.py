"""A random model served with real tiers: whatever goes out and comes back, the tokens are those of a run without."""

import errno
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core import Engine
from engine.memory.pool import BlockPool
from engine.model.load import LoadedModel, random_model
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.tiers.disk import PAGE
from engine.tiers.opening import open_tiers
from engine.tiers.report import moved_in_all
from engine.tiers.tiers import Tiers
from kvtop.protocol import PolicyValue
from tests.engine.served import make_request, make_runner

BLOCK = 8
BLOCKS = 24
"""A third of what the requests need at the same time."""

SWAPPING: dict[str, PolicyValue] = {"capacity": "max_utilization", "max_running": 8, "token_budget": 64}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(seed=3)


def requests(count: int, seed: int = 1, *, shared: int = 0) -> list[Request]:
    """Prompts of 20 to 60 tokens; the first ``shared`` tokens are common to every third."""
    draw = random.Random(seed)
    kinds = [[draw.randrange(200) for _ in range(shared)] for _ in range(3)]
    made = []
    for num in range(count):
        prompt = kinds[num % 3] + [draw.randrange(200) for _ in range(draw.randint(20, 60))]
        made.append(make_request(num, prompt, 30))
    return made


class Served:
    """An engine with tiers, driven to the end of its requests."""

    def __init__(
        self,
        model: LoadedModel,
        *,
        host: int = 0,
        disk: int = 0,
        path: Path = Path("none"),
        blocks: int = BLOCKS,
        **more: PolicyValue,
    ) -> None:
        runner = make_runner(model, blocks=blocks, block_size=BLOCK)
        pool = BlockPool(blocks, BLOCK)
        self.tiers = open_tiers(pool, runner.cache.parts, host_blocks=host, disk_blocks=disk, disk_path=path)
        policies = PolicySet.of(SWAPPING | more)
        self.scheduler = Scheduler(pool, policies, max_model_len=128, tiers=self.tiers)
        self.engine = Engine(self.scheduler, runner)
        self.preemptions = 0
        self.kinds: list[str] = []
        self.details: list[str] = []

    @property
    def known_tiers(self) -> Tiers:
        assert self.tiers is not None
        return self.tiers

    def run(
        self, work: list[Request], each: Callable[[int], None] = lambda done: None, *, together: int = 8
    ) -> list[list[int]]:
        """Outputs by request; ``each`` is told before every step how many have finished."""
        queue, finished = list(work), 0
        for _ in range(20_000):
            while queue and len(self.scheduler.requests) < together:
                self.scheduler.add(queue.pop(0), self.engine.clock())
            if not self.scheduler.requests:
                break
            each(finished)
            step = self.engine.step()
            if step is not None:
                self.preemptions += len(step.plan.preempted)
                finished += len(step.finished)
            if self.tiers is not None:
                while self.tiers.news:
                    news = self.tiers.news.popleft()
                    self.kinds.append(news.kind)
                    self.details.append(news.detail)
            violations = self.scheduler.ledger_violations()
            assert violations == []
        assert not self.scheduler.requests, "requests are left that never end"
        return [request.token_ids[request.prompt_tokens :] for request in work]

    def close(self) -> None:
        if self.tiers is not None:
            self.tiers.close()


@pytest.fixture
def serve(model: LoadedModel, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def start(**more: PolicyValue) -> Served:
        served = Served(model, path=tmp_path / "kv", **more)  # type: ignore[arg-type]
        made.append(served)
        return served

    yield start
    for served in made:
        served.close()


Serve = Callable[..., Served]


@pytest.fixture(scope="module")
def expected(model: LoadedModel) -> list[list[int]]:
    return Served(model, blocks=200).run(requests(12))


def test_swapped_requests_go_on_where_they_were(serve: Serve, expected: list[list[int]]) -> None:
    plain, swapping = serve(), serve(host=100, preempt_action="swap", prefix_cache=False)
    assert plain.run(requests(12)) == expected
    assert swapping.run(requests(12)) == expected
    assert swapping.preemptions > 0
    assert "swap_out" in swapping.kinds
    assert "swap_in" in swapping.kinds
    assert plain.scheduler.totals.recomputed_tokens > 0
    assert swapping.scheduler.totals.recomputed_tokens == 0
    levels = swapping.known_tiers.levels
    assert levels[1].bytes_in == moved_in_all(swapping.known_tiers).host_offload_bytes > 0
    assert levels[1].bytes_out > 0
    assert levels[1].ms_in is not None


def test_disk_takes_states_too(serve: Serve, expected: list[list[int]]) -> None:
    served = serve(host=4, disk=100, preempt_action="swap_disk", prefix_cache=False)
    assert served.run(requests(12)) == expected
    assert served.scheduler.totals.recomputed_tokens == 0
    assert served.known_tiers.levels[2].blocks_out > 0
    assert served.known_tiers.levels[1].blocks_in == 0


@pytest.mark.parametrize("full", ["drop", "block"])
def test_a_host_tier_too_small_for_one_request_is_no_hindrance(
    serve: Serve, expected: list[list[int]], full: str
) -> None:
    served = serve(host=2, preempt_action="swap", tier_full=full)
    assert served.run(requests(12)) == expected
    assert "tier_drop" in served.kinds
    assert served.known_tiers.levels[1].drops > 0


def test_a_full_tier_that_blocks_swaps_rather_than_recomputes(serve: Serve, expected: list[list[int]]) -> None:
    dropping = serve(host=14, preempt_action="swap", prefix_cache=False)
    blocking = serve(host=14, preempt_action="swap", prefix_cache=False, tier_full="block")
    assert dropping.run(requests(12)) == expected
    assert blocking.run(requests(12)) == expected
    assert dropping.scheduler.totals.recomputed_tokens > blocking.scheduler.totals.recomputed_tokens


def test_the_action_can_be_switched_under_load(serve: Serve, expected: list[list[int]]) -> None:
    served = serve(host=60, disk=60)
    actions = ["swap", "swap_disk", "recompute"]

    def switch(done: int) -> None:
        action = actions[(served.engine.iteration // 7) % 3]
        if served.scheduler.policies.preempt_action != action:
            served.scheduler.set_policies({"preempt_action": action}, "drain", served.engine.clock())

    assert served.run(requests(12), switch) == expected
    assert served.known_tiers.levels[1].blocks_out > 0
    assert served.known_tiers.levels[2].blocks_out > 0


@pytest.mark.parametrize("offload", ["on_fill", "on_evict", "by_reuse", "by_priority"])
@pytest.mark.parametrize(("host", "disk"), [(200, 0), (0, 200), (12, 200)])
def test_prefixes_evicted_from_the_device_are_found_below(
    serve: Serve, model: LoadedModel, offload: str, host: int, disk: int
) -> None:
    work = [request for round_ in range(3) for request in requests(9, shared=40)]
    for num, request in enumerate(work):
        request.num, request.id = num, f"request-{num}"
    want = Served(model, blocks=400, prefix_cache=False).run([make_request(r.num, r.token_ids, 30) for r in work])
    served = serve(host=host, disk=disk, offload=offload)
    assert served.run(work, together=3) == want
    levels = served.known_tiers.levels
    hits = sum(level.hit_tokens for level in levels[1:])
    assert hits > 0
    moved = moved_in_all(served.known_tiers)
    assert (moved.host_promotions + moved.disk_promotions) * BLOCK >= hits
    assert served.scheduler.totals.prefix_hit_tokens >= hits


def test_without_offload_nothing_goes_below(serve: Serve, expected: list[list[int]]) -> None:
    served = serve(host=50, disk=50)
    assert served.run(requests(12)) == expected
    assert moved_in_all(served.known_tiers).host_offload_bytes == 0
    assert served.kinds == []


def flip_bits(path: Path, seed: int) -> None:
    """One bit in the middle of every slot."""
    draw = random.Random(seed)
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        for page in range(0, size, PAGE):
            at = page + draw.randrange(60, 2000)
            file.seek(at)
            byte = file.read(1)
            if byte:
                file.seek(at)
                file.write(bytes([byte[0] ^ 4]))


@pytest.mark.parametrize("use", ["swap_disk", "on_fill"])
@pytest.mark.parametrize("trouble", ["flipped bits", "truncated", "read-only", "full", "unreadable"])
def test_a_disk_in_trouble_costs_time_and_never_a_token(
    serve: Serve, model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, use: str
) -> None:
    swaps = use == "swap_disk"
    work = requests(18) if swaps else [r for _ in range(2) for r in requests(9, shared=40)]
    for num, request in enumerate(work):
        request.num, request.id = num, f"request-{num}"
    want = Served(model, blocks=400, prefix_cache=False).run([make_request(r.num, r.token_ids, 30) for r in work])
    policies: dict[str, PolicyValue] = {"preempt_action": use, "prefix_cache": False} if swaps else {"offload": use}
    served = serve(disk=120, **policies)

    def refuse(fault: int) -> Callable[..., int]:
        def call(*_: object) -> int:
            raise OSError(fault, os.strerror(fault))

        return call

    def interfere(done: int) -> None:
        if done < 3:
            return
        if trouble == "flipped bits":
            flip_bits(tmp_path / "kv", served.engine.iteration)
        elif trouble == "truncated":
            os.truncate(tmp_path / "kv", PAGE // 2)
        elif trouble == "unreadable":
            monkeypatch.setattr(os, "pread", refuse(errno.EIO))
        else:
            monkeypatch.setattr(os, "pwritev", refuse(errno.EROFS if trouble == "read-only" else errno.ENOSPC))

    assert served.run(work, interfere, together=8 if swaps else 3) == want
    assert served.known_tiers.levels[-1].failures > 0
    reported = [
        detail
        for kind, detail in zip(served.kinds, served.details, strict=True)
        if kind in ("load_failed", "tier_drop")
    ]
    assert any(f"disk tier {tmp_path / 'kv'}, slot " in detail for detail in reported)


@pytest.mark.parametrize(
    ("tier", "trouble"), [("host", "none"), ("disk", "none"), ("disk", "flipped bits"), ("disk", "unreadable")]
)
def test_the_prefix_of_the_head_comes_ahead_and_never_a_wrong_token(
    serve: Serve, model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: str, trouble: str
) -> None:
    work = [request for _ in range(3) for request in requests(9, shared=40)]
    for num, request in enumerate(work):
        request.num, request.id = num, f"request-{num}"
    want = Served(model, blocks=400, prefix_cache=False).run([make_request(r.num, r.token_ids, 30) for r in work])
    served = serve(**{tier: 200}, blocks=44, offload="on_fill", prefetch="queue_head", max_running=2)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def interfere(done: int) -> None:
        if done < 12:
            return
        if trouble == "flipped bits":
            flip_bits(tmp_path / "kv", served.engine.iteration)
        elif trouble == "unreadable":
            monkeypatch.setattr(os, "pread", fail)

    assert served.run(work, interfere, together=6) == want
    level = served.known_tiers.levels[1]
    assert level.prefetch_used_blocks <= level.prefetched_blocks
    if trouble == "none":
        assert level.prefetch_used_blocks > 10
        assert level.failures == 0
        return
    assert level.failures > 0
    assert any("did not come ahead of its request" in detail for detail in served.details)
