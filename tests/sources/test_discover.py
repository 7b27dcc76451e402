import socket
from pathlib import Path

from kvtop.sources.discover import live_engines
from tests.publish.kit import hello, running
from tests.sources.kit import Line, Scripted


def test_no_folder_and_an_empty_one_hold_no_engines(folder: Path) -> None:
    assert live_engines(folder) == []
    assert live_engines(folder / "missing") == []


def test_the_living_come_with_their_hello_and_the_dead_with_the_reason(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(folder / "dead.sock"))
    (folder / "file.sock").write_text("no socket")
    silent = Scripted(folder / "silent.sock", Line.until_closed)
    old = Scripted(folder / "old.sock", lambda line: line.say(hello().model_copy(update={"protocol": "0.1"})))
    with running(folder):
        found = {one.name: one for one in live_engines(folder, timeout=0.5)}
    silent.close()
    old.close()
    assert sorted(found) == ["dead", "file", "old", "silent", "toy"]
    assert [name for name, one in found.items() if one.alive] == ["toy"]
    assert found["toy"].hello == hello()
    assert found["toy"].path == folder / "toy.sock"
    assert found["toy"].detail == ""
    assert "nobody is listening" in found["dead"].detail
    assert found["file"].detail
    assert "did not answer in time" in found["silent"].detail
    assert "speaks protocol 0.1" in found["old"].detail
