import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvtop.protocol import Abort, Bye, Fault, Pause, Reply, SetPolicy
from kvtop.sources.control import ControlClient, ControlError
from tests.publish.kit import hello, running
from tests.sources.kit import Line, Scripted


@pytest.fixture
def scripted(folder: Path) -> Iterator[Callable[..., Path]]:
    made: list[Scripted] = []

    def script(*scripts: Callable[[Line], None]) -> Path:
        made.append(Scripted(folder / "toy.ctl.sock", *scripts))
        return made[-1].path

    yield script
    for one in made:
        one.close()


def test_a_command_comes_back_as_its_reply(folder: Path) -> None:
    with running(folder):
        client = ControlClient(folder / "toy.ctl.sock")
        assert client.hello().engine.name == "toy"
        first = client.send(Pause(id="one"))
        assert (first.ok, first.id, first.iteration) == (True, "one", 1)
        assert client.send(SetPolicy(id="two", changes={"queue": "fcfs"})).id == "two"


def test_a_command_for_another_run_is_not_sent(folder: Path) -> None:
    with running(folder) as engine:
        client = ControlClient(folder / "toy.ctl.sock")
        with pytest.raises(
            ControlError, match=r"^not sent: this was meant for run run-0 .* is over; .* now is run run-1$"
        ):
            client.send(Abort(id="one", run="run-0", request=3))
        assert engine.asked == []
        assert client.send(Abort(id="two", run="run-1", request=3)).ok


def test_other_lines_and_other_answers_are_passed_over(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello())
        line.sock.sendall(b'{"type":"novelty"}\n')
        line.say(Reply(id="other", ok=True), Reply(id="mine", ok=False, message="no"))
        line.until_closed()

    assert ControlClient(scripted(script)).send(Pause(id="mine")) == Reply(id="mine", ok=False, message="no")


def _refuses(path: Path, words: str, timeout: float = 20.0) -> None:
    with pytest.raises(ControlError, match=words) as caught:
        ControlClient(path).send(Pause(id="1"), timeout)
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value) or "refused" in str(caught.value) or "left" in str(caught.value)


def test_no_socket_says_how_to_find_one(folder: Path) -> None:
    _refuses(folder / "toy.ctl.sock", "no such socket: .*; `kvtop ls`")


def test_a_dead_engine(folder: Path, scripted: Callable[..., Path]) -> None:
    path = scripted()
    path.unlink()
    import socket

    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
    _refuses(path, "nobody is listening on .*; its engine is gone")


def test_no_answer_in_time(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello())
        line.until_closed()

    _refuses(scripted(script), "no answer within 0.2 s; .* look before trying again", timeout=0.2)


def test_no_hello_in_time(scripted: Callable[..., Path]) -> None:
    _refuses(scripted(Line.until_closed), "did not answer in time; `kvtop ls`", timeout=0.2)


def test_a_trickle_of_bytes_does_not_stretch_the_time(scripted: Callable[..., Path]) -> None:
    done = threading.Event()

    def script(line: Line) -> None:
        while not done.wait(0.02):
            line.sock.sendall(b" ")

    _refuses(scripted(script), "did not answer in time", timeout=0.2)
    done.set()


def test_another_version(scripted: Callable[..., Path]) -> None:
    _refuses(
        scripted(lambda line: line.say(hello().model_copy(update={"protocol": "2.0"}))),
        "speaks protocol 2.0, .* use the same kvtop version on both sides",
    )


def test_a_refused_line(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello(), Fault(code="unknown_type", message="line 2: this engine does not know its type"))
        line.until_closed()

    _refuses(scripted(script), "could not use the command: line 2: .*; use the same kvtop version")


def test_an_engine_that_leaves_meanwhile(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello(), Bye(reason="maintenance"))
        line.until_closed()

    _refuses(scripted(script), "left before it answered: maintenance")


def test_an_engine_that_dies_meanwhile(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello())
        line.hear()

    _refuses(scripted(script), "closed the connection before it answered; see with `kvtop ls`")


def test_words_that_would_steer_the_terminal_are_made_harmless(scripted: Callable[..., Path]) -> None:
    def script(line: Line) -> None:
        line.say(hello(), Bye(reason="\x1b]0;owned\x07\nand \u202emore"))
        line.until_closed()

    _refuses(scripted(script), r"left before it answered: \?\]0;owned\?\?and \?more")


def test_garbage(scripted: Callable[..., Path]) -> None:
    _refuses(scripted(lambda line: line.sock.sendall(b"220 mail ready\n")), "line 1: not JSON.*no kvtop engine")


def test_a_command_that_is_too_long_is_not_sent(folder: Path) -> None:
    with pytest.raises(ControlError, match=r"longer than 65536 bytes"):
        ControlClient(folder / "toy.ctl.sock").send(SetPolicy(id="1", changes={"a": "x" * 70_000}))
