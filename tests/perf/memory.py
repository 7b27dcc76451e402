"""What managing memory costs, apart from the model: ``python -m tests.perf.memory [--sizes N,N,N] [--step N]``.

Pool, block tables, prefix index, books of a lower tier and ledger at growing sizes of the pool. Before anything is timed every block has
been written, hashed and released in random order, so that lists and arrays are as scattered as after hours of serving:
seven in ten blocks are cached and three free. Times are CPU time of this thread, the least of several rounds, a call.
Operations on one block must not grow with the pool but for cache misses of the processor; what looks at every block
(ledger check, keyframe) must. Compare the ratios; the times depend on the machine.

``--step`` adds the share of an engine's iteration that all of it takes: 16 requests in decode with the real model
where it is on this machine already, else with random weights.
"""

import argparse
import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from engine.core import Engine, Step
from engine.memory.pool import BlockPool
from engine.policies.policy_set import PolicySet
from engine.requests.batch import StepOutput
from engine.requests.request import Request
from engine.scheduling.scheduler import Scheduler
from engine.tiers.books import TierBooks

SIZES = (10_000, 100_000, 1_000_000)
BLOCK = 16
ROUNDS = 5
BATCH = 500
"""Blocks an operation is timed on in one round."""

STREAMS, CONTEXT = 16, 1_024
"""Requests in decode in the timed iteration, and the tokens each of them has."""

CHANGED = 64
NOBODY_YET = 10**6
CACHED_SHARE = 0.7


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this thread."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


class Pool:
    """A pool in the state described above, and its operations on `BATCH` blocks."""

    def __init__(self, blocks: int, seed: int = 5) -> None:
        self.random = random.Random(seed)
        self.pool = BlockPool(blocks, BLOCK)
        self.hashes = [self.random.getrandbits(64) | 1 for _ in range(int(CACHED_SHARE * blocks))]
        pool, now = self.pool, 0.0
        taken = [pool.take(0, now) for _ in range(blocks)]
        for place, block in enumerate(taken):
            pool.write(block, BLOCK, now)
            if place < len(self.hashes):
                pool.seal(block, self.hashes[place])
        self.random.shuffle(taken)
        for block in taken:
            pool.release(block, 0, now)
        pool.changes.take()

    def round(self) -> dict[str, float]:
        """CPU seconds a call of each operation; the pool is as before afterwards, but for what was evicted."""
        pool, draw = self.pool, self.random
        found: dict[str, float] = {}
        taken: list[int] = []
        fresh = [draw.getrandbits(64) | 1 for _ in range(BATCH)]
        # Cached blocks are taken only when none is free: hold the free ones back, so that taking means evicting.
        free = [pool.take(NOBODY_YET, 1.0) for _ in range(pool.free_blocks - BATCH)]

        def take() -> None:
            for _ in range(BATCH):
                taken.append(pool.take(1, 1.0))

        def write() -> None:
            for block in taken:
                pool.write(block, BLOCK, 1.0)

        def seal() -> None:
            for block, value in zip(taken, fresh, strict=True):
                pool.seal(block, value)

        def share() -> None:
            for block in taken:
                pool.share(block, 2, 1.0)

        def release_shared() -> None:
            for block in taken:
                pool.release(block, 2, 1.0)

        def release() -> None:
            for block in reversed(taken):
                pool.release(block, 1, 1.0)

        def lookup(values: Sequence[int]) -> Callable[[], object]:
            return lambda: [pool.lookup(value) for value in values]

        for name, work in (
            ("take a free block", take),
            ("write", write),
            ("seal (hash into the index)", seal),
            ("share", share),
            ("release, others hold it", release_shared),
            ("release, it becomes cached", release),
        ):
            found[name] = cpu(work) / BATCH
        taken.clear()
        found["take, evicting a cached one"] = cpu(take) / BATCH
        for block in taken:
            pool.write(block, BLOCK, 1.0)
            pool.seal(block, draw.getrandbits(64) | 1)
            pool.release(block, 1, 1.0)
        for block in free:
            pool.release(block, NOBODY_YET, 1.0)
        known = [value for value in draw.sample(self.hashes, BATCH) if pool.lookup(value) is not None]
        found["lookup, found"] = cpu(lookup(known)) / max(1, len(known))
        found["lookup, not found"] = cpu(lookup(fresh)) / BATCH
        found |= self._changes()
        return found

    def _changes(self) -> dict[str, float]:
        """The frame of an iteration that changed `CHANGED` blocks in random places."""
        pool = self.pool
        spent = 0.0
        for _ in range(20):
            pool.changes.take()
            cached = [block for value in self.random.sample(self.hashes, CHANGED) if (block := pool.lookup(value))]
            for block in dict.fromkeys(cached):
                pool.share(block, 3, 1.0)
            spent += cpu(pool.changes.take)
            for block in dict.fromkeys(cached):
                pool.release(block, 3, 1.0)
        return {f"changes.take, {CHANGED} blocks": spent / 20}


class Noughts:
    """A runner that takes no time: the scheduler is what is timed."""

    def run(self, items: Sequence[Any], copies: Sequence[Any] = ()) -> StepOutput:
        return StepOutput([0] * sum(item.samples for item in items))


def requests(limit: int) -> list[Request]:
    drawn = random.Random(11)
    return [
        Request(
            num=num,
            id=f"r-{num}",
            token_ids=[drawn.randrange(1000) for _ in range(CONTEXT)],
            prompt_tokens=CONTEXT,
            max_tokens=limit,
            arrival_wall=0.0,
            arrival=0.0,
        )
        for num in range(STREAMS)
    ]


def scheduling(pool: BlockPool) -> dict[str, float]:
    """Schedule and commit of a decode iteration, and the ledger check then; CPU seconds a call."""
    policies = PolicySet.of({"max_running": STREAMS, "token_budget": STREAMS * CONTEXT})
    scheduler = Scheduler(pool, policies, max_model_len=4 * CONTEXT)
    engine = Engine(scheduler, Noughts())
    for request in requests(limit=2 * CONTEXT):
        scheduler.add(request, 0.0)
    engine.step()
    assert len(scheduler.running) == STREAMS
    steps = [cpu(engine.step) for _ in range(200)]
    checks = []
    for _ in range(3):
        checks.append(cpu(lambda: _well(scheduler)))
    found = {
        f"schedule + commit, {STREAMS} running": statistics.median(steps),
        "ledger check": min(checks),
        "keyframe (all runs and hashes)": min(
            cpu(lambda: (pool.changes.all_runs(), pool.changes.all_hashes())) for _ in range(3)
        ),
    }
    for request in list(scheduler.running):
        scheduler.abort(request, 2.0)
    return found


def _well(scheduler: Scheduler) -> None:
    violations = scheduler.ledger_violations()
    assert not violations, violations


def lower_tier(slots: int) -> dict[str, float]:
    """The books of a lower tier, full of cached blocks; CPU seconds a call."""
    drawn = random.Random(7)
    books = TierBooks(1, "host", slots)
    hashes = [drawn.getrandbits(64) | 1 for _ in range(slots)]
    for value in hashes:
        books.wrote(books.take(0.0, hash_=value, fill=BLOCK), 0.0, ok=True)
    known = drawn.sample(hashes, BATCH)
    taken: list[int] = []
    books.dirty.clear()

    def take() -> None:
        for value in range(1, BATCH + 1):
            taken.append(books.take(1.0, hash_=value, fill=BLOCK))

    def wrote() -> None:
        for slot in taken:
            books.wrote(slot, 1.0, ok=True)

    def read() -> None:
        for slot in taken:
            books.start_read(slot, 1.0)
            books.end_read(slot, 1.0)

    found = {"lower tier: lookup": cpu(lambda: [books.lookup(value) for value in known])}
    found["lower tier: take, evicting"] = cpu(take)
    found["lower tier: copy in ended"] = cpu(wrote)
    found["lower tier: read"] = cpu(read)
    return {name: spent / BATCH for name, spent in found.items()}


GROWS = ("ledger check", "keyframe (all runs and hashes)")
"""What looks at every block and so must grow with the pool."""


def lower_metadata(slots: int) -> tuple[float, float]:
    """The same of the books of a lower tier, full of cached blocks."""
    gc.collect()
    tracemalloc.start()
    drawn = random.Random(7)
    books = TierBooks(1, "host", slots)
    for _ in range(slots):
        books.wrote(books.take(0.0, hash_=drawn.getrandbits(64) | 1, fill=BLOCK), 0.0, ok=True)
    books.dirty.clear()
    gc.collect()
    total, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = _arrays(books, set())
    return arrays / slots, (total - arrays) / slots


def metadata(blocks: int) -> tuple[float, float]:
    """Bytes a block: numpy arrays of pool and lists, and everything else (index, lists, Python's own numbers).

    Of a full prefix cache: every allocation that lives after building it, by tracemalloc.
    """
    gc.collect()
    tracemalloc.start()
    built = Pool(blocks)
    built.hashes.clear()
    gc.collect()
    total, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = _arrays(built.pool, set())
    return arrays / blocks, (total - arrays) / blocks


def _arrays(thing: object, seen: set[int]) -> int:
    """Bytes of all numpy arrays reachable through the attributes of ``thing``."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return thing.nbytes if thing.base is None else _arrays(thing.base, seen)
    if isinstance(thing, memoryview):
        return _arrays(thing.obj, seen)
    attributes = getattr(thing, "__dict__", None)
    return 0 if attributes is None else sum(_arrays(value, seen) for value in attributes.values())


def measure(blocks: int) -> dict[str, float]:
    pool = Pool(blocks)
    gc.collect()
    gc.disable()
    rounds = [pool.round() for _ in range(ROUNDS)]
    found = {name: min(one[name] for one in rounds) for name in rounds[0]}
    found |= scheduling(pool.pool)
    rounds = [lower_tier(blocks) for _ in range(3)]
    found |= {name: min(one[name] for one in rounds) for name in rounds[0]}
    gc.enable()
    return found


def table(sizes: Sequence[int]) -> None:
    columns = [measure(size) for size in sizes]
    print(f"{'CPU microseconds a call':<34}" + "".join(f"{size:>12,}" for size in sizes) + "   ratio to the smallest")
    for name in columns[0]:
        times = [column[name] * 1e6 for column in columns]
        ratios = "  ".join(f"{value / times[0]:6.2f}" for value in times[1:])
        grows = "  (looks at every block)" if name in GROWS else ""
        print(f"{name:<34}" + "".join(f"{value:>12.2f}" for value in times) + f"   {ratios}{grows}")
    print()
    print(f"{'metadata, bytes a block':<34}" + "".join(f"{size:>12,}" for size in sizes))
    kept = [metadata(size) for size in sizes]
    for place, name in enumerate(("arrays", "prefix index and other objects")):
        print(f"{name:<34}" + "".join(f"{one[place]:>12.1f}" for one in kept))
    print(f"{'together':<34}" + "".join(f"{sum(one):>12.1f}" for one in kept))
    lower = [sum(lower_metadata(size)) for size in sizes]
    print(f"{'of a lower tier, together':<34}" + "".join(f"{one:>12.1f}" for one in lower))


def share_of_a_step(iterations: int) -> None:
    from engine.build import build
    from engine.config import EngineConfig
    from engine.model.fetch import cached_model
    from engine.requests.stopping import StopRules

    model = "smollm2" if cached_model() is not None else "random"
    room = 512
    config = EngineConfig(model=model, name="perf", blocks=STREAMS * room // BLOCK, policies={"max_running": STREAMS})
    server = build(config, lambda *_: None, lambda _: None)
    for i in range(STREAMS):
        server.submit([(31 * i + j) % 400 for j in range(64)], room - 64, stop=StopRules(ignore_eos=True))
    server.take_up()
    steps: list[Step] = []
    books, frames = [], []
    while len(steps) < iterations:
        step = server.engine.step()
        assert step is not None
        began = time.perf_counter()
        server.telemetry.frame(step)
        framed = time.perf_counter()
        server.engine.scheduler.ledger_violations()
        if all(item.decodes for item in step.plan.items):
            steps.append(step)
            frames.append(1000.0 * (framed - began))
            books.append(1000.0 * (time.perf_counter() - framed))
    schedule = statistics.median(step.schedule_ms for step in steps)
    model_ms = statistics.median(step.forward_ms + step.sample_ms for step in steps)
    frame, ledger = statistics.median(frames), statistics.median(books) / config.ledger_every
    whole = schedule + model_ms + frame + ledger
    print(f"\nshare of an iteration, {STREAMS} requests in decode, {config.blocks} blocks, model {model}:")
    for name, ms in (
        ("model (forward and sampling)", model_ms),
        ("memory and scheduling", schedule),
        ("its frame for viewers", frame),
        (f"ledger check, every {config.ledger_every} iterations", ledger),
    ):
        print(f"{name:<34}{ms:>9.3f} ms{100 * ms / whole:>8.2f} %")


def main() -> None:
    p = argparse.ArgumentParser(description="Cost of pool, tables, prefix index and ledger, apart from the model.")
    p.add_argument("--sizes", default=",".join(map(str, SIZES)), help="pool sizes in blocks (default: %(default)s)")
    p.add_argument("--step", type=int, default=0, metavar="N", help="also time N iterations with a model")
    args = p.parse_args()
    table([int(size) for size in args.sizes.split(",")])
    if args.step:
        share_of_a_step(args.step)


if __name__ == "__main__":
    main()
