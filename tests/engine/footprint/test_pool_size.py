"""The pool that an engine makes of the memory there is: what it announces, what it refuses, what it can really fill."""

import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import pool_size
from engine.build import BuildError, build
from engine.config import EngineConfig
from engine.footprint.room import Room
from engine.memory.blocks import CACHED
from engine.memory.pool import BlockPool
from engine.model.load import TINY, load_model, random_model
from engine.policies.policy_set import PolicySet
from engine.pool_size import BOOKS, device_room, least_parameters, weights_bytes, workspace_bytes
from engine.serving.server import Server
from tests.engine.tiny_gguf import write

GIB = 2**30
BLOCK = 16 * 2 * 2 * 2 * 16 * 4
"""Bytes of a block of 16 tokens of the random model: layers, keys and values, KV heads, head size, float32."""


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    """A container of 2 GiB, of which this process has one half and others a quarter."""
    there = Room(2 * GIB, GIB // 2, GIB, "the container's limit")
    monkeypatch.setattr(pool_size, "host_room", lambda: there)
    return there


def built(folder: Path, **settings: Any) -> Server:
    config = EngineConfig(name="t", device="cpu", **{"model": "random", **settings})
    return build(config, lambda *_: None, lambda _: None, folder=folder)


@pytest.mark.usefixtures("room")
def test_a_fraction_of_the_memory_becomes_blocks_and_the_sum_is_announced(folder: Path) -> None:
    server = built(folder, memory_fraction=0.75)
    memory, geometry = server.publisher.hello.memory, server.publisher.hello.geometry
    server.close()
    assert memory is not None
    workspace = workspace_bytes(TINY, PolicySet(), 4)
    # A share of what is free, which is less here than what the process may take in all.
    assert geometry.pools[0].blocks == (int(0.75 * GIB / 2) - workspace) // (BLOCK + BOOKS)
    assert memory.kv_bytes == geometry.pools[0].blocks * BLOCK
    assert (memory.total_bytes, memory.others_bytes, memory.what) == (2 * GIB, GIB // 2, "the container's limit")
    assert memory.runtime_bytes is not None
    assert memory.weights_bytes is not None
    books = BOOKS * geometry.pools[0].blocks
    assert memory.runtime_bytes + memory.weights_bytes == GIB + workspace + books
    parts = memory.model_dump(exclude={"what", "total_bytes"}).values()
    assert sum(parts) == memory.total_bytes


@pytest.mark.usefixtures("room")
def test_a_size_in_gib_becomes_blocks_and_a_host_tier_is_part_of_the_sum(folder: Path) -> None:
    server = built(folder, kv_gib=0.125, host_blocks=100)
    memory = server.publisher.hello.memory
    server.close()
    assert memory is not None
    assert memory.kv_bytes == GIB // 8
    assert memory.host_tier_bytes == 100 * BLOCK
    books = BOOKS * (GIB // 8 // BLOCK + 100)
    assert memory.headroom_bytes == GIB // 2 - GIB // 8 - 100 * BLOCK - workspace_bytes(TINY, PolicySet(), 4) - books


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize(
    "settings",
    [
        {"kv_gib": 0.35, "block_size": 1},
        {"kv_gib": 3.0},
        {"blocks": 3 * GIB // BLOCK},
        {"memory_fraction": 0.01},
        {"kv_gib": 0.1, "host_blocks": 60_000},
    ],
)
def test_what_does_not_fit_is_refused_with_the_sum(folder: Path, settings: dict[str, Any]) -> None:
    with pytest.raises(
        BuildError, match=r"needs [\d.]+ GiB: weights .* \+ runtime .* \+ KV .*, of .* GiB of the container's limit"
    ):
        built(folder, **settings)


def test_a_fraction_of_what_nobody_knows_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_size, "host_room", lambda: None)
    with pytest.raises(BuildError, match="nothing here says how much memory cpu has"):
        built(folder, memory_fraction=0.5)
    server = built(folder)
    server.close()
    assert server.publisher.hello.memory is None


@pytest.mark.usefixtures("room")
def test_a_switch_to_a_type_that_memory_has_no_room_for_is_refused_and_another_is_told(folder: Path) -> None:
    server = built(folder, kv_gib=0.3, kv_dtype="float16")
    scheduler = server.engine.scheduler
    try:
        with pytest.raises(
            ValueError, match="kv_dtype cannot be float32: its blocks need 512 bytes a token, and memory has room for"
        ):
            scheduler.set_policies({"kv_dtype": "float32"}, "drain", 0.0)
        before = server.publisher.hello.memory
        scheduler.set_policies({"kv_dtype": "fp8_e4m3"}, "drain", 0.0)
        for _ in range(1000):
            if server.publisher.hello.geometry.cache_dtype == "fp8_e4m3":
                break
            server.run(0.01)
        after = server.publisher.hello.memory
        assert before is not None
        assert after is not None
        assert after.kv_bytes == (before.kv_bytes or 0) // 2
        assert after.headroom_bytes == (before.headroom_bytes or 0) + (before.kv_bytes or 0) // 2
    finally:
        server.close()


def test_on_a_gpu_what_torch_keeps_for_itself_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which others cannot have, and the pool can."""
    for name, value in {
        "mem_get_info": (10 * GIB, 80 * GIB),
        "memory_allocated": 3 * GIB,
        "memory_reserved": 5 * GIB,
        "get_device_name": "a GPU",
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda _device, value=value: value)
    assert device_room(torch.device("cuda")) == Room(80 * GIB, 12 * GIB, 3 * GIB, "a GPU")
    assert device_room(torch.device("mps")) is None


def test_a_model_that_memory_has_no_room_for_is_refused_before_it_is_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "model.gguf")
    model = load_model(path)
    least = least_parameters(model.config) * 4
    assert 0.95 * weights_bytes(model.decoder.weights) < least <= weights_bytes(model.decoder.weights)
    monkeypatch.setattr(pool_size, "host_room", lambda: Room(GIB, least - 1, GIB // 2, "the container's limit"))
    monkeypatch.setattr("engine.model.load.assemble", lambda *_: pytest.fail("weights were read"))
    with pytest.raises(
        BuildError, match=r"model\.gguf needs 0\.5 GiB: weights <0\.001 \+ runtime 0\.5, of the 1\.0 GiB of the"
    ):
        built(folder, model=str(path))


def test_what_is_kept_about_a_block_is_no_more_than_the_sum_has() -> None:
    """Of a pool whose blocks all have a name, and of which a keyframe is made."""
    blocks = 20_000
    tracemalloc.start()
    try:
        pool = BlockPool(blocks, 1)
        pool.changes.prepare_copy()
        for block in [pool.take(1, 0.0) for _ in range(blocks)]:
            pool.write(block, 1, 0.0)
            pool.seal(block, (block + 1) * 0x9E3779B97F4A7C15 % 2**64)
            pool.release(block, 1, 1.0)
        pool.changes.take()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pool.counts[CACHED] == blocks
    assert BOOKS / 2 < kept / blocks <= BOOKS


def test_weights_count_once_and_by_their_type() -> None:
    model = random_model(dtype=torch.bfloat16)
    assert weights_bytes(model.decoder.weights) == 2 * model.decoder.parameters
    model.decoder.weights.head = model.decoder.weights.embedding
    assert weights_bytes(model.decoder.weights) == 2 * model.decoder.parameters


LIMITED = """
    import resource, sys, threading
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
    from engine.build import BuildError, build
    from engine.config import EngineConfig
    asked = {sys.argv[2]: float(sys.argv[3])}
    try:
        server = build(EngineConfig(name="t", model="random", device="cpu", **asked), print, print)
    except BuildError as error:
        sys.exit(f"refused: {error}")
    for part in server.engine.runner.cache.parts:
        part.fill_(1)  # all of it is used some day
    handle = server.submit(range(200), 8)
    thread = threading.Thread(target=server.run)
    thread.start()
    print("blocks", server.engine.scheduler.pool.total, "said", len(handle.result()[0].token_ids))
    server.stop()
    thread.join()
    server.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v bounds nothing elsewhere")
@pytest.mark.parametrize(("option", "value"), [("memory_fraction", 0.9), ("kv_gib", 16.0)])
def test_an_engine_under_a_small_ulimit_takes_what_there_is(tmp_path: Path, option: str, value: float) -> None:
    limit = 3 * GIB
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), str(limit), option, str(value)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"OMP_NUM_THREADS": "1", "PYTHONPATH": ":".join(sys.path), "KVTOP_SOCKET_DIR": str(tmp_path)},
    )
    if option == "kv_gib":
        assert done.returncode == 1
        assert "of the 3.0 GiB of the address space that ulimit -v allows" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "the address space that ulimit -v allows" in done.stdout
    blocks = int(done.stdout.split("blocks ")[1].split()[0])
    assert limit // 3 < blocks * BLOCK < limit
    assert done.stdout.endswith("said 8\n")
