"""The KV cache switched to other element types under load, with the real storage in memory and on disk."""

import gc
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.build import build
from engine.config import EngineConfig
from engine.core import Engine
from engine.kv_storage import KVStorage
from engine.memory.pool import BlockPool
from engine.model.kv_cache import KVCache, KVCacheError, kv_bytes_per_token
from engine.model.load import LoadedModel, random_model
from engine.model.paged_tensor import KV_DTYPES, KVDtype
from engine.policies.policy_set import PolicySet
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.serving.server import Server
from engine.tiers.host import HostStore
from engine.tiers.opening import open_stores, open_tiers
from engine.tiers.store import StoreError
from engine.tiers.tiers import Tiers
from kvtop.app.feed import Feed
from kvtop.protocol import PolicyValue
from kvtop.sources.control import ControlClient
from kvtop.sources.socket import SocketSource
from kvtop.state import EngineState
from tests.engine.served import make_request, make_runner

BLOCK, BLOCKS, HOST, DISK = 8, 24, 12, 40


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return random_model(seed=3)


class Served:
    """An engine with both tiers under load: swapping, storing and loading all the time."""

    def __init__(self, model: LoadedModel, path: Path, kv_dtype: str = "float32") -> None:
        self.runner = make_runner(model, blocks=BLOCKS, block_size=BLOCK, cache_dtype=kv_dtype)
        pool = BlockPool(BLOCKS, BLOCK)
        sizes = {"host_blocks": HOST, "disk_blocks": DISK, "disk_path": path}
        tiers = open_tiers(pool, self.runner.cache.parts, **sizes)  # type: ignore[arg-type]
        assert tiers is not None
        self.tiers: Tiers = tiers
        policies = PolicySet.of(
            {"preempt_action": "swap", "offload": "on_fill", "max_running": 6, "token_budget": 64, "kv_dtype": kv_dtype}
        )
        self.scheduler = Scheduler(pool, policies, max_model_len=128, tiers=tiers, kv_dtypes=tuple(KV_DTYPES))
        storage = KVStorage(self.runner, tiers=tiers, open_stores=partial(open_stores, **sizes))  # type: ignore[arg-type]
        self.engine = Engine(self.scheduler, self.runner, storage=storage)
        self.news: set[str] = set()

    def step(self) -> None:
        self.engine.step()
        assert self.scheduler.ledger_violations() == []
        while self.tiers.news:
            self.news.add(self.tiers.news.popleft().kind)

    def begin(self, count: int, steps: int) -> list[Request]:
        work = requests(count)
        for request in work:
            self.scheduler.add(request, self.engine.clock())
        for _ in range(steps):
            self.step()
        return work

    def switch(self, kv_dtype: str, transition: str) -> None:
        self.scheduler.set_policies({"kv_dtype": kv_dtype}, transition, self.engine.clock())

    def run_out(self) -> None:
        for _ in range(20_000):
            if not self.scheduler.requests and not self.scheduler.switching:
                return
            self.step()
        raise AssertionError("requests are left that never end")


def requests(count: int) -> list[Request]:
    head = [7 * i % 199 for i in range(20)]
    return [make_request(n, head + [(31 * n + 13 * i) % 211 for i in range(10 + 5 * n)], 20) for n in range(count)]


def outputs(work: list[Request]) -> list[list[int]]:
    return [request.token_ids[request.prompt_tokens :] for request in work]


@pytest.fixture
def served(model: LoadedModel, tmp_path: Path) -> Iterator[Served]:
    made = Served(model, tmp_path / "kv")
    yield made
    made.tiers.close()


@pytest.fixture(scope="module")
def calm(model: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[int]]]:
    """By type, what an engine says that serves in it from the start."""
    found = {}
    for kv_dtype in ("float32", "int8", "fp8_e4m3"):
        engine = Served(model, tmp_path_factory.mktemp(kv_dtype) / "kv", kv_dtype)
        work = engine.begin(8, 0)
        engine.run_out()
        engine.tiers.close()
        found[kv_dtype] = outputs(work)
    assert found["float32"] != found["int8"] != found["fp8_e4m3"], "the types cannot be told apart by what is said"
    return found


@pytest.mark.parametrize("transition", ["drain", "preempt"])
def test_each_type_in_turn_says_what_it_says_alone(
    served: Served, calm: dict[str, list[list[int]]], transition: str
) -> None:
    for kv_dtype in ("int8", "fp8_e4m3", "float32"):
        under_way = served.begin(6, 12)
        assert served.scheduler.running
        served.switch(kv_dtype, transition)
        served.run_out()
        assert served.scheduler.kv_types.in_force == kv_dtype
        assert all(request.finish_reason is not None for request in under_way)
        if transition == "preempt":
            assert all(request.preemptions for request in under_way if request.kv_dtype == kv_dtype and request.num < 4)
        size = served.runner.cache.total_bytes // BLOCKS
        assert served.tiers.mover._stores[1].block_bytes == served.tiers.mover._stores[2].block_bytes == size  # type: ignore[attr-defined]
        work = served.begin(8, 0)
        served.run_out()
        assert outputs(work) == calm[kv_dtype]
    assert {"swap_out", "swap_in"} <= served.news
    assert "load_failed" not in served.news
    assert [switch.error for switch in served.scheduler.kv_types.done] == [None] * 3


def test_what_a_drain_lets_run_is_said_in_the_old_type(served: Served, calm: dict[str, list[list[int]]]) -> None:
    work = served.begin(8, 12)
    running = [request.num for request in served.scheduler.running]
    served.switch("int8", "drain")
    served.run_out()
    said = outputs(work)
    kept = [num for num in running if work[num].kv_dtype == "float32"]
    assert kept
    for num in kept:
        assert said[num] == calm["float32"][num]
    assert all(work[num].kv_dtype == "int8" for num in range(8) if num not in running)


def test_content_of_the_old_type_does_not_go_unseen(
    model: LoadedModel, tmp_path: Path, calm: dict[str, list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: the switch forgets nothing of what the cache can be asked for."""
    monkeypatch.setattr(Scheduler, "reset_prefix_cache", lambda self: 0)
    monkeypatch.setattr(Tiers, "reopen", lambda self, mover: setattr(self, "mover", mover))
    engine = Served(model, tmp_path / "kv")
    engine.begin(8, 0)
    engine.run_out()
    engine.switch("int8", "drain")
    engine.run_out()
    work = engine.begin(8, 0)
    try:
        engine.run_out()
        assert outputs(work) != calm["int8"] or "load_failed" in engine.news
    finally:
        engine.tiers.close()


def test_memory_that_cannot_be_had_leaves_the_old_type(
    served: Served, calm: dict[str, list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    anew = KVCache.anew

    def no_room(self: KVCache, dtype: KVDtype) -> KVCache:
        if dtype.name == "int8":
            raise KVCacheError("a KV pool of 24 blocks needs more than there is")
        return anew(self, dtype)

    monkeypatch.setattr(KVCache, "anew", no_room)
    work = served.begin(8, 12)
    served.switch("int8", "preempt")
    served.run_out()
    (switch,) = served.scheduler.kv_types.done
    assert switch.error == "a KV pool of 24 blocks needs more than there is"
    assert served.scheduler.policies.kv_dtype == "float32"
    assert outputs(work) == calm["float32"]


def test_a_disk_tier_that_cannot_be_opened_again_leaves_the_old_type(
    served: Served, calm: dict[str, list[list[int]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody puts another file in its place, and takes it away for the way back."""
    work = served.begin(8, 12)
    close = Tiers.close

    def close_and_obstruct(self: Tiers) -> None:
        close(self)
        (tmp_path / "kv").write_text("somebody's diary")
        monkeypatch.setattr(KVCache, "anew", clears_up)

    anew = KVCache.anew

    def clears_up(self: KVCache, dtype: KVDtype) -> KVCache:
        if dtype.name == "float32":
            (tmp_path / "kv").unlink()
        return anew(self, dtype)

    monkeypatch.setattr(Tiers, "close", close_and_obstruct)
    served.switch("int8", "preempt")
    served.run_out()
    monkeypatch.setattr(Tiers, "close", close)
    (switch,) = served.scheduler.kv_types.done
    assert switch.error is not None
    assert "a file that holds something else is there" in switch.error
    assert outputs(work) == calm["float32"]
    assert served.scheduler.kv_types.in_force == "float32"


def test_tiers_that_cannot_be_had_in_either_type_are_shut_until_another_switch(
    served: Served, calm: dict[str, list[list[int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([True, True])

    def none_twice(*args: int) -> HostStore:
        if next(refusals, False):
            raise StoreError("no host memory, as planned")
        return HostStore(*args)

    monkeypatch.setattr("engine.tiers.opening.HostStore", none_twice)
    work = served.begin(8, 12)
    served.switch("int8", "preempt")
    served.run_out()
    (switch,) = served.scheduler.kv_types.done
    assert switch.error is not None
    assert "the tiers below are shut" in switch.error
    assert served.scheduler.kv_types.in_force == served.scheduler.policies.kv_dtype == "float32"
    assert outputs(work) == calm["float32"]
    assert "tier_drop" in served.news, "nothing was to be stored below, so nothing was shown"
    before = served.tiers.levels[1].blocks_in
    served.switch("int8", "drain")
    served.run_out()
    work = served.begin(8, 0)
    served.run_out()
    assert outputs(work) == calm["int8"]
    assert served.tiers.levels[1].blocks_in > before


def test_the_old_memory_is_given_up_before_the_new_is_made(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays: list[weakref.ref[np.ndarray[Any, Any]]] = []
    zeros: Callable[..., torch.Tensor] = torch.zeros

    def watched(shape: Any, **more: Any) -> torch.Tensor:
        gc.collect()
        assert more["dtype"] is torch.uint8 or not any(array() is not None for array in arrays), "two caches at a time"
        if len(shape) != 6 or more["dtype"] is not torch.float32:
            return zeros(shape, **more)
        array = np.zeros(shape, np.float32)
        arrays.append(weakref.ref(array))
        return torch.from_numpy(array)

    monkeypatch.setattr("engine.model.kv_cache.torch.zeros", watched)
    assert served.engine.storage is not None
    served.engine.storage.switch("float32")
    assert [array() is not None for array in arrays] == [True]
    served.engine.storage.switch("int8")
    assert [array() is not None for array in arrays] == [False]


def test_viewers_and_newcomers_hear_of_the_new_type() -> None:
    folder = Path(tempfile.mkdtemp(prefix="kvs"))
    config = EngineConfig(name="t", model="random", blocks=24, block_size=8, device="cpu", host_blocks=8)
    server = build(config, lambda *_: None, lambda _: None, folder=folder)
    server.publisher.start()
    feed = Feed(SocketSource(server.publisher.places[0]))
    state = feed.live
    feed.source.start()
    try:
        server.submit([5] * 12, 6)
        changes: dict[str, PolicyValue] = {"kv_dtype": "int8"}
        until(server, feed, lambda: bool(state.hello))
        server.engine.scheduler.set_policies(changes, "drain", server.engine.clock())
        until(server, feed, lambda: state.hello is not None and state.hello.geometry.cache_dtype == "int8")
        expected = kv_bytes_per_token(2, 2, 16, KV_DTYPES["int8"])
        assert state.hello is not None
        assert state.hello.geometry.bytes_per_token == expected
        (event,) = [entry for entry in state.events if getattr(entry, "kind", "") == "kv_switch"]
        announced = " ".join(server.engine.scheduler.preview({"kv_dtype": "float32"}, "drain"))
        assert "MiB in all" in announced
        assert f"{expected} -> {kv_bytes_per_token(2, 2, 16, KV_DTYPES['float32'])} bytes a token" in announced
        assert f"KV float32 -> int8, {kv_bytes_per_token(2, 2, 16, KV_DTYPES['float32'])} -> {expected}" in str(event)
        assert ControlClient(server.publisher.places[1]).hello().geometry.bytes_per_token == expected
        late = EngineState()
        late.apply(server.publisher.hello, 0.0)
        late.apply(server.telemetry.keyframe(), 0.0)
        assert late.hello is not None
        assert late.hello.geometry.cache_dtype == "int8"
        server.submit([6] * 12, 2)
        until(server, feed, lambda: len(state.requests or {}) == 2)
        assert [row.cache_dtype for row in (state.requests or {}).values()] == ["float32", "int8"]
    finally:
        feed.source.close()
        server.publisher.stop()
        server.close()
        shutil.rmtree(folder)


def until(server: Server, feed: Feed, condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        server.run(0.01)
        feed.drain(time.monotonic())
        if condition():
            return
    raise AssertionError("waited in vain")
