"""Which engine is meant where two have one name, as engines started in two environments can."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtop.commands import target
from kvtop.commands.load_target import server_url
from kvtop.errors import UserError
from kvtop.protocol.places import Place
from kvtop.sources.discover import Found, Search
from tests.cli.fakes import fake_hello

HERE, THERE = Path("/run/here/kvtop/demo.sock"), Path("/run/there/kvtop/demo.sock")
FOUND = [
    Found("demo", HERE, True, None, ""),
    Found("demo", THERE, True, None, ""),
    Found("other", Path("/run/o.sock"), True, None, ""),
]


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "all_engines", lambda *_: Search(FOUND, []))


def test_engines_of_one_name_are_told_apart_by_their_sockets() -> None:
    """Both were called demo, and the advice was to give that name."""
    with pytest.raises(UserError) as refused:
        target.find_engine(None)
    assert str(refused.value) == f"3 engines are running: {HERE}, {THERE}, other"
    assert refused.value.hint == "choose one: -e NAME|SOCKET"


def test_a_load_by_name_goes_to_no_namesake_of_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have filled the queue of an engine that somebody else serves."""
    hello = fake_hello("other")
    served = hello.model_copy(update={"engine": hello.engine.model_copy(update={"http": "http://127.0.0.1:8011"})})
    far = Found("other", Path("/run/there/kvtop/other.sock"), True, served, "")
    monkeypatch.setattr(target, "all_engines", lambda *_: Search([far], []))
    monkeypatch.setattr(target, "places", lambda: [Place(Path("/run/here/kvtop"))])
    with pytest.raises(UserError) as refused:
        server_url("other")
    assert str(refused.value).startswith("engine other is not one of /run/here/kvtop, but of /run/there/kvtop")
    assert refused.value.hint == "if it is: kvtop load http://127.0.0.1:8011"
    monkeypatch.setattr(target, "places", lambda: [Place(Path("/run/there/kvtop"))])
    assert server_url("other") == "http://127.0.0.1:8011"


def test_a_name_that_two_have_chooses_neither(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It chose the first."""
    answers: Iterator[str] = iter(["demo", str(THERE)])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(answers))
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert target.find_engine(None, ask=True).path == THERE
    shown = capsys.readouterr().out
    assert f"1  {HERE}" in shown
    assert f"2  {THERE}" in shown
    assert "3  other" in shown
