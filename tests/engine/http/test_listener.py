"""What the server says of itself before anybody asks."""

import pytest

from engine.http import listener
from engine.http.listener import HttpServer, within_files
from engine.http.settings import HttpConfig, HttpLimits


def said(monkeypatch: pytest.MonkeyPatch, files: int, **limits: int) -> list[str]:
    """When it begins to listen, where the process may have so many files open."""
    monkeypatch.setattr(listener, "_files", lambda: files)
    told: list[str] = []
    HttpServer(HttpConfig("127.0.0.1", 0, limits=HttpLimits(**limits)), told.append).stop()
    return told


@pytest.mark.parametrize(("files", "connections"), [(16, 1), (128, 1), (200, 72), (1024, 896), (1 << 20, 1024)])
def test_connections_leave_files_to_the_engine(files: int, connections: int) -> None:
    assert within_files(HttpLimits(), files).connections == connections


@pytest.mark.parametrize(("files", "connections"), [(16, "1 connection"), (256, "128 connections")])
def test_where_files_allow_few_connections_it_says_so_once(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: str
) -> None:
    (line,) = said(monkeypatch, files)
    assert f"no more than {connections}: " in line
    assert f"may have {files} files open" in line
    assert "ulimit -n 1152 is enough" in line


def test_where_they_allow_as_many_as_are_answered_at_a_time_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, 1024) == []
    assert said(monkeypatch, 256, requests=100) == []
    assert said(monkeypatch, 256, connections=5) == []
