"""What watching costs the engine: tokens/s with 0, 1 and 8 viewers (one of the eight stalled), in one run.

``python -m tests.perf.overhead [--model smollm2|random] [--seconds S] [--rounds N]``

One engine decodes a steady batch of 16 requests. Phases of S seconds with 0, 1, 8, 8, 1, 0 viewers follow each other,
so that what drifts (context grows, a machine warms up) falls on all alike. Viewers are real socket peers in a process
of their own that read everything and draw nothing; a stalled one never reads. Ratios within one run are what counts:
on a busy machine tokens/s are not.
"""

import argparse
import multiprocessing
import selectors
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event as Stop
from pathlib import Path

from engine.build import build
from engine.config import EngineConfig
from engine.server import Server

ORDER = (0, 1, 8, 8, 1, 0)
STREAMS = 16
PROMPT = 32


def _watch(path: str, readers: int, stalled: int, stop: Stop) -> None:
    """Reads from ``readers`` connections until told to stop; holds ``stalled`` more open without reading."""
    chosen = selectors.DefaultSelector()
    held = []
    for i in range(readers + stalled):
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(path)
        held.append(peer)
        if i < readers:
            peer.setblocking(False)
            chosen.register(peer, selectors.EVENT_READ)
    while not stop.is_set():
        for key, _ in chosen.select(0.2):
            key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
    for peer in held:
        peer.close()


@contextmanager
def _viewers(path: Path, count: int) -> Iterator[None]:
    if not count:
        yield
        return
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    stalled = 1 if count > 1 else 0
    process = context.Process(target=_watch, args=(str(path), count - stalled, stalled, stop), daemon=True)
    process.start()
    try:
        yield
    finally:
        stop.set()
        process.join(10)


def _refill(server: Server, room: int) -> None:
    """Keeps the batch full: the work in every phase is a decode of `STREAMS` rows."""
    live = len(server.engine.scheduler.requests)
    for i in range(STREAMS - live):
        server.submit([(31 * i + j) % 400 for j in range(PROMPT)], room - PROMPT, label="perf")


def _phase(server: Server, viewers: int, seconds: float, room: int) -> tuple[float, float]:
    """Decoded tokens a second, and milliseconds an iteration spends on building its frame."""
    observe, _ = server.publisher.places
    with _viewers(observe, viewers):
        deadline = time.monotonic() + 10
        while server.publisher.viewers < viewers and time.monotonic() < deadline:
            server.run(0.05)
        _refill(server, room)
        server.run(seconds / 4)
        totals, iterations = server.engine.scheduler.totals, server.engine.iteration
        tokens, began = totals.decode_tokens, time.perf_counter()
        server.run(seconds)
        took = time.perf_counter() - began
        cost = server.telemetry.frame_ms
        done = server.engine.iteration - iterations
        return (server.engine.scheduler.totals.decode_tokens - tokens) / took, cost if done else 0.0


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="smollm2")
    p.add_argument("--seconds", type=float, default=6.0)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    room = 768 if args.model == "smollm2" else 2048
    with tempfile.TemporaryDirectory() as folder:
        config = EngineConfig(
            model=args.model,
            name="perf",
            blocks=STREAMS * room // 16,
            policies={"max_running": STREAMS, "token_budget": 512},
        )
        server = build(config, lambda *_: None, print, folder=Path(folder))
        server.publisher.start()
        rates: dict[int, list[float]] = {0: [], 1: [], 8: []}
        ratios: dict[int, list[float]] = {1: [], 8: []}
        costs: list[float] = []
        for _ in range(args.rounds):
            of_round: dict[int, list[float]] = {0: [], 1: [], 8: []}
            for viewers in ORDER:
                rate, cost = _phase(server, viewers, args.seconds, room)
                of_round[viewers].append(rate)
                rates[viewers].append(rate)
                costs.append(cost)
            for viewers in ratios:
                ratios[viewers].append(statistics.mean(of_round[viewers]) / statistics.mean(of_round[0]))
        server.publisher.stop()
    for viewers, found in rates.items():
        share = (
            ""
            if not viewers
            else f"  ratio to none {statistics.median(ratios[viewers]):.3f} (rounds {', '.join(f'{r:.3f}' for r in ratios[viewers])})"
        )
        print(
            f"{viewers} viewers{' (1 stalled)' if viewers > 1 else ''}: {statistics.median(found):8.1f} tokens/s{share}"
        )
    print(f"building a frame: {statistics.median(costs):.2f} ms an iteration")


if __name__ == "__main__":
    main()
