"""What choosing tokens costs: ``python -m tests.perf.sampling [--rows N]``.

A batch of rows over the demo model's vocabulary, from a distribution that is nearly flat to one that is peaked, each with
temperature 1 unless it is greedy. The CPU time of the whole sampler a batch, and how many times as long sorting every row
would take, which is the plain way to top-p. Then what each wish adds to a greedy batch, and by how much the process' memory
rose at most, beside the logits.
"""

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from engine.model.draw import Draw
from engine.model.sampler import Sampler
from engine.requests.sampling import Sampling

VOCAB = 49_152
SPREADS = (0.01, 1.0, 3.0, 6.0)
"""Standard deviations of the logits."""
TOP_P = (0.5, 0.95, 1.0)
HISTORY = 2000
"""Tokens before the new one, half of them output."""
WISHES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "logit_bias of 300": {"logit_bias": dict.fromkeys(range(300), 1.0)},
    "penalties": {"presence_penalty": 0.5, "frequency_penalty": 0.5, "repetition_penalty": 1.1},
    "logprobs 0": {"logprobs": 0},
    "logprobs 20": {"logprobs": 20},
    "temperature": {"temperature": 1.0},
    "min_p 0.05": {"temperature": 1.0, "min_p": 0.05},
    "top_k 50": {"temperature": 1.0, "top_k": 50},
    "top_k 5000": {"temperature": 1.0, "top_k": 5000},
    "top_k 50, top_p 0.9": {"temperature": 1.0, "top_k": 50, "top_p": 0.9},
    "all": {
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 0.9,
        "min_p": 0.05,
        "logprobs": 20,
        "repetition_penalty": 1.1,
        "frequency_penalty": 0.5,
    },
}
REPEATS = 7


def best_ms(work: Callable[[], object]) -> float:
    """CPU milliseconds of the fastest of a few runs."""
    times = []
    for _ in range(REPEATS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return 1000 * min(times)


def _logits(rows: int, spread: float) -> torch.Tensor:
    return spread * torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(1))


def _draws(rows: int, how: Sampling) -> list[Draw]:
    history = np.random.default_rng(0).integers(0, VOCAB, HISTORY).tolist()
    return [Draw(how, row, HISTORY, history, HISTORY // 2) for row in range(rows)]


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="What choosing tokens costs.")
    parser.add_argument("--rows", type=int, default=16)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    sampler = Sampler(0)
    logits = _logits(rows, 3.0)
    sampler.sample(logits, _draws(rows, Sampling()))
    before = _peak_mib()
    print(f"{rows} rows of {VOCAB} logits ({logits.nbytes / 2**20:.0f} MiB), one thread; ms a batch")
    for name, wish in WISHES.items():
        draws = _draws(rows, Sampling(**wish))
        print(f"{name:>20} {best_ms(lambda draws=draws: sampler.sample(logits, draws)):8.1f}")  # type: ignore[misc]
    print(f"{'peak of memory':>20} {_peak_mib() - before:+8.0f} MiB")
    print(f"\n{'spread':>8}  top_p: ms (times the sampler's that sorting the rows takes)")
    for spread in SPREADS:
        logits = _logits(rows, spread)
        masses = torch.softmax(logits, dim=-1).numpy()
        sorting = best_ms(lambda masses=masses: [np.argsort(-row, kind="stable") for row in masses])  # type: ignore[misc]
        cells = []
        for p in TOP_P:
            draws = _draws(rows, Sampling(temperature=1.0, top_p=p))
            took = best_ms(lambda logits=logits, draws=draws: sampler.sample(logits, draws))  # type: ignore[misc]
            cells.append(f"{p}: {took:6.1f} ({sorting / took:4.1f})")
        print(f"{spread:8}  " + "   ".join(cells))


if __name__ == "__main__":
    main()
