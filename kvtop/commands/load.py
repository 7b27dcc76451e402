"""``kvtop load URL|NAME``: sends requests to any OpenAI-compatible server and says what came of them."""

import argparse
import asyncio
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from kvtop.commands.load_progress import LoadProgress
from kvtop.commands.load_target import bearer_token, new_file, server_url, warn_of_others, write_result
from kvtop.commands.table import table
from kvtop.errors import UserError, one_line
from kvtop.load import report
from kvtop.load.arrivals import Arrivals, Bursts, Closed, Ramp, Recorded, Renewal
from kvtop.load.asking import ServerFacts
from kvtop.load.compare import compare
from kvtop.load.driver import Limits
from kvtop.load.health import unhealthy
from kvtop.load.machine import room_for
from kvtop.load.plan import Plan, chats, mixed, synthetic, traced
from kvtop.load.result import LoadResult, read_result
from kvtop.load.run import Running, Settings, run_load
from kvtop.load.traces import read_trace
from kvtop.mixes import MIXES, Scale, scale_for

DEFAULT_TOKENS = (64, 64)

MOST_TRACE_ROWS = 1_000_000


def run(options: argparse.Namespace) -> int:
    if options.compare is not None:
        return _compare(options)
    if options.target is None:
        raise UserError("no server named", "kvtop load http://127.0.0.1:8000", 2)
    plan = _planner(options)
    url = server_url(options.target)
    target = new_file(options.output)
    warn_of_others(url)
    settings = Settings(
        url=url,
        plan=plan,
        limits=Limits(
            seconds=options.seconds,
            requests=options.requests,
            patience=options.patience,
            open_requests=room_for(options.open),
            warmup_seconds=options.warmup,
            warmup_requests=options.warmup_requests,
        ),
        seed=options.seed,
        model=options.model,
        api=options.api or ("chat" if options.chats else "completions"),
        plain=options.plain,
        temperature=options.temperature,
        timeout=options.timeout,
        bounds=options.slo,
        notes=dict(options.note),
        command=("kvtop", *sys.argv[1:]),
        token=bearer_token(),
    )
    result, stopped_by = measured(settings)
    # First what cannot fail: a disk that is full then costs no load.
    sys.stdout.write(result.dumps() if options.json else tables(result) + "\n")
    if target is not None:
        write_result(target, result.dumps())
    if stopped_by:
        return 128 + stopped_by
    if (why := unhealthy(result)) is not None:
        print(f"kvtop: the load failed: {why}", file=sys.stderr)
        return 1
    return 0


def measured(settings: Settings) -> tuple[LoadResult, int]:
    """The result, and the signal that ended it early or 0. Progress goes to standard error.

    The first SIGINT or SIGTERM ends the sending, a second one the program.
    """
    progress = LoadProgress()
    came: list[int] = []

    def on_start(running: Running) -> None:
        loop = asyncio.get_running_loop()

        def interrupted(number: int) -> None:
            came.append(number)
            loop.remove_signal_handler(number)
            running.driver.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, interrupted, number)

    try:
        result = asyncio.run(run_load(settings, on_start=on_start, on_tick=progress))
    finally:
        progress.close()
    return result, came[0] if came else 0


def tables(result: LoadResult) -> str:
    parts = ["\n".join(report.about(result)), table(*report.times(result)), table(*report.rates(result))]
    if found := report.doubts(result):
        parts.append("\n".join(f"note: {one_line(doubt)}" for doubt in found))
    return "\n\n".join(parts)


def _compare(options: argparse.Namespace) -> int:
    if options.target is not None:
        raise UserError("--compare loads no server", "kvtop load --compare A.json B.json", 2)
    a, b = (read_result(Path(name)) for name in options.compare)
    print(table(*report.ratios(compare(a, b))))
    if other := report.not_the_same(a, b):
        print("\n" + "\n".join(f"not the same: {line}" for line in other))
    return 0


def _planner(options: argparse.Namespace) -> Callable[[ServerFacts], tuple[Plan, Arrivals]]:
    """Raises `UserError` for options that do not go together; files are read before a server is asked."""
    _fit(options)
    if options.trace is not None:
        trace = read_trace(Path(options.trace), MOST_TRACE_ROWS).within(options.seconds / (options.time_scale or 1.0))

        def of_trace(facts: ServerFacts) -> tuple[Plan, Arrivals]:
            plan, times = traced(trace, options.length_scale or 1.0, context=facts.context, seed=options.seed)
            if not times:
                raise UserError(
                    f"no request of {trace.name} fits a context of {facts.context} tokens",
                    "shorten them: --length-scale 0.1",
                )
            return plan, Recorded(times, options.time_scale or 1.0)

        return of_trace
    arrivals = _arrivals(options)
    return lambda facts: (_plan(options, facts), arrivals)


def _arrivals(options: argparse.Namespace) -> Arrivals:
    if options.rate is not None:
        return Renewal(options.rate, options.burstiness or 1.0)
    if options.burst is not None:
        return Bursts(*options.burst)
    if options.ramp is not None:
        start, end = options.ramp
        return Ramp(start, end, options.seconds)
    return Closed(options.streams or 1)


def _plan(options: argparse.Namespace, facts: ServerFacts) -> Plan:
    if options.mix is not None:
        mix = MIXES[options.mix]
        if options.length_scale is not None:
            scale = Scale.of_prompts(options.length_scale)
        elif facts.context is not None:
            scale = scale_for(math.inf, facts.context, mix)
        else:
            raise UserError(
                "the server does not tell its context, to which the mix is scaled", "say how: --length-scale 0.05", 2
            )
        return mixed(mix, scale, seed=options.seed)
    prompt, output = options.prompt_tokens or DEFAULT_TOKENS, options.output_tokens or DEFAULT_TOKENS
    shared, groups = options.shared_tokens or 0, options.groups or 1
    if options.chats is not None:
        think = 1.0 if options.think is None else options.think
        return chats(options.chats, prompt, output, shared=shared, groups=groups, think=think, seed=options.seed)
    return synthetic(prompt, output, shared=shared, groups=groups, seed=options.seed)


_ONLY_WITH = {
    "burstiness": ("rate",),
    "time_scale": ("trace",),
    "length_scale": ("trace", "mix"),
    "think": ("chats",),
}


def _fit(options: argparse.Namespace) -> None:
    for name, needs in _ONLY_WITH.items():
        if getattr(options, name) is not None and all(getattr(options, need) is None for need in needs):
            wanted = " or ".join(f"--{need}" for need in needs)
            raise UserError(f"--{name.replace('_', '-')} means nothing without {wanted}", "see: kvtop load --help", 2)
    for name in ("prompt_tokens", "output_tokens", "shared_tokens", "groups", "chats", "mix"):
        given = getattr(options, name) is not None
        if given and options.trace is not None:
            raise UserError(f"a trace says itself what is sent: --{name.replace('_', '-')} goes not with it", code=2)
        if given and options.mix is not None and name not in ("chats", "mix"):
            raise UserError(
                f"a mix says itself how long its requests are: --{name.replace('_', '-')} goes not with it", code=2
            )
    prompt, shared = options.prompt_tokens or DEFAULT_TOKENS, options.shared_tokens or 0
    if options.chats is None and prompt[0] <= shared:
        raise UserError(
            f"--shared-tokens {shared} leaves nothing of prompts of {prompt[0]}", "longer: --prompt-tokens N", 2
        )
    if options.warmup >= options.seconds:
        raise UserError(
            f"a warm-up of {options.warmup:g} s leaves nothing of {options.seconds:g} s", "longer: --seconds S", 2
        )
