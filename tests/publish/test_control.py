"""Controllers on a real socket."""

import contextlib
import socket
import threading
import time
from pathlib import Path

import pytest

from kvtop.protocol import Bye, Fault, Hello, Reply
from kvtop.publish import Publisher
from kvtop.publish.server import MAX_CONTROLLERS
from tests.publish.kit import Peer, hello, running, wait_until


def test_each_command_is_answered_with_its_id(folder: Path) -> None:
    with running(folder), Peer(folder / "toy.ctl.sock") as peer:
        assert isinstance(peer.read(), Hello)
        peer.send({"type": "hello", "protocol": "1.0", "client": "test"})
        peer.send({"type": "pause", "id": "a"}, {"type": "abort", "id": "b", "request": 3})
        assert [peer.of(Reply).message for _ in range(2)] == ["a", "b"]


def test_two_controllers_with_the_same_ids_get_their_own_answers(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    try:
        with Peer(folder / "toy.ctl.sock") as one, Peer(folder / "toy.ctl.sock") as two:
            one.send({"type": "abort", "id": "x", "request": 1})
            two.send({"type": "abort", "id": "x", "request": 2})
            open_commands = []
            wait_until(lambda: len(open_commands) == 2 or open_commands.extend(publisher.commands()), "both commands")
            for pending in reversed(open_commands):
                pending.reply(True, message=f"request {pending.command.request}")
            assert one.of(Reply).message == "request 1"
            assert two.of(Reply).message == "request 2"
    finally:
        publisher.stop("done")


def test_a_pipe_that_ends_its_input_still_gets_the_answer_and_then_the_end(folder: Path) -> None:
    with running(folder), Peer(folder / "toy.ctl.sock") as peer:
        peer.send({"type": "pause", "id": "a"})
        peer.sock.shutdown(socket.SHUT_WR)
        assert peer.of(Reply).id == "a"
        assert peer.line() == b""


def test_an_asker_that_is_gone_is_no_trouble(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    try:
        with Peer(folder / "toy.ctl.sock") as peer:
            peer.send({"type": "pause", "id": "a"})
            open_commands = []
            wait_until(lambda: open_commands or open_commands.extend(publisher.commands()), "the command")
        open_commands[0].reply(True)
        with Peer(folder / "toy.ctl.sock") as peer:
            assert isinstance(peer.read(), Hello)
    finally:
        publisher.stop("done")


def test_a_command_without_an_answer_is_refused_when_the_engine_stops(folder: Path) -> None:
    publisher = Publisher(hello(), folder)
    publisher.start()
    with Peer(folder / "toy.ctl.sock") as peer:
        peer.send({"type": "pause", "id": "a"})
        open_commands = []
        wait_until(lambda: open_commands or open_commands.extend(publisher.commands()), "the command")
        publisher.stop("shutting down")
        reply = peer.of(Reply)
        assert (reply.id, reply.ok, reply.message) == ("a", False, "not done: shutting down")
        assert peer.read() == Bye(reason="shutting down")
        assert peer.ended()


def test_thousands_of_commands_without_reading_the_answers_are_held_back_not_stored(folder: Path) -> None:
    with running(folder) as engine, Peer(folder / "toy.ctl.sock") as flood, Peer(folder / "toy.ctl.sock") as other:
        line = b'{"type":"pause","id":"' + b"i" * 60 + b'"}\n'
        flood.sock.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 50_000_000:
                sent += flood.sock.send(line * 1000)
        assert sent < 50_000_000, "the sender has to stop"
        other.send({"type": "pause", "id": "mine"})
        assert other.of(Reply).id == "mine"
        # What was held back is not lost: as soon as the answers are read, the rest is taken.
        flood.sock.setblocking(True)
        flood.sock.settimeout(20)
        for _ in range(100):
            assert flood.of(Reply).ok
        assert engine.is_alive()


def test_idle_controllers_are_fine_but_bounded(folder: Path) -> None:
    with running(folder), contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(folder / "toy.ctl.sock")) for _ in range(MAX_CONTROLLERS)]
        for peer in peers:
            peer.read()
        with Peer(folder / "toy.ctl.sock") as late:
            fault = late.read()
            assert isinstance(fault, Fault)
            assert fault.code == "busy"
        peers[7].send({"type": "pause", "id": "still here"})
        assert peers[7].of(Reply).ok
        peers[3].sock.shutdown(socket.SHUT_RDWR)
        time.sleep(0.05)
        with Peer(folder / "toy.ctl.sock") as next_one:
            assert isinstance(next_one.read(), Hello)


def test_a_sleeping_engine_wakes_for_a_command(folder: Path) -> None:
    publisher = Publisher(hello(), folder, keyframe_every=1e9)
    publisher.start()
    try:
        woke = threading.Event()

        def sleep() -> None:
            publisher.wait(3600)
            woke.set()

        threading.Thread(target=sleep, daemon=True).start()
        with Peer(folder / "toy.ctl.sock") as peer:
            peer.read()
            assert not woke.is_set()
            peer.send({"type": "pause", "id": "a"})
            wait_until(woke.is_set, "the engine to wake up")
            assert [pending.command.id for pending in publisher.commands()] == ["a"]
    finally:
        publisher.stop("done")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (
            {"type": "migrate", "to": "elsewhere"},
            "cannot take the command 'migrate': this engine does not know its type",
        ),
        ({"type": "abort", "request": 1, "gently": True}, "it does not know the field 'gently'"),
        ({"type": "set_policy", "changes": {"a": 1}, "transition": "melt"}, "set_policy.transition: Input should be"),
        ({"type": "abort", "request": 1, "run": "r" * 65}, "abort.run: String should have at most 64 characters"),
    ],
    ids=["command", "field", "value", "length"],
)
def test_what_a_newer_controller_asks_is_refused_in_a_sentence_and_the_connection_goes_on(
    folder: Path, command: dict[str, object], why: str
) -> None:
    with running(folder) as engine, Peer(folder / "toy.ctl.sock") as peer:
        peer.send({"type": "hello", "protocol": "1.99", "client": "newer", "colour": "green"})
        peer.send({"id": "n", **command})
        reply = peer.of(Reply)
        assert (reply.id, reply.ok) == ("n", False)
        assert reply.message.startswith("this engine, of protocol 1.")
        assert why in reply.message
        assert engine.asked == [], "nothing of it was done"
        peer.send({"type": "pause", "id": "p"})
        assert peer.of(Reply).id == "p"
