"""Who may ask: tokens, names that lead here, and places that others reach."""

from pathlib import Path

import pytest

from engine.__main__ import parser
from engine.http.options import http_from
from engine.http.settings import HttpConfig, HttpLimits, http_config, parse_place
from kvtop.cli import build_parser
from kvtop.commands.demo import engine_arguments
from tests.engine.http.kit import Serving

ASKED = {"prompt": "x", "max_tokens": 1}


def test_with_a_token_only_who_brings_it_is_answered(tmp_path: Path) -> None:
    it = Serving(tmp_path, token="s3cret")
    try:
        for given in (
            None,
            "",
            "Bearer",
            "Bearer ",
            "Bearer wrong",
            "Basic s3cret",
            "s3cret",
            "Bearer s3cret2",
            "Bearer é",
        ):
            headers = {} if given is None else {"Authorization": given}
            for method, path in (("POST", "/v1/completions"), ("GET", "/v1/models"), ("GET", "/nothing")):
                status, answer, told = it.ask(path, ASKED if method == "POST" else None, method=method, headers=headers)
                assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
                assert told["www-authenticate"] == "Bearer"
        for given in ("Bearer s3cret", "bearer s3cret"):
            assert it.ask("/v1/completions", ASKED, headers={"Authorization": given})[0] == 200
        assert it.ask("/health", method="GET")[0] == 200, "who only looks whether it lives needs none"
        elsewhere = {"Authorization": "Bearer s3cret", "Host": "engine.example"}
        assert it.ask("/v1/completions", ASKED, headers=elsewhere)[0] == 200
    finally:
        it.close()


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000", "[::1]", "a.localhost", "10.1.2.3"]
)
def test_addresses_and_localhost_are_this_machine(serving: Serving, host: str) -> None:
    assert serving.ask("/v1/completions", ASKED, headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example"]
)
def test_a_name_that_somebody_made_to_lead_here_is_not(serving: Serving, host: str) -> None:
    for path in ("/v1/completions", "/health"):
        status, answer, _ = serving.ask(path, ASKED, headers={"Host": host})
        assert (status, answer["error"]["param"]) == (403, "Host")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_web_page_can_send_unasked_is_refused(serving: Serving, kind: str) -> None:
    status, answer, headers = serving.ask("/v1/completions", ASKED, headers={"Content-Type": kind})
    assert (status, answer["error"]["code"]) == (415, "content_type")
    assert not any(name.startswith("access-control") for name in headers)
    assert serving.ask("/v1/completions", method="OPTIONS")[0] == 405


def test_places() -> None:
    assert parse_place("127.0.0.1:8000") == ("127.0.0.1", 8000)
    assert parse_place("8000") == parse_place(":8000") == ("127.0.0.1", 8000)
    assert parse_place("[::1]:0") == ("::1", 0)
    assert http_config("127.0.0.1:1", "", open_to_all=False) == HttpConfig("127.0.0.1", 1)
    for place in ("0.0.0.0:1", "[::]:1", "192.0.2.7:1", "host.example:1"):
        with pytest.raises(ValueError, match="KVTOP_HTTP_TOKEN"):
            http_config(place, "", open_to_all=False)
        assert http_config(place, "t", open_to_all=False).token == "t"
        assert http_config(place, "", open_to_all=True).guarded is False


def test_limits_that_make_no_sense() -> None:
    for wrong in ({"depth": 0}, {"queue": -1}, {"request_seconds": 0.0}, {"body_seconds": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            HttpLimits(**wrong)  # type: ignore[arg-type]


def test_the_demo_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOP_HTTP_TOKEN", "of-the-environment")
    words = ["demo", "--model", "random", "--http", "0.0.0.0:8000"]
    for more, token in (["--http-token", "given"], "given"), ([], "of-the-environment"):
        arguments = engine_arguments(build_parser().parse_args([*words, *more]))
        assert http_from(parser().parse_args(arguments)) == HttpConfig("0.0.0.0", 8000, token)
    monkeypatch.delenv("KVTOP_HTTP_TOKEN")
    arguments = engine_arguments(build_parser().parse_args([*words, "--http-open"]))
    assert http_from(parser().parse_args(arguments)) == HttpConfig("0.0.0.0", 8000)
    assert http_from(parser().parse_args(engine_arguments(build_parser().parse_args(["demo"])))) is None
