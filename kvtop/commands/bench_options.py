"""What can be typed after ``kvtop bench``."""

import argparse

from kvtop.commands.option_types import note, numbers, positive, seed, tokens, whole

_EPILOG = """\
examples:
  kvtop bench serving -o docs/performance/serving.json
  kvtop bench serving http://127.0.0.1:8081 --note threads=2 --note weights=Q4_1
  kvtop bench compare kvtop=http://127.0.0.1:8000 llama=http://127.0.0.1:8081 --streams 1,4,16 --rounds 6
environment: KVTOP_LOAD_TOKEN (the servers' bearer token)
exit codes: 0 measured, 1 no server, or a load that kvtop load would end with 1, 2 wrong usage; what it measures: docs/load.md
"""


def arguments(bench: argparse.ArgumentParser, parser_class: type[argparse.ArgumentParser]) -> None:
    bench.epilog = _EPILOG
    bench.formatter_class = argparse.RawDescriptionHelpFormatter
    kinds = bench.add_subparsers(dest="kind", metavar="KIND", required=True, parser_class=parser_class)

    serving = kinds.add_parser(
        "serving",
        help="threads x streams x prompt length, as in the published study of small models",
        description="Measure kvtop's own engine, started anew for each number of threads, or a server that runs.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    serving.add_argument(
        "target", nargs="?", metavar="URL|NAME", help="a server that runs (default: our engine, started)"
    )
    serving.add_argument(
        "--model", metavar="M", help="of our engine (default: smollm2), or of the server (default: the first it lists)"
    )
    serving.add_argument("--threads", type=numbers, metavar="N,N", help="of our engine (default: 1,2)")
    _common(serving, streams="1,2", prompts="24,160", output=24, requests=6)

    compare = kinds.add_parser(
        "compare",
        help="several servers in turn: ratios and their spread",
        description="Load servers in turn, forth in one round and back in the next, with the same requests.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    compare.add_argument(
        "targets", nargs="+", metavar="[LABEL=]URL|NAME", help="two or more; the first is what is divided by"
    )
    compare.add_argument("--rounds", type=positive, default=4, metavar="N", help="(default: 4)")
    _common(compare, streams="1,4", prompts="64", output=64, requests=16)


def _common(parser: argparse.ArgumentParser, *, streams: str, prompts: str, output: int, requests: int) -> None:
    parser.add_argument(
        "--streams", type=numbers, default=numbers(streams), metavar="N,N", help=f"(default: {streams})"
    )
    parser.add_argument(
        "--prompt-tokens", type=numbers, default=numbers(prompts), metavar="N,N", help=f"(default: {prompts})"
    )
    parser.add_argument("--output-tokens", type=tokens, default=output, metavar="N", help=f"(default: {output})")
    parser.add_argument(
        "--requests", type=positive, default=requests, metavar="N", help=f"measured in each load (default: {requests})"
    )
    parser.add_argument("--warmup-requests", type=whole, default=2, metavar="N", help="before them (default: 2)")
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of the prompts (default: 0)")
    parser.add_argument(
        "--note", type=note, action="append", default=[], metavar="NAME=TEXT", help="kept in the result"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the result there as JSON")
    parser.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print that JSON instead of tables"
    )
