"""What choosing tokens costs: ``python -m tests.perf.sampling [--rows N]``.

A batch of rows over the demo model's vocabulary, from a distribution that is nearly flat to one that is peaked, each with
temperature 1. The CPU time of the whole sampler a batch, and how many times as long sorting every row would take, which
is the plain way to top-p.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from engine.model.draw import Draw
from engine.model.sampler import Sampler
from engine.requests.sampling import Sampling

VOCAB = 49_152
SPREADS = (0.01, 1.0, 3.0, 6.0)
"""Standard deviations of the logits."""
TOP_P = (0.5, 0.95, 1.0)
REPEATS = 7


def best_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of the fastest of a few runs."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1000 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="What choosing tokens costs.")
    parser.add_argument("--rows", type=int, default=16)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    sampler = Sampler(0)
    draws = {p: [Draw(Sampling(temperature=1.0, top_p=p), row, 9) for row in range(rows)] for p in TOP_P}
    greedy = [Draw(Sampling(), row, 9) for row in range(rows)]
    print(f"{rows} rows of {VOCAB} logits, one thread; ms a batch (times the sampler's that sorting the rows takes)")
    print(f"{'spread':>8} {'greedy':>8} " + " ".join(f"top_p {p:<14}" for p in TOP_P))
    for spread in SPREADS:
        logits = spread * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(1))
        masses = torch.softmax(logits, dim=-1).numpy()
        sorting = best_ms(lambda masses=masses: [np.argsort(-row, kind="stable") for row in masses])  # type: ignore[misc]
        cells = [f"{best_ms(lambda logits=logits: sampler.sample(logits, greedy)):8.1f}"]  # type: ignore[misc]
        for p in TOP_P:
            took = best_ms(lambda logits=logits, p=p: sampler.sample(logits, draws[p]))  # type: ignore[misc]
            cells.append(f"{took:7.1f} ({sorting / took:5.1f})    ")
        print(f"{spread:8} " + " ".join(cells))


if __name__ == "__main__":
    main()
