"""``kvtop bench``: servers measured in a fixed form, our own engine started for it, or several in turn."""

import argparse
import asyncio
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from kvtop.bench import report
from kvtop.bench.form import STUDY_FIGURES, Form, interleaved
from kvtop.bench.measure import measure
from kvtop.bench.result import BenchResult, Cell, Run
from kvtop.commands.child import EngineChild, require_engine
from kvtop.commands.load_progress import LoadProgress
from kvtop.commands.load_target import bearer_token, new_file, server_url, warn_of_others, write_result
from kvtop.commands.progress import ProgressLine
from kvtop.commands.table import table
from kvtop.commands.target import place_fault
from kvtop.commands.tty import Terminated, signals_raise
from kvtop.errors import UserError, one_line
from kvtop.load.health import unhealthy
from kvtop.load.report import doubts
from kvtop.protocol.places import PlaceError, socket_folder

ENGINE = "kvtop"
"""What our own engine is called in tables."""

OUR_MODEL = "smollm2"
"""That of the published study."""


def run(options: argparse.Namespace) -> int:
    target = new_file(options.output)
    form = Form(
        threads=getattr(options, "threads", None) or Form().threads,
        streams=options.streams,
        prompt_tokens=options.prompt_tokens,
        output_tokens=options.output_tokens,
        requests=options.requests,
        warmup_requests=options.warmup_requests,
    )
    began = datetime.now(UTC).isoformat(timespec="seconds")
    runs: list[Run] = []
    ended, fault = 0, None
    try:
        with signals_raise():
            for run in _serving(options, form) if options.kind == "serving" else _compare(options, form):
                runs.append(run)
    except Terminated as stop:
        # What was measured until then is not lost; the load in progress is.
        if not runs:
            raise
        ended = stop.code if isinstance(stop.code, int) else 1
    except UserError as error:
        if not runs:
            raise
        fault = error  # nor is it where a server ends half-way
    result = BenchResult(kind=options.kind, began=began, command=_command(), notes=dict(options.note), runs=runs)
    sys.stdout.write(result.dumps() if options.json else _tables(result))
    if target is not None:
        write_result(target, result.dumps())
    if fault is not None:
        raise fault
    return ended or int(any(unhealthy(run.load) for run in runs))


def _serving(options: argparse.Namespace, form: Form) -> Iterator[Run]:
    if options.target is not None:
        if options.threads is not None:
            raise UserError(
                "--threads is for our own engine, which is started with so many",
                "say it of a server: --note threads=2",
                2,
            )
        url = server_url(options.target)
        for cell in form.cells(vary_threads=False):
            yield _measured(options, form, options.target, url, cell, 0, options.model)
        return
    cells = form.cells(vary_threads=True)
    for threads in form.threads:
        with _engine(options.model or OUR_MODEL, threads) as url:
            for cell in cells:
                if cell.threads == threads:
                    yield _measured(options, form, ENGINE, url, cell, 0, None)


def _compare(options: argparse.Namespace, form: Form) -> Iterator[Run]:
    servers = _named(options.targets)
    for cell in form.cells(vary_threads=False):
        for number, server in interleaved(list(servers), options.rounds):
            yield _measured(options, form, server, servers[server], cell, number, None)


def _named(targets: list[str]) -> dict[str, str]:
    """URLs by the servers' labels, in the order in which they were named."""
    found: dict[str, str] = {}
    for target in targets:
        label, equals, where = target.partition("=")
        name = label if equals else target
        if name in found:
            raise UserError(f"{one_line(name)} is named twice", "give each a label: LABEL=URL", 2)
        found[name] = server_url(where if equals else target)
    if len(found) < 2:
        raise UserError("one server alone cannot be compared", "kvtop bench compare URL URL", 2)
    return found


def _measured(
    options: argparse.Namespace, form: Form, server: str, url: str, cell: Cell, number: int, model: str | None
) -> Run:
    """The seed is another in each round, so that no prompt is found in a cache of the round before, and the same for all."""
    warn_of_others(url)
    threads = "" if cell.threads is None else f", {cell.threads} threads"
    note = f"{server}{threads}: {cell.streams} streams, {cell.prompt_tokens}/{cell.output_tokens} tokens, round {number + 1}"
    progress = LoadProgress(what=note)
    try:
        load = asyncio.run(
            measure(
                url,
                cell,
                form,
                seed=_seed(options.seed, number, cell),
                model=model,
                token=bearer_token(),
                notes=dict(options.note),
                command=tuple(_command()),
                on_tick=progress,
            )
        )
    finally:
        progress.close()
    return Run(server=server, round=number, cell=cell, load=load)


def _seed(seed: int, number: int, cell: Cell) -> int:
    """Another for each round and cell, and below 2^32: requests bring it, and some servers take no more bits."""
    told = f"{seed} round {number} streams {cell.streams} prompt {cell.prompt_tokens}"
    return zlib.crc32(told.encode())


@contextmanager
def _engine(model: str, threads: int) -> Iterator[str]:
    """Our engine with so many threads; its URL."""
    require_engine()
    name = f"bench-{os.getpid()}"
    try:
        place = socket_folder(create=True)
    except PlaceError as error:
        raise place_fault(str(error), code=2) from None
    arguments = ["--parent-stdin", "--ready-json", "--model", model, "--name", name, "--http", "127.0.0.1:0"]
    child = EngineChild(arguments, place / f"{name}.log", _threads(threads))
    progress = ProgressLine()
    try:
        child.start()
        try:
            ready = child.wait_ready(progress, _unsaid)
        finally:
            progress.close()
        if ready.http is None:
            raise UserError("the engine serves no HTTP", f"its log: {child.log}")
        yield ready.http
    finally:
        child.stop()


def _threads(count: int) -> dict[str, str]:
    return {name: str(count) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


def _unsaid(note: str) -> None:
    """What the engine notes of itself stands in its log."""


def _command() -> list[str]:
    return ["kvtop", *sys.argv[1:]]


def _tables(result: BenchResult) -> str:
    parts = [f"{report.totals(result)}, begun {result.began}", table(*report.figures(result))]
    if len(result.servers) > 1:
        parts += ["median of the rounds (least to most):", table(*report.ratios(result))]
    if result.kind == "serving":
        low, high = STUDY_FIGURES
        parts.append(
            f"the published study's own figures: {low:.2f} to {high:.2f} output tokens/s, on a machine of its own"
        )
    parts += [f"failed: {one_line(line)}" for line in report.failures(result)]
    told = dict.fromkeys(doubt for run in result.runs for doubt in doubts(run.load))
    parts += [f"note: {one_line(doubt)}" for doubt in told]
    return "\n\n".join(parts) + "\n"
