"""``python -m tests.perf.startup``: how long the command line takes to answer. Prints; exit code 1 over the bound.

Bound: 0.2 s for ``kvtop --help`` and ``kvtop demo --help``, as the median of several starts.
"""

import argparse
import statistics
import subprocess
import sys
import time

BOUND = 0.2
COMMANDS = (["--help"], ["demo", "--help"], ["--version"], ["ls"])
BOUNDED = 2


def seconds(command: list[str]) -> float:
    """Wall seconds of one start."""
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=False)
    return time.perf_counter() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--starts", type=int, default=15, help="of each command (default 15)")
    starts: int = parser.parse_args().starts
    bare = statistics.median(seconds([sys.executable, "-c", "pass"]) for _ in range(starts))
    print(f"{'python alone':24} {1000 * bare:6.0f} ms median of {starts}")
    too_slow = False
    for place, command in enumerate(COMMANDS):
        times = [seconds([sys.executable, "-m", "kvtop", *command]) for _ in range(starts)]
        median = statistics.median(times)
        over = place < BOUNDED and median > BOUND
        too_slow |= over
        bound = f"  bound {1000 * BOUND:.0f} ms {'EXCEEDED' if over else 'kept'}" if place < BOUNDED else ""
        print(
            f"{'kvtop ' + ' '.join(command):24} {1000 * median:6.0f} ms median, {1000 * max(times):.0f} ms worst{bound}"
        )
    return 1 if too_slow else 0


if __name__ == "__main__":
    sys.exit(main())
