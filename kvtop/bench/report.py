"""Benchmarks as tables: the same for a terminal and for the page that is made of results."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from kvtop.bench.result import BenchResult, Cell, Run
from kvtop.load.report import Table, seconds
from kvtop.load.result import LoadResult
from kvtop.views.format import UNKNOWN


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    of: Callable[[LoadResult], float | None]
    show: Callable[[float], str]


FIGURES = (
    Figure("FIRST TOKEN", lambda load: load.ttft.p50, seconds),
    Figure("PER TOKEN", lambda load: load.tpot.p50, seconds),
    Figure("ANSWER", lambda load: load.latency.p50, seconds),
    Figure("TOKENS/S", lambda load: load.rates.output_tokens, lambda value: f"{value:.2f}"),
    Figure("MEMORY", lambda load: load.server.rss_bytes, lambda value: f"{value / 2**20:.0f} MiB"),
)
"""Times are the median request's; a figure of a cell is the median of its rounds."""


def figures(result: BenchResult) -> Table:
    """A row for each cell and server; times are medians. Without columns that would say the same in each row."""
    headings = [*_headings(result), "DONE", *(figure.name for figure in FIGURES)]
    rows = []
    for cell in result.cells:
        for server in result.servers:
            if runs := result.of(server, cell):
                rows.append(
                    [*_place(result, cell, server), _answered(runs), *(_shown(figure, runs) for figure in FIGURES)]
                )
    return headings, rows


def failures(result: BenchResult) -> list[str]:
    """A sentence for each server and kind of failure, with one example."""
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for run in result.runs:
        for failed in run.load.failures:
            count, example = found.get((run.server, failed.kind), (0, failed.example))
            found[run.server, failed.kind] = count + failed.count, example
    return [f"{server}: {kind} x{count}: {example}" for (server, kind), (count, example) in found.items()]


def ratios(result: BenchResult) -> Table:
    """Each server over the first, round by round: the median, the least and the most of all rounds."""
    base, *others = result.servers
    headings = [*_headings(result), f"OVER {base}", "MEDIAN", "LEAST", "MOST", "ROUNDS"]
    rows = []
    for cell in result.cells:
        for server, figure in itertools.product(others, FIGURES):
            found = by_round(figure, result.of(base, cell), result.of(server, cell))
            told = (f"{value:.2f}" for value in (median(found), min(found), max(found))) if found else [UNKNOWN] * 3
            rows.append([*_place(result, cell, server), figure.name.lower(), *told, str(len(found))])
    return headings, rows


def by_round(figure: Figure, base: list[Run], other: list[Run]) -> list[float]:
    """Ratios of rounds in which both were measured."""
    mine = {run.round: figure.of(run.load) for run in base}
    found = []
    for run in other:
        below, above = mine.get(run.round), figure.of(run.load)
        if below and above is not None and math.isfinite(above / below):
            found.append(above / below)
    return found


def _shown(figure: Figure, runs: list[Run]) -> str:
    values = [value for run in runs if (value := figure.of(run.load)) is not None]
    return figure.show(median(values)) if values else UNKNOWN


def _answered(runs: list[Run]) -> str:
    done = sum(run.load.counts["finished"] for run in runs)
    lost = sum(run.load.counts["failed"] + run.load.counts["unfinished"] for run in runs)
    return f"{done} of {done + lost}"


def _headings(result: BenchResult) -> list[str]:
    return [
        *(["THREADS"] if _has_threads(result) else []),
        "STREAMS",
        "IN/OUT",
        *(["SERVER"] if len(result.servers) > 1 else []),
    ]


def _place(result: BenchResult, cell: Cell, server: str) -> list[str]:
    return [
        *([UNKNOWN if cell.threads is None else str(cell.threads)] if _has_threads(result) else []),
        str(cell.streams),
        f"{cell.prompt_tokens}/{cell.output_tokens}",
        *([server] if len(result.servers) > 1 else []),
    ]


def _has_threads(result: BenchResult) -> bool:
    return any(cell.threads is not None for cell in result.cells)


def totals(result: BenchResult) -> str:
    loads = [run.load for run in result.runs]
    requests = sum(load.counts["finished"] for load in loads)
    tokens = sum(row.output_tokens for load in loads for row in load.requests if row.failure is None)
    return f"{requests} requests, {tokens} output tokens measured"
