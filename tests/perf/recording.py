"""What recording costs: ``python -m tests.perf.recording [--blocks N] [--running N] [--seconds S]``.

A real scheduler, pool and telemetry with a runner that does nothing, 20 iterations a second by a clock set by hand; requests of
1,000 prompt and 500 output tokens come as others end, so that cached blocks are evicted all the time. CPU time of all threads,
in shares of a step of 50 ms:

With 64 of them running, some 64 blocks change in an iteration: what the map is measured with (``--running 256``: four times that).

- *nobody watches*: the flight recorder of an engine without viewers: frames now and then, encoding, compression,
  keyframes (bound 1 %); *at most*: what the engine's own thread gives for one iteration, but for one in a thousand (bound 4 %,
  2 ms);
- *watched*: what the flight recorder adds where frames are made for viewers anyway (bound 1 %);
- *file*: size of what ``kvtop record`` writes in an hour (bound 120 MB), and what it costs the recorder;
- *seek*: to the state at any moment of an hour's file (bound 0.2 s for the median; the worst, just before a keyframe, is
  told), and opening it. The hour is what was recorded, again and again, each time as another run of the engine.

Ends with 1 where a bound is passed.
"""

import argparse
import gc
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from engine.core import Engine
from engine.serving.broadcast import Broadcast
from engine.serving.garbage import settle
from kvtop.protocol import (
    EngineIdentity,
    Event,
    Geometry,
    Hello,
    IterationFrame,
    Keyframe,
    ModelFacts,
    PoolFacts,
    encode,
)
from kvtop.publish import EncodedKeyframe, FlightLimits, FlightRecorder
from kvtop.publish.cursor import Cursor
from kvtop.publish.merged_lines import MergedLines
from kvtop.publish.ring import Ring
from kvtop.publish.schedule import KeyframeSchedule
from kvtop.record import FileSink, Place, Recording, Writer
from kvtop.record.chunk import pack
from kvtop.sources.recorder import ENTRY_BYTES, ENTRY_MOST_S
from kvtop.state.moment import moment
from tests.engine.fake_model import Clock, make_engine, request

BLOCK, STEP_S = 16, 0.05
PROMPT, OUTPUT = 1000, 500
BOUNDS = {"nobody watches": 1.0, "at most": 4.0, "watched": 1.0, "MB an hour": 120.0, "seek": 0.2}


class Desk:
    """The publisher without its sockets: frames go into the ring, whoever wants them takes them from there."""

    def __init__(self, clock: Clock) -> None:
        self.ring, self.watched, self.recorded = Ring(512), False, True
        self.schedule = KeyframeSchedule(float("inf"), threading.Event(), clock)

    def keyframe_due(self) -> bool:
        return self.schedule.due()

    def publish(self, frame: IterationFrame) -> None:
        self.ring.append(frame, None if self.watched else 32)

    def pass_over(self, seq: int, events: list[Event]) -> None:
        self.ring.pass_over(seq, events)

    def keyframe_coming(self, seq: int) -> None:
        self.ring.await_keyframe(seq)

    def publish_keyframe(self, keyframe: Keyframe | EncodedKeyframe) -> None:
        self.schedule.done()
        self.ring.hold(keyframe)


class Load:
    """An engine whose requests come as others end."""

    def __init__(self, blocks: int, running: int) -> None:
        self.engine: Engine
        self.engine, self.telemetry = make_engine(
            blocks=blocks, block_size=BLOCK, max_running=running, token_budget=8192, watermark=0.0
        )
        clock = self.engine.clock
        assert isinstance(clock, Clock)
        self.clock, self._chance, self._num, self._running = clock, random.Random(1), 0, running

    def turn(self):  # type: ignore[no-untyped-def]
        self.clock.now += STEP_S
        scheduler = self.engine.scheduler
        for _ in range(min(2, self._running - len(scheduler.requests))):
            prompt = [self._chance.randrange(1000) for _ in range(PROMPT)]
            scheduler.add(request(self._num, prompt, self._chance.randrange(1, 2 * OUTPUT)), self.clock())
            self._num += 1
        return self.engine.step()


def cpu_ms(work: Callable[[], object]) -> float:
    """Milliseconds of CPU time of all threads."""
    began = time.process_time()
    work()
    return 1000.0 * (time.process_time() - began)


def encoded() -> None:
    """Keyframes in the making are through."""
    for thread in threading.enumerate():
        if thread.name == "kvtop-keyframe":
            thread.join()


def hour_of(path: Path, target: Path, seconds: float) -> int:
    """What is in ``path`` until it is an hour, each time as another run. How often that is."""
    tape = Recording(path)
    times = max(1, round(3600 / seconds))
    with target.open("wb") as out:
        for number in range(times):
            for chunk in tape.chunks:
                run = f"run-{number}"
                lines = b"\n".join(tape.read(chunk)).replace(b'"run":"run"', f'"run":"{run}"'.encode()) + b"\n"
                digest, base = tape.read_digest(chunk), chunk.summary.digest_base
                summary = chunk.summary.model_copy(update={"run": run, "bytes": len(lines)})
                merged = None if digest is None or base is None else (base, digest)
                out.write(pack(summary, lines, digest=merged).blob)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--running", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=360.0, help="of the engine's clock, for each part")
    given = parser.parse_args()
    found: dict[str, float] = {}
    load = Load(given.blocks, given.running)
    greeting = Hello(
        engine=EngineIdentity(name="t", kind="kvtop", version="0", run="run"),
        model=ModelFacts(name="none"),
        geometry=Geometry(block_size=BLOCK, pools=[PoolFacts(tier="device", blocks=given.blocks)]),
        capabilities=["blocks", "requests", "queue", "events"],
    )
    desk = Desk(load.clock)
    broadcast = Broadcast(load.telemetry, desk, load.clock)  # type: ignore[arg-type]
    lines = MergedLines()
    flight = FlightRecorder(FlightLimits(), greeting, desk.ring, lines, desk.schedule.want, load.clock)
    broadcast.open()
    pool = load.engine.scheduler.pool
    while pool.free_blocks > given.blocks // 50 and load.engine.iteration < 40_000:
        load.telemetry.pass_over(load.turn())  # until hardly a block was never used
    load.telemetry.passed_over = False
    desk.publish_keyframe(load.telemetry.keyframe())
    settle()
    iterations = max(1, round(given.seconds / STEP_S))
    print(f"{given.blocks:,} blocks, {pool.cached_blocks:,} cached, {len(load.engine.scheduler.running)} running, "
          f"{iterations} iterations a part")  # fmt: skip

    all_threads, own = [], []
    for _ in range(iterations):
        step = load.turn()

        def told(step=step) -> None:  # type: ignore[no-untyped-def]
            began = time.thread_time()
            broadcast.tell(step)
            own.append(1000.0 * (time.thread_time() - began))
            flight.serve(load.clock(), None)
            encoded()

        all_threads.append(cpu_ms(told))
    found["nobody watches"] = statistics.mean(all_threads) / (10 * STEP_S)
    found["at most"] = sorted(own)[-1 - iterations // 1000] / (10 * STEP_S)
    print(f"nobody watches        {statistics.mean(all_threads):.3f} ms an iteration, {found['nobody watches']:.2f} % of a step; "
          f"the engine's thread: median {statistics.median(own):.3f} ms, most {max(own):.3f}")  # fmt: skip
    print(f"  in memory           {flight.memory.bytes / 1e6 / given.seconds * 60:.2f} MB a minute")

    desk.watched = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.kvtop"
        cursor = Cursor(desk.ring, lines, desk.schedule.want)
        viewer = Cursor(desk.ring, lines, desk.schedule.want)
        viewer.fps = 30.0
        sink = FileSink(path, forced=False)
        writer = Writer(
            sink, entry_most_s=ENTRY_MOST_S, entry_bytes=ENTRY_BYTES, digests=True, clock=load.clock
        )  # as `Recorder` has it
        writer.take(encode(greeting), greeting)
        added, recorded = [], []

        def record() -> None:
            for told in cursor.told(load.clock(), None):
                writer.take(told.line, told.facts)
            writer.work()
            if writer.wants_keyframe():
                cursor.ask_keyframe()

        for _ in range(iterations):
            broadcast.tell(load.turn())
            encoded()
            viewer.take(load.clock(), None)
            added.append(cpu_ms(lambda: flight.serve(load.clock(), None)))
            recorded.append(cpu_ms(record))
        writer.close()
        found["watched"] = statistics.mean(added) / (10 * STEP_S)
        found["MB an hour"] = sink.size / 1e6 * 3600 / (iterations * STEP_S)
        print(f"watched               {statistics.mean(added):.3f} ms an iteration, {found['watched']:.2f} % of a step")
        print(
            f"kvtop record          {statistics.mean(recorded):.3f} ms an iteration; {found['MB an hour']:.1f} MB an hour"
        )
        parts(path)
        found["seek"] = seek(path, Path(folder) / "hour.kvtop", iterations * STEP_S)
    broadcast.close()
    over = [name for name, bound in BOUNDS.items() if found[name] > bound]
    for name in over:
        print(f"OVER: {name} is {found[name]:.3g}, the bound {BOUNDS[name]:g}")
    return 1 if over else 0


def parts(path: Path) -> None:
    """How much of the file is what."""
    tape = Recording(path)
    ends = [chunk.at for chunk in tape.chunks[1:]] + [tape.size]
    entries = sum(end - chunk.at for chunk, end in zip(tape.chunks, ends, strict=True) if chunk.summary.entry)
    lines = sum(chunk.summary.bytes for chunk in tape.chunks)
    print(
        f"  of these            {100 * entries / tape.size:.0f} % chunks with a keyframe; {lines / tape.size:.1f} times compressed"
    )


def seek(path: Path, hour: Path, seconds: float) -> float:
    """Seconds to the state at any moment of an hour, the median."""
    times = hour_of(path, hour, seconds)
    tapes: list[Recording] = []
    opening = cpu_ms(lambda: tapes.append(Recording(hour)))
    tape, chance, took = tapes[0], random.Random(2), []
    start, end = tape.chunks[0].first.seq, tape.chunks[-1].last.seq
    for _ in range(40):
        place = Place(chance.randrange(times), chance.randrange(start, end + 1))
        gc.collect()
        took.append(cpu_ms(lambda place=place: moment(tape, place)) / 1000.0)  # type: ignore[misc]
    print(f"seek                  median {statistics.median(took):.3f} s, most {max(took):.3f} s in {hour.stat().st_size / 1e6:.0f} MB "
          f"of {len(tape.chunks)} chunks; opening {opening / 1000:.3f} s")  # fmt: skip
    return statistics.median(took)


if __name__ == "__main__":
    sys.exit(main())
