"""What publishing and the ledger add to one iteration: ``python -m tests.perf.engine_turn [--blocks N] [--running N]``.

A runner that does nothing, so that only the engine's own work is timed, in milliseconds of this thread's CPU time:

- *nobody watches*: what an iteration costs beyond schedule and commit while no viewer is connected (bound 0.1 ms);
- *measured*: what `/metrics` has of an iteration, with `--http` (bound 0.05 ms);
- *a frame*: the same with a viewer, without encoding, which the publisher's thread does (bound 2 ms);
- *keyframe*: the most that one iteration is lengthened by a keyframe in the making, and how many it takes (bound 2 ms);
- *ledger*: the most that one iteration is lengthened by the audit, and how many a round takes (bound 2 ms), beside a
  whole check and a keyframe made at once.

``--waiting`` requests stand in the queue meanwhile.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from engine.scheduling.audit import Audit
from engine.serving.broadcast import GATHER_S
from engine.serving.garbage import settle
from engine.serving.meter import Meter
from engine.serving.server import AUDIT_S
from kvtop.protocol import EngineIdentity, Hello, ModelFacts
from kvtop.publish import Publisher
from tests.engine.fake_model import Clock, make_engine, request

BLOCK = 16
IDENTITY = EngineIdentity(name="t", kind="kvtop", version="0", run="this one")


def ms(work: Callable[[], object]) -> float:
    """Milliseconds of this thread's CPU time."""
    began = time.thread_time()
    work()
    return 1000.0 * (time.thread_time() - began)


def p50_most(times: list[float]) -> str:
    return f"median {statistics.median(times):7.3f} ms  p95 {np.percentile(times, 95):7.3f}  most {max(times):7.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=100)
    given = parser.parse_args()
    context = max(40, int(0.5 * given.blocks / given.running) * BLOCK)
    engine, telemetry = make_engine(
        blocks=given.blocks, block_size=BLOCK, max_running=given.running, token_budget=2**20, watermark=0.0
    )
    scheduler, clock = engine.scheduler, engine.clock
    assert isinstance(clock, Clock)
    for num in range(given.running + given.waiting):
        size = context if num < given.running else 40
        scheduler.add(request(num, [(num * 7919 + place) % 1000 for place in range(size)], 10_000), clock())

    def turn() -> object:
        clock.now += 0.05
        return engine.step()

    settle()
    while len(scheduler.running) < given.running or any(r.remaining > 1 for r in scheduler.running):
        turn()
    print(f"{given.blocks:,} blocks ({scheduler.pool.active_blocks:,} in use), {len(scheduler.running)} running, "
          f"{len(scheduler.waiting):,} waiting")  # fmt: skip
    step = [ms(turn) for _ in range(given.turns)]
    print(f"schedule and commit   {p50_most(step)}")

    # An engine passes over every iteration from its first on; here half a million blocks have changed unseen.
    telemetry.pass_over(None)
    times = []
    for _ in range(given.turns):
        done = engine.step()
        times.append(ms(lambda done=done: telemetry.pass_over(done)))
    print(f"nobody watches        {p50_most(times)}")

    meter = Meter(engine, telemetry, Publisher(Hello(engine=IDENTITY, model=ModelFacts(name="none"))))
    times = []
    for _ in range(given.turns):
        done = engine.step()
        telemetry.pass_over(done)
        times.append(ms(lambda done=done: meter.take(done)))
    print(f"measured              {p50_most(times)}")

    telemetry.prepare_keyframes()
    gathering = [ms(telemetry.begin_keyframe)]
    while True:
        telemetry.frame(engine.step())
        found = []
        gathering.append(ms(lambda found=found: found.append(telemetry.work_on_keyframe(GATHER_S))))
        if found[0] is not None:
            break
    began = time.perf_counter()
    line = found[0].encode().line
    print(f"keyframe, gathering   {p50_most(gathering)}  in {len(gathering)} iterations; "
          f"then {time.perf_counter() - began:.2f} s beside, {len(line) / 1e6:.1f} MB")  # fmt: skip

    times = []
    for _ in range(given.turns):
        done = engine.step()
        times.append(ms(lambda done=done: telemetry.frame(done)))
    print(f"a frame               {p50_most(times)}")

    audit, pieces = Audit(scheduler.roster, scheduler.pins), []
    while True:
        turn()
        found = []
        pieces.append(ms(lambda found=found: found.append(audit.work(AUDIT_S))))
        if found[0] is not None:
            assert found[0] == [], found[0]
            break
    print(f"ledger, by pieces     {p50_most(pieces)}  in {len(pieces)} iterations")
    print(f"ledger, at once       {ms(scheduler.ledger_violations):7.1f} ms")
    print(f"keyframe, at once     {ms(telemetry.keyframe):7.1f} ms")


if __name__ == "__main__":
    main()
