"""What a viewer is told about tiers: slots behind the device's blocks, levels, traffic, states, events."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.__main__ import config_from, parser
from engine.build import BuildError, build
from engine.config import EngineConfig
from engine.serving.server import Server
from engine.tiers.scratch import ScratchFile
from kvtop.cli import build_parser
from kvtop.commands.demo import engine_arguments, preset_arguments
from kvtop.protocol import IterationFrame, Keyframe, TierLevel

DEVICE, HOST, DISK = 16, 10, 40


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("KVTOP_CACHE_DIR", str(tmp_path))
    config = EngineConfig(
        model="random",
        name="t",
        blocks=DEVICE,
        block_size=8,
        device="cpu",
        host_blocks=HOST,
        disk_blocks=DISK,
        policies={"preempt_action": "swap", "offload": "on_evict", "max_running": 6},
    )
    made = build(config, lambda *_: None, lambda _: None, folder=tmp_path)
    yield made
    made.close()


def drive(server: Server) -> list[IterationFrame]:
    """Serves a dozen requests that together need more than the device has; every frame as a viewer reads it."""
    draw = random.Random(1)
    kinds = [[draw.randrange(100) for _ in range(24)] for _ in range(3)]
    for num in range(18):
        server.submit(kinds[num % 3] + [draw.randrange(100) for _ in range(draw.randint(3, 20))], 24)
    server.take_up()
    frames: list[IterationFrame] = []
    for _ in range(5000):
        if not server.engine.scheduler.requests:
            return frames
        step = server.engine.step()
        if step is not None or server.telemetry.has_news:
            frames.append(IterationFrame.model_validate(server.telemetry.frame(step).model_dump()))
    raise AssertionError("requests are left that never end")


def test_frames_add_up_to_what_the_tiers_hold(server: Server) -> None:
    blocks: dict[int, tuple[int, ...]] = {}

    def fold(runs: list[tuple[int, int, int, int, int, int, int, int]] | None) -> None:
        for start, count, *facts in runs or []:
            for block in range(start, start + count):
                blocks[block] = tuple(facts)

    fold(server.telemetry.keyframe().blocks)
    assert len(blocks) == DEVICE + HOST + DISK
    assert [blocks[b][4] for b in (0, DEVICE - 1, DEVICE, DEVICE + HOST - 1, DEVICE + HOST)] == [0, 0, 1, 1, 2]
    frames = drive(server)
    for frame in frames:
        fold(frame.blocks)
    key = Keyframe.model_validate(server.telemetry.keyframe().model_dump())
    folded = dict(blocks)
    fold(key.blocks)
    assert folded == blocks
    assert any(block >= DEVICE for block, _ in key.hashes)

    levels = {level.tier: level for level in key.tiers}
    assert list(levels) == ["device", "host", "disk"]
    for level, total in zip(levels.values(), (DEVICE, HOST, DISK), strict=True):
        assert level.blocks_total == total
    assert parts(levels["host"]) == HOST
    assert parts(levels["disk"]) == DISK
    moved: dict[tuple[str, str], int] = {}
    for frame in frames:
        for traffic in frame.traffic:
            moved[traffic.source, traffic.target] = moved.get((traffic.source, traffic.target), 0) + traffic.bytes
    assert key.counters.host_offload_bytes == moved["device", "host"] > 0
    assert key.counters.disk_offload_bytes == moved["host", "disk"]
    assert levels["host"].bytes_in == moved["device", "host"]
    assert levels["disk"].bytes_in == moved["host", "disk"]

    states = {(change.state, change.tier) for frame in frames for change in frame.requests}
    assert ("swapped", "host") in states
    assert any(state == "loading" for state, _ in states)
    kinds = {event.kind for frame in frames for event in frame.events}
    assert {"swap_out", "swap_in"} <= kinds


def parts(level: TierLevel) -> int:
    known = [level.blocks_free, level.blocks_cached, level.blocks_held, level.blocks_transfer]
    return sum(count for count in known if count is not None)


def test_the_hello_lists_all_tiers(server: Server) -> None:
    hello = server.publisher.hello
    assert [(pool.tier, pool.blocks) for pool in hello.geometry.pools] == [
        ("device", DEVICE),
        ("host", HOST),
        ("disk", DISK),
    ]
    assert "tiers" in hello.capabilities


def test_a_file_that_is_not_ours_is_refused_in_a_sentence(tmp_path: Path) -> None:
    letter = tmp_path / "letter"
    letter.write_text("not a cache")
    config = EngineConfig(model="random", name="t", blocks=16, device="cpu", disk_blocks=4, disk_path=str(letter))
    with pytest.raises(BuildError, match=r"letter: a file that holds something else is there, and it stays as it is"):
        build(config, lambda *_: None, lambda _: None, folder=tmp_path)
    assert letter.read_text() == "not a cache"


def test_the_file_lies_in_the_cache_folder_and_those_of_killed_engines_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTOP_CACHE_DIR", str(tmp_path / "cache"))
    folder, sockets = tmp_path / "cache" / "kv", tmp_path / "sockets"
    folder.mkdir(parents=True)
    killed = ScratchFile(folder / "old.kv", 1 << 20)
    os.close(killed.fd)  # The lock goes with the process.
    (folder / "letter.kv").write_bytes(bytes(5000))
    said: list[str] = []
    config = EngineConfig(model="random", name="t", blocks=16, device="cpu", disk_blocks=4)
    made = build(config, lambda *_: None, said.append, folder=sockets)
    try:
        assert [line for line in said if not line.startswith("memory: ")] == [
            f"removed {folder / 'old.kv'}, 1.0 MiB: the engine that made it was killed"
        ]
        (own,) = folder.glob("t-*.kv")
        assert not sockets.exists()
    finally:
        made.close()
    assert [path.name for path in folder.iterdir()] == ["letter.kv"]
    assert not own.exists()


def test_a_cache_folder_that_cannot_be_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVTOP_CACHE_DIR", str(tmp_path / "file"))
    config = EngineConfig(model="random", name="t", blocks=16, device="cpu", disk_blocks=4)
    with pytest.raises(BuildError, match=r"disk tier: no folder can be made at .*file/kv: Not a directory") as error:
        build(config, lambda *_: None, lambda _: None, folder=tmp_path)
    assert "--disk-path" in error.value.hint


def test_the_demo_hands_its_tiers_to_the_engine_and_what_is_given_goes_before_the_preset() -> None:
    options = build_parser().parse_args(
        ["demo", "--preset", "tiers", "--disk-blocks", "7", "--set", "preempt_action=swap_disk"]
    )
    config = config_from(parser().parse_args(engine_arguments(options)))
    assert config.host_blocks > 0
    assert config.disk_blocks == 7
    assert config.policies["preempt_action"] == "swap_disk"
    assert config.policies["offload"] == "on_evict"
    plain = config_from(parser().parse_args(engine_arguments(build_parser().parse_args(["demo"]))))
    assert (plain.host_blocks, plain.disk_blocks, plain.policies) == (0, 0, {})


def test_the_preset_of_sharing_brings_its_workload_which_can_be_had_without_it_and_left_out() -> None:
    def asked(*words: str) -> EngineConfig:
        return config_from(parser().parse_args(engine_arguments(build_parser().parse_args(["demo", *words]))))

    preset = asked("--preset", "sharing")
    assert (preset.workload, preset.policies["eviction"]) == ("sharing", "priority")
    assert asked("--preset", "sharing", "--workload", "none").workload == "none"
    assert (asked("--workload", "sharing").workload, asked("--workload", "sharing").policies) == ("sharing", {})
    assert asked("--preset", "tiers").workload == asked().workload == "mix"
    assert config_from(parser().parse_args(preset_arguments("sharing"))) == replace(
        preset, model="smollm2", name="engine"
    )
