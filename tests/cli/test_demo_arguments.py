"""What the demo is told of HTTP reaches its engine."""

from engine.__main__ import parser
from engine.http.options import http_from
from kvtop.cli import build_parser
from kvtop.commands.demo import engine_arguments


def test_what_is_said_of_http_is_said_to_the_engine() -> None:
    asked = ["--http", "127.0.0.1:0", "--http-token", "t", "--metrics-names", "vllm"]
    given = engine_arguments(build_parser().parse_args(["demo", *asked]))
    config = http_from(parser().parse_args(given))
    assert config is not None
    assert (config.port, config.token, config.metrics_names) == (0, "t", "vllm")


def test_without_http_nothing_is_said_of_it() -> None:
    given = engine_arguments(build_parser().parse_args(["demo"]))
    assert http_from(parser().parse_args(given)) is None
