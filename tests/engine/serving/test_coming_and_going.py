"""Viewers that come and go while commands and faults fall on a serving engine at random: what each sees adds up."""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.build import build
from engine.config import EngineConfig
from engine.memory import column_copy
from engine.requests.batch import BatchItem, BlockCopy, StepOutput
from engine.scheduling import audit
from engine.serving import broadcast, keyframes
from engine.serving import server as serving
from engine.serving.server import Server
from kvtop.app.feed import Feed
from kvtop.protocol import (
    Abort,
    Compact,
    Pause,
    Pin,
    Preempt,
    RequestKeyframe,
    ResetPrefixCache,
    Resume,
    SetPolicy,
    Unpin,
)
from kvtop.sources.control import ControlClient
from kvtop.sources.socket import SocketSource
from kvtop.state.ledger import check

SECONDS = 20.0

POLICIES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("capacity", ("max_utilization", "guaranteed_no_evict", "static_batch")),
    ("preempt_action", ("swap", "swap_disk", "recompute")),
    ("eviction", ("lru", "lfu", "priority", "slru", "leaf_first")),
    ("kv_dtype", ("float32", "int8")),
    ("max_running", (2, 6, 12)),
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """With all there is below and beside it, and pieces so small that everything takes many turns."""
    for module, name, value in (
        (column_copy, "PIECE", 16),
        (keyframes, "REQUESTS_AT_ONCE", 1),
        (audit, "PIECE", 32),
        (broadcast, "GATHER_S", 0.0),
        (broadcast, "GATHER_IDLE_S", 0.0),
        (serving, "AUDIT_S", 0.0),
    ):
        monkeypatch.setattr(module, name, value)
    policies = {"offload": "on_evict", "prefetch": "queue_head", "partial_reuse": "copy", "compaction": "continuous"}
    config = EngineConfig(
        model="random",
        name="soak",
        blocks=120,
        block_size=4,
        device="cpu",
        host_blocks=40,
        disk_blocks=60,
        disk_path=str(tmp_path / "tier.kv"),
        workload="sharing",
        rate=20.0,
        seed=3,
        ledger_every=1,
        expose_text=True,
        policies={"preempt_action": "swap", "max_running": 12, **policies},
    )
    made = build(config, lambda *_: None, lambda _: None, folder=tmp_path)
    made.publisher.start()
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join()
    made.publisher.stop()
    made.close()


def fail_now_and_then(server: Server, draw: random.Random) -> None:
    """Rows, batches and copies."""
    runner = server.engine.runner
    run = runner.run

    def faulty(items: Sequence[BatchItem], copies: Sequence[BlockCopy] = ()) -> StepOutput:
        if draw.random() < 0.02:
            raise RuntimeError("planted")
        output = run(items, copies)
        if items and draw.random() < 0.02:
            return replace(output, failures={draw.choice(items).request.num: "planted"})
        return output

    runner.run = faulty  # type: ignore[method-assign]


def command_at_random(server: Server, until: float, draw: random.Random) -> int:
    """Returns how many were done."""
    client, done = ControlClient(server.publisher.places[1]), 0
    while time.monotonic() < until:
        num = next(iter(list(server.engine.scheduler.requests)), 0)
        axis, values = draw.choice(POLICIES)
        transition: Any = draw.choice(("drain", "preempt"))
        command = draw.choice((
            Abort(id="a", request=num), Preempt(id="b", request=num), Pin(id="c", request=num), Unpin(id="d", request=num),
            Pause(id="e"), Resume(id="f"), Resume(id="g"), Resume(id="h"), ResetPrefixCache(id="i"), Compact(id="j"),
            RequestKeyframe(id="k"), *[SetPolicy(id="l", changes={axis: draw.choice(values)}, transition=transition)] * 3,
        ))  # fmt: skip
        done += client.send(command, 60.0).ok
        time.sleep(0.1 * draw.random())
    return done


def watch_at_random(server: Server, until: float, draw: random.Random, wrong: list[str], seen: list[int]) -> None:
    while time.monotonic() < until and not wrong:
        source = SocketSource(server.publisher.places[0], fps=draw.choice((None, 5.0, 40.0)))
        feed = Feed(source)
        source.start()
        leave = time.monotonic() + draw.random() * draw.choice((0.2, 1.5, 4.0))
        while time.monotonic() < min(until, leave) and not wrong:
            if feed.drain(time.monotonic()) and feed.live.mono is not None:
                seen.append(feed.live.iteration or 0)
                wrong += check(feed.live)
                wrong += [feed.live.bad_note or "?"] if feed.live.bad_facts else []
            time.sleep(0.01)
        source.close()


@pytest.mark.slow
def test_what_viewers_see_adds_up_whoever_comes_whatever_fails_and_whatever_is_commanded(server: Server) -> None:
    draw = random.Random(1)
    fail_now_and_then(server, draw)
    until, wrong, seen = time.monotonic() + SECONDS, list[str](), list[int]()
    watchers = [
        threading.Thread(target=watch_at_random, args=(server, until, random.Random(number), wrong, seen))
        for number in range(2)
    ]
    for watcher in watchers:
        watcher.start()
    done = command_at_random(server, until, random.Random(9))
    for watcher in watchers:
        watcher.join()
    assert not wrong
    assert done
    assert len(set(seen)) > 10
    assert server.telemetry.ledger_checks
    assert not server.telemetry.ledger_violations
    assert server.engine.scheduler.totals.errored
