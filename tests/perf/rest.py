"""What a viewer costs that nobody looks at: ``python -m tests.perf.rest [--seconds S] [--blocks N] [--requests N]``.

Shares of a core at 200x50, over S seconds of each state, of the whole process of ``kvtop attach`` in a terminal. The
engine behind it is made up: 64 blocks and 64 requests change in each of 20 iterations a second.

Bounds: 5 % beside a busy engine, 1 % where nothing changes on the screen. Exit code 1 if one is broken.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.perf.viewer import Engine, Terminal, settled

BUSY, STILL = 0.05, 0.01


@dataclass(frozen=True)
class Rest:
    """A state: how it is brought about, and the bound it has."""

    name: str
    bound: float
    begin: Callable[[Terminal, Engine], None]


def _key(keys: str) -> Callable[[Terminal, Engine], None]:
    return lambda terminal, _: terminal.type(keys)


def _quiet(_: Terminal, engine: Engine) -> None:
    engine.busy = False


def _say(status: str) -> Callable[[Terminal, Engine], None]:
    return lambda _, engine: engine.say(status)


RESTS = (
    Rest("a busy engine", BUSY, _key("")),
    Rest("held, a busy engine", STILL, _key("p")),
    Rest("help, held", STILL, _key("?")),
    Rest("help, a busy engine", STILL, _key("\x1bp?")),
    Rest("connected but quiet", STILL, lambda t, e: (t.type("\x1b"), _quiet(t, e))[1]),
    Rest("held and quiet", STILL, _key("p")),
    Rest("the engine is paused", STILL, lambda t, e: (t.type("p"), e.say("paused"))[1]),
    Rest("the engine is idle", STILL, _say("idle")),
    Rest("disconnected", STILL, lambda _, e: e.publisher.stop("bye")),
)


def measure(blocks: int, requests: int, seconds: float) -> list[tuple[Rest, float, int]]:
    """Share of a core and bytes a second of each state."""
    found = []
    with Engine(blocks, requests) as engine, Terminal(engine.folder, "big") as terminal:
        settled(terminal, engine)
        for rest in RESTS:
            rest.begin(terminal, engine)
            time.sleep(1.5)
            written = terminal.written
            share = terminal.share(seconds)
            found.append((rest, share, round((terminal.written - written) / seconds)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--blocks", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    print(f"{options.blocks:,d} blocks, {options.requests:,d} requests, {options.seconds:g} s of each state")
    print(f"{'':24}{'of a core':>10}{'bound':>8}{'bytes/s':>10}")
    broken = 0
    for rest, share, rate in measure(options.blocks, options.requests, options.seconds):
        over = share > rest.bound
        broken += over
        print(f"{rest.name:24}{100 * share:9.2f}%{100 * rest.bound:7.0f}%{rate:10,d}{'  OVER' if over else ''}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
