"""What can be typed after ``kvtop load``."""

import argparse

from kvtop.commands.option_types import (
    above_zero,
    bounds,
    burst,
    not_below_zero,
    note,
    positive,
    ramp,
    seed,
    shape,
    span,
    tokens_or_none,
    whole,
)
from kvtop.mixes import MIXES

_EPILOG = """\
examples:
  kvtop load http://127.0.0.1:8000 --streams 4 --seconds 30
  kvtop load demo --rate 2 --prompt-tokens 16-256 --output-tokens 64 --slo ttft=0.5,tpot=0.05
  kvtop load http://127.0.0.1:8000 --chats 2-5 --shared-tokens 200 --think 2 --rate 0.5
  kvtop load http://127.0.0.1:8000 --trace conversation.jsonl.gz --time-scale 0.2 --length-scale 0.05 -o ours.json
  kvtop load --compare ours.json theirs.json
environment: KVTOP_LOAD_TOKEN (the server's bearer token)
exit codes: 0 measured, 1 no server, nothing answered, more than a tenth failed, or the last ten did, 2 wrong usage,
128 + number after a signal; what it measures: docs/load.md
"""


def arguments(load: argparse.ArgumentParser) -> None:
    load.epilog = _EPILOG
    load.formatter_class = argparse.RawDescriptionHelpFormatter
    load.add_argument(
        "target",
        nargs="?",
        metavar="URL|NAME",
        help="an OpenAI-compatible server, or a running engine that serves HTTP",
    )
    load.add_argument("--compare", nargs=2, metavar=("A", "B"), help="two results: ratios with 95 %% intervals")
    _when(load.add_argument_group("when requests come (default: --streams 1)"))
    _what(load.add_argument_group("what is sent (default: single requests of one length)"))
    _how(load.add_argument_group("how long, and how"))
    out = load.add_argument_group("what comes out")
    out.add_argument(
        "--slo", type=bounds, default={}, metavar="B", help="goodput: answers within ttft=S,tpot=S,latency=S"
    )
    out.add_argument("--note", type=note, action="append", default=[], metavar="NAME=TEXT", help="kept in the result")
    out.add_argument("-o", "--output", metavar="FILE", help="write the result there as JSON, each request in a row")
    out.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print that JSON instead of tables")


def _when(group: argparse._ArgumentGroup) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument("--streams", type=positive, metavar="N", help="closed loop: N users, each waits for the answer")
    one.add_argument("--rate", type=above_zero, metavar="R", help="open loop: a Poisson process of R a second")
    one.add_argument("--burst", type=burst, metavar="N/S", help="open loop: N at once, every S seconds")
    one.add_argument("--ramp", type=ramp, metavar="A-B", help="open loop: Poisson, from A to B a second over --seconds")
    one.add_argument("--trace", metavar="FILE", help="open loop: a public trace, Azure 2023 CSV or Mooncake JSON lines")
    group.add_argument(
        "--burstiness",
        type=shape,
        metavar="G",
        help="of --rate: gamma shape; below 1 in bursts, above 1 more regular, inf a metronome",
    )
    group.add_argument(
        "--time-scale", type=above_zero, metavar="X", help="of --trace: 0.1 is ten times as fast (default: 1)"
    )


def _what(group: argparse._ArgumentGroup) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument("--mix", choices=tuple(MIXES), help="the classes of the demo's workload, scaled to the context")
    one.add_argument("--chats", type=span, metavar="N|A-B", help="conversations of so many turns, with all said before")
    group.add_argument("--prompt-tokens", type=span, metavar="N|A-B", help="of each prompt or turn (default: 64)")
    group.add_argument("--output-tokens", type=span, metavar="N|A-B", help="of each answer (default: 64)")
    group.add_argument(
        "--shared-tokens", type=tokens_or_none, metavar="N", help="of the system prompt in common (default: 0)"
    )
    group.add_argument("--groups", type=positive, metavar="N", help="different system prompts (default: 1)")
    group.add_argument(
        "--think", type=not_below_zero, metavar="S", help="of --chats: mean time between turns (default: 1)"
    )
    group.add_argument("--length-scale", type=above_zero, metavar="X", help="of --trace and --mix: lengths times X")
    group.add_argument("--seed", type=seed, default=0, metavar="N", help="of lengths, texts and times (default: 0)")


def _how(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--seconds", type=above_zero, default=30.0, metavar="S", help="in which it sends (default: 30)")
    group.add_argument("--requests", type=positive, metavar="N", help="send no more than N")
    group.add_argument(
        "--warmup", type=not_below_zero, default=0.0, metavar="S", help="the first S seconds do not count"
    )
    group.add_argument("--warmup-requests", type=whole, default=0, metavar="N", help="nor do the first N requests")
    group.add_argument(
        "--patience", type=not_below_zero, default=30.0, metavar="S", help="wait S s for the last (default: 30)"
    )
    group.add_argument("--timeout", type=above_zero, default=300.0, metavar="S", help="of one answer (default: 300)")
    group.add_argument(
        "--open",
        type=positive,
        metavar="N",
        help="most open at a time (default: 1000, or as many files as it may have)",
    )
    group.add_argument("--model", metavar="ID", help="which (default: the first that the server lists)")
    group.add_argument("--api", choices=("completions", "chat"), help="default: chat for --chats, else completions")
    group.add_argument("--temperature", type=not_below_zero, default=0.0, metavar="T", help="default: 0")
    group.add_argument(
        "--plain", action="store_true", help="fields of OpenAI's own API only; answers then may end before their length"
    )
