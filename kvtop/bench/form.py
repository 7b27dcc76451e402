"""The forms of the benchmarks: which loads, how many, in which order."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from kvtop.bench.result import Cell

STUDY_FIGURES = (10.24, 21.50)
"""Output tokens a second that the published study of small models on a CPU reports over its configurations."""


@dataclass(frozen=True, slots=True)
class Form:
    """All combinations are measured. The defaults are the study's: eight of them, 48 requests, 1,152 output tokens."""

    threads: tuple[int, ...] = (1, 2)
    streams: tuple[int, ...] = (1, 2)
    prompt_tokens: tuple[int, ...] = (24, 160)
    output_tokens: int = 24
    requests: int = 6
    """Measured in each combination."""
    warmup_requests: int = 2

    def cells(self, *, vary_threads: bool) -> list[Cell]:
        threads: Sequence[int | None] = self.threads if vary_threads else (None,)
        return [
            Cell(threads=count, streams=streams, prompt_tokens=prompt, output_tokens=self.output_tokens)
            for count, streams, prompt in itertools.product(threads, self.streams, self.prompt_tokens)
        ]


def interleaved(servers: Sequence[str], rounds: int) -> list[tuple[int, str]]:
    """Round and server: forth in one round, back in the next (A B, B A, A B, …), so that what drifts on the machine falls on
    all alike."""
    return [
        (number, server)
        for number in range(rounds)
        for server in (servers if number % 2 == 0 else list(reversed(servers)))
    ]
