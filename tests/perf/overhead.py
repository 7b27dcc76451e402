"""What watching costs the engine: tokens/s with 0, 1 and 8 viewers (one of the eight stalled), in one run.

``python -m tests.perf.overhead [--model smollm2|random] [--seconds S] [--rounds N]``

One engine decodes a batch of 16 requests, begun afresh in each phase. Phases of S seconds with 0, 1, 8, 8, 1, 0 viewers
follow each other, so that what drifts (a machine warms up, others come and go) falls on all alike. Viewers are real socket peers in a process
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
from engine.requests.stopping import StopRules
from engine.serving.server import Server

ORDER = (0, 1, 8, 8, 1, 0)
STREAMS = 16
PROMPT = 32
ROOM = 2048
"""Tokens a request may reach; a phase ends long before."""


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


def _start_afresh(server: Server) -> None:
    """The same batch from the beginning, so that every phase does the same work: `STREAMS` rows, contexts alike."""
    scheduler = server.engine.scheduler
    for request in list(scheduler.requests.values()):
        scheduler.abort(request, server.engine.clock())
    for i in range(STREAMS):
        server.submit(
            [(31 * i + j) % 400 for j in range(PROMPT)], ROOM - PROMPT, label="perf", stop=StopRules(ignore_eos=True)
        )
    server.take_up()
    while any(request.first_token is None for request in scheduler.requests.values()):
        server.run(0.05)


def _phase(server: Server, viewers: int, seconds: float) -> tuple[float, float]:
    """Decoded tokens a second, and milliseconds an iteration spends on building its frame."""
    observe, _ = server.publisher.places
    with _viewers(observe, viewers):
        deadline = time.monotonic() + 10
        while server.publisher.viewers < viewers and time.monotonic() < deadline:
            server.run(0.05)
        _start_afresh(server)
        totals = server.engine.scheduler.totals
        tokens, began = totals.decode_tokens, time.perf_counter()
        server.run(seconds)
        took = time.perf_counter() - began
        assert len(server.engine.scheduler.requests) == STREAMS, "requests ended: give fewer --seconds"
        return (totals.decode_tokens - tokens) / took, server.telemetry.frame_ms


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="smollm2")
    p.add_argument("--seconds", type=float, default=6.0)
    p.add_argument("--rounds", type=int, default=3)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = EngineConfig(
            model=args.model,
            name="perf",
            blocks=STREAMS * ROOM // 16,
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
                rate, cost = _phase(server, viewers, args.seconds)
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
