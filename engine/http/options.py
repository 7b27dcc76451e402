"""The HTTP server's part of the command line."""

import argparse
import os

from engine.http.settings import METRICS_NAMES, MOST, HttpConfig, HttpLimits, http_config

TOKEN_VARIABLE = "KVTOP_HTTP_TOKEN"

_LIMITS = {
    "body_bytes": "bytes of a request's body",
    "prompt_tokens": "tokens of a prompt, 0 for what the context has room for",
    "requests": "requests answered at a time",
    "queue": "requests in the engine's queue",
    "request_seconds": "seconds for an answer",
    "body_seconds": "seconds for a body to come",
}
"""Those that are options, by field of `HttpLimits`."""


def _option(limit: str) -> str:
    return f"--http-max-{limit.replace('_', '-')}"


def add_http_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("HTTP, as OpenAI's clients speak it")
    group.add_argument("--http", default="", metavar="HOST:PORT", help="serve it there; port 0: any (default: nowhere)")
    group.add_argument(
        "--http-token",
        default="",
        metavar="TOKEN",
        help=f"what clients must bring as bearer token (default: ${TOKEN_VARIABLE}, which other users cannot see)",
    )
    group.add_argument("--http-open", action="store_true", help="other hosts may ask without a token")
    limits = HttpLimits()
    for field, what in _LIMITS.items():
        default = getattr(limits, field)
        group.add_argument(
            _option(field),
            type=type(default),
            default=default,
            metavar="N",
            help=f"{what} at most (default: {default:g})",
        )
    group.add_argument(
        "--metrics-names",
        choices=METRICS_NAMES,
        default=METRICS_NAMES[0],
        help="/metrics by this engine's names, or by vLLM's for dashboards that know those (default: %(default)s)",
    )
    group.add_argument(
        "--drain-seconds",
        type=float,
        default=30.0,
        metavar="S",
        help="told to stop, answer what runs for so long; told again, stop at once (default: %(default)g)",
    )


def http_from(args: argparse.Namespace) -> HttpConfig | None:
    """None where no HTTP was asked for. Raises ValueError in one sentence."""
    limits = HttpLimits(**{field: getattr(args, f"http_max_{field}") for field in _LIMITS})
    if not 0.0 <= args.drain_seconds <= MOST:
        raise ValueError(f"--drain-seconds {args.drain_seconds:g} must be a number of seconds from 0 on")
    if not args.http:
        if args.http_token or args.http_open:
            raise ValueError("--http-token and --http-open are for --http, which was not given")
        if args.metrics_names != METRICS_NAMES[0]:
            raise ValueError("--metrics-names is for --http, which was not given")
        for field in _LIMITS:
            if getattr(limits, field) != getattr(HttpLimits(), field):
                raise ValueError(f"{_option(field)} is for --http, which was not given")
        return None
    token = args.http_token or os.environ.get(TOKEN_VARIABLE, "")
    return http_config(args.http, token, open_to_all=args.http_open, limits=limits, metrics_names=args.metrics_names)
